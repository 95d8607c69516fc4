"""Plans of clusters: bytes and rounds are those of a plan of all rows; time, memory and money follow from the parts."""

import json
from dataclasses import replace

import pytest

from mpc.errors import ConfigError
from protocols.offline.supply import WINDOW
from protocols.runtime.settings import Offline
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost import cluster as cluster_plan
from sharewood.cost.calibration import Computing
from sharewood.cost.cluster import GIB, PHASES, Cluster, LinearCost, plan_cluster, print_cluster_plan
from sharewood.cost.plan import plan

CONFIG = TrainConfig.of(n_estimators=4, max_depth=3, max_bin=16, learning_rate=0.3)


def linear(_, sizes):
    """Computing whose parts are known: seconds and bytes for each row, and others."""
    rows = sum(sizes.rows)
    return Computing(1 + rows * 1e-5, 2 + rows * 2e-5, 3 + rows * 3e-5, GIB // 4 + rows * 1024)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(cluster_plan, "PLANNED", (20_000, 40_000))


@pytest.mark.parametrize(
    ("offline", "more"), [("dealer", {}), ("pairwise", {}), ("dealer", {"partition": "vertical", "test_size": 0.1})]
)
def test_bytes_and_rounds_are_those_of_a_plan_of_all_rows(offline, more):
    config = TrainConfig.of(**{**CONFIG.model_dump(), **more})
    sizes = Sizes.numeric((90_000, 70_000), 3) if not more else Sizes((90_000,) * 2, (("a", "b"), ("c", "d")))
    found = plan_cluster(config, sizes, Cluster(shards=8), Offline(offline), measure=linear).estimate
    whole = plan(config, sizes)
    if offline == "dealer":
        assert found.rounds == whole.online.rounds and found.bytes_offline == 0
        assert found.bytes == pytest.approx(whole.online.bytes, rel=0.04)
        assert found.bytes_dealer == pytest.approx(whole.offline.bytes_dealer, rel=0.04)
    else:
        assert found.bytes_offline == pytest.approx(whole.pairwise.bytes, rel=0.04) and found.bytes_dealer == 0
        assert found.bytes == pytest.approx(whole.pairwise.bytes + whole.pairwise.online.bytes, rel=0.04)
        # Rounds of a shard, which makes less material than one process would.
        assert whole.pairwise.online.rounds < found.rounds < whole.pairwise.online.rounds + whole.pairwise.rounds


@pytest.mark.parametrize("rows", [(150_000, 120_000), (400_000, 2_000), (99_999, 99_999)])
def test_parts_of_many_rows_have_the_bins_of_all(rows):
    config, sizes = CONFIG.model_copy(update={"max_bin": 32}), Sizes.numeric(rows, 3)
    planned, whole = plan_cluster(config, sizes, Cluster(shards=4), measure=linear), plan(config, sizes)
    found = planned.estimate
    assert planned.config == config
    assert found.bytes == pytest.approx(whole.online.bytes, rel=0.04)
    assert found.bytes_dealer == pytest.approx(whole.offline.bytes_dealer, rel=0.04)


def test_rounds_do_not_depend_on_the_shards_and_seconds_of_rows_divide_by_them():
    sizes = Sizes.numeric((10**8 // 2, 10**8 // 2), 3)
    few, many, turns = (
        plan_cluster(CONFIG, sizes, Cluster(shards, workers, link=1e9), measure=linear).estimate
        for shards, workers in ((4, None), (32, None), (32, 4))
    )
    assert few.rounds == many.rounds == turns.rounds and few.bytes == many.bytes == turns.bytes
    assert few.row_seconds["online"] == pytest.approx(4 * 3e-5 * 10**8 / 4)
    for phase in PHASES:
        assert few.row_seconds[phase] == pytest.approx(8 * many.row_seconds[phase])
        assert turns.row_seconds[phase] == pytest.approx(few.row_seconds[phase])
        assert few.other_seconds[phase] == pytest.approx(many.other_seconds[phase])
        assert few.seconds[phase] == few.network_seconds[phase] + few.row_seconds[phase] + few.other_seconds[phase]
    assert few.other_seconds == pytest.approx({"setup": 1, "offline": 8, "online": 12})
    assert few.total_seconds == few.seconds["setup"] + max(few.seconds["offline"], few.seconds["online"])
    # The link is what all workers share: both directions at once, of which one has the larger part.
    bits = 8 * few.bytes / 1e9
    assert bits / 2 < few.network_seconds["setup"] + few.network_seconds["online"] < bits * 1.1


def test_memory_tells_the_shards():
    sizes = Sizes.numeric((4_000_000, 4_000_000), 3)
    found = plan_cluster(CONFIG, sizes, Cluster(memory=2), measure=linear)
    assert found.shards == found.estimate.shards_needed == 5  # 8 * 10^6 KiB over 1.7 GiB
    assert 0 < found.estimate.memory - (GIB // 4 + 8e6 * 1024 / 5) <= WINDOW
    assert found.estimate.memory <= 2 * GIB
    fewer = plan_cluster(CONFIG, sizes, Cluster(shards=4, memory=2), measure=linear)
    assert fewer.shards == 4 and fewer.estimate.shards_needed == 5 and fewer.estimate.memory > 2 * GIB
    with pytest.raises(ConfigError, match=r"memory must be above 1 GiB for a worker of this training, got 0.25"):
        plan_cluster(CONFIG, sizes, Cluster(memory=0.25), measure=linear)


def test_files_beyond_the_memory_take_the_disk_and_every_shard_a_start():
    sizes = Sizes.numeric((4_000_000, 4_000_000), 3)

    def measure(config, some):
        return replace(linear(config, some), start=0.5 if max(some.rows) < 50_000 else 2.0)  # the same, but for noise

    held, small = (
        plan_cluster(CONFIG, sizes, Cluster(4, workers, memory, disk=1e9), measure=measure).estimate
        for workers, memory in ((4, 64), (1, 4))
    )
    # The masked bins of the other party's rows, 64 local ones per feature.
    assert held.files == small.files == pytest.approx(10**6 * 3 * 64 * 4, rel=0.05)
    assert held.disk_seconds == dict.fromkeys(PHASES, 0.0)
    room = 4 * GIB - (GIB // 4 + 2e6 * 1024)
    assert small.disk_seconds["setup"] == pytest.approx(4 * small.files / 1e9)
    assert small.disk_seconds["online"] == pytest.approx(4 * 3 * max(0, 4 * small.files - room) / 1e9)
    assert small.other_seconds["setup"] - held.other_seconds["setup"] == pytest.approx(3 * 0.5)


def test_money_is_hours_and_gigabytes(capsys):
    sizes = Sizes.numeric((4_000_000, 4_000_000), 3)
    cluster = Cluster(workers=8, memory=2, hour_price=0.5, gigabyte_price=0.1)
    found = plan_cluster(CONFIG, sizes, cluster, measure=linear)
    estimate = found.estimate
    assert estimate.worker_hours == pytest.approx(16 * estimate.total_seconds / 3600)
    sent = (estimate.bytes + estimate.bytes_dealer) / 1e9
    assert estimate.price == pytest.approx(0.5 * estimate.worker_hours + 0.1 * sent)
    print_cluster_plan(found)
    said = " ".join(capsys.readouterr().out.split())
    assert "8 shards on 8 workers" in said and "2 GiB need 5 shards" in said and "at the prices given" in said
    assert json.loads(json.dumps(found.document()))["estimate"]["bytes"] == estimate.bytes


def test_sizes_of_parts_keep_what_is_held_out():
    sizes = Sizes((1_000_000, 20), (("a",), ("a",)), validation_rows=(1000, 0))
    x, some = cluster_plan._part(sizes, 50_000)
    assert x == 0.05 and some.rows == (50_000, 1) and some.validation_rows == (50, 0)
    assert cluster_plan._part(sizes, 10**7)[1] == sizes


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"shards": 0}, "shards must be at least 1, got 0"),
        ({"shards": 2, "workers": 3}, "workers must be at most the number of shards, 2, got 3"),
    ],
)
def test_clusters_that_are_none(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Cluster(**given)


def test_lines_have_no_negative_part():
    assert LinearCost.through((0.1, 2.0), (0.3, 4.0)) == LinearCost(pytest.approx(1.0), pytest.approx(10.0))
    assert LinearCost.through((0.1, 1.0), (0.3, 9.0)) == LinearCost(0.0, pytest.approx(30.0))
    assert LinearCost.through((0.1, 3.0), (0.2, 2.0)) == LinearCost(0.0, 10.0)
    assert LinearCost.through((0.1, 3.0), (0.2, 3.0)) == LinearCost(3.0, 0.0)
    assert LinearCost.through((1.0, 3.0), (1.0, 2.0)) == LinearCost(2.0, 0.0)
