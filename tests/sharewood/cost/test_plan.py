"""The plan of a training, compared with the cost of a training between two processes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mpc.errors import ConfigError
from protocols.offline.pairwise.client import count_transfers
from protocols.runtime.local import run_session
from protocols.runtime.settings import Offline
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes, plan_training
from sharewood.cli import app
from sharewood.cost.calibration import Computing, calibrate
from sharewood.cost.plan import plan
from sharewood.cost.plan_tables import print_plan
from sharewood.job.config import HostsConfig
from sharewood.job.sizes import planned

NAMES = "w", "x", "y", "kind=a", "kind=b"


@pytest.mark.parametrize(
    ("parameters", "more"),
    [
        ({}, {}),
        ({"test_size": 0.2, "eval_epochs": 2}, {}),
        ({"colsample_bytree": 0.5, "subsample": 0.5}, {}),
        ({"missing": ("w", "kind")}, {"largest_weight": 3.0}),
        ({"edges": "joint", "edge_bits": 16}, {"largest_weight": 3.0}),
        ({"edges": "joint", "edge_bits": 16}, {"owner_rows": (20, 35)}),
        ({"partition": "vertical", "test_size": 0.2}, {"owner_names": (("p", "q"), ("r",))}),
        ({"monotone_constraints": {"w": 1, "y": -1}}, {}),
        ({"interaction_constraints": [["w", "x"], ["x", "kind"]]}, {}),
        ({"num_parallel_tree": 3, "subsample": 0.5, "test_size": 0.2}, {}),
        ({"edges": "private", "local_bins": 16, "test_size": 0.2}, {}),
        ({"objective": "multi:ova", "num_class": 3, "missing": "all"}, {"validation_rows": (5, 0)}),
        ({"objective": "count:poisson", "test_size": 0.2, "eval_epochs": 2}, {}),
        ({"partition": "vertical", "test_size": 0.2, "missing": ("w", "kind")}, {}),
        (
            {"partition": "vertical", "objective": "reg:squarederror"},
            {"validation_rows": (6, 6), "largest_weight": 3.0},
        ),
    ],
)
def test_the_plan_is_what_happens(parameters, more):
    parameters = (
        dict(objective="binary:logistic", n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.3) | parameters
    )
    vertical = parameters.get("partition") == "vertical"
    # Sampled features have the same number of candidates only if no indicator is among them.
    every = NAMES[:3] if "colsample_bytree" in parameters else NAMES
    rows, names = ((40, 40), (NAMES[:2], NAMES[2:])) if vertical else ((30, 40), (every, every))

    def draw(rng, n, features):
        columns = {name: rng.normal(size=n) for name in features if "=" not in name}
        if "kind=a" in features:
            columns["kind"] = pd.Categorical(rng.choice(["a", "b"], n), ["a", "b"])
        return pd.DataFrame(columns), np.arange(n) % parameters.get("num_class", 2)

    def job(party):
        rng = np.random.default_rng(party.rank)

        def table(n):
            X, y = draw(rng, n, names[party.rank])
            return X, None if vertical and party.rank else y

        X, y = table(rows[party.rank])
        weights = np.full(len(X), 3.0) if more.get("largest_weight") and y is not None else None
        held = more.get("validation_rows", (0, 0))[party.rank]
        kind = SecureXGBClassifier if TrainConfig.of(**parameters).logistic else SecureXGBRegressor
        model, given = kind(**parameters), party.contributed
        model.fit(party, X, y, weights, eval_set=table(held) if held else None, contributed=given)
        return {name: [s.rounds, s.bytes_sent, s.bytes_dealt] for name, s in party.stages.items()}

    owners = {f"o{k}": draw(np.random.default_rng(5 + k), n, every) for k, n in enumerate(more.get("owner_rows", ()))}
    columns = enumerate(more.get("owner_names", ()))
    owners |= {f"o{k}": (draw(np.random.default_rng(5 + k), 40, own)[0], None) for k, own in columns}
    outcome = run_session(job, owners=owners)
    first, second = (outcome[name]["result"] for name in ("party_a", "party_b"))
    expected = plan(TrainConfig.of(**parameters), Sizes(rows, names, **more))
    measured = ["setup", "online"]
    assert expected.online.rounds == sum(first[s][0] for s in measured)
    assert expected.online.setup_rounds == first["setup"][0]
    sent = sum(party[s][1] for party in (first, second) for s in measured)
    assert expected.online.bytes == pytest.approx(sent, rel=0.05)
    dealt = sum(party[s][2] for party in (first, second) for s in ("setup", "offline"))
    assert expected.offline.bytes_dealer == pytest.approx(dealt, rel=0.05)
    waited = expected.network_seconds["WAN"]
    assert waited["setup"] + waited["online"] > expected.online.rounds * 20e-3


def test_the_time_is_the_networks_and_the_machines(capsys):
    config = TrainConfig.of(n_estimators=3, max_depth=2, max_bin=8)
    report = plan(config, Sizes.numeric((30, 40), 4), Computing(setup=1.0, offline=2.0, online=3.0))
    assert report.times.computing_seconds == {"setup": 1.0, "offline": 6.0, "online": 9.0}
    for name, waited in report.network_seconds.items():
        times = report.times.seconds[name]
        assert times["setup"] == waited["setup"] + 1 and times["online"] == waited["online"] + 9
        assert times["offline"] == max(waited["offline"], 6.0)
    print_plan(report, ("a", "b"), details=True)
    said = capsys.readouterr().out
    assert f"{report.times.seconds['WAN']['online']:.2f}" in said
    dealt = [sum(count[party] for count in report.offline.bytes_by_kind.values()) for party in ("party_0", "party_1")]
    assert re.search(rf"in all\W+{dealt[0]:,}\W+{dealt[1]:,}\W", said)


def test_a_total_for_each_kind_of_line(capsys):
    config = TrainConfig.of(n_estimators=20, max_depth=4, max_bin=32)
    link = {"your line": (20e-3, 50e6)}
    own, paired = Computing(1.0, 0.1, 0.1, start=2.0), Computing(1.0, 0.2, 0.1, start=3.0)
    report = plan(config, Sizes.numeric((5000, 5000), 20), own, paired, networks=link)
    seconds, totals = report.times.seconds["your line"], report.times.totals["your line"]
    # The dealer's uplink is the bottleneck if it serves both parties; otherwise it is the phase online or dealing.
    assert totals["pair"] >= 2 + seconds["setup"] + seconds["online"]
    assert totals["host"] >= max(totals["pair"], 2 + seconds["setup"] + 8 * report.offline.bytes_dealer * 0.95 / 50e6)
    # Two parties make material in halves, one of which computes while the other is in transit: less than the sum.
    without, waiting = report.pairwise.times.seconds["your line"], report.pairwise.network_seconds["your line"]
    assert max(waiting["offline"], 20 * 0.2) < without["offline"] < waiting["offline"] + 20 * 0.2
    assert report.pairwise.times.totals["your line"]["host"] == 3 + without["setup"] + without["offline"]
    # A round in which one party sends takes as long as the bytes of that party, although the other sends later.
    needed = report.pairwise
    waited = needed.network_seconds["your line"]["setup"] + needed.network_seconds["your line"]["offline"]
    assert waited > (needed.rounds + needed.online.setup_rounds) * 10e-3 + 1.1 * needed.bytes / 2 * 8 / 50e6
    print_plan(report, ("a", "b"), link)
    said = capsys.readouterr().out
    assert re.search(r"your line\W+20 ms\W+50 ", said) and "WAN" not in said
    assert f"about {totals['host']:,.0f}" in said and f"about {totals['pair']:,.0f}" in said
    # The first number of the page is the one that an operator wants.
    assert said.index("about") < said.index("rounds") and "DotMasks" not in said


def test_the_plan_prints_what_edges_cost(capsys):
    printed = {}
    for edges in ("joint", "private"):
        config = TrainConfig.of(n_estimators=2, max_depth=2, max_bin=8, edges=edges)
        print_plan(plan(config, Sizes.numeric((30, 40), 4), Computing(1.0, 2.0, 3.0)), ("a", "b"))
        printed[edges] = " ".join(capsys.readouterr().out.split())
    assert "of these in set-up, with 8 bins with joint edges:" in printed["joint"]
    assert "of these in set-up, with 8 bins with private edges, 32 local ones:" in printed["private"]


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ({"objective": "reg:squarederror", "test_size": 0.2}, Sizes.numeric((30, 40), 3)),
        (
            {"partition": "vertical", "missing": ("w", "kind")},
            Sizes((20, 20), (NAMES[:2], NAMES[2:]), largest_weight=3.0),
        ),
    ],
)
def test_computing_is_measured_without_data(more, sizes):
    config = TrainConfig.of(n_estimators=3, max_depth=2, max_bin=8, **more)
    measured = calibrate(config, sizes)
    assert min(measured.setup, measured.offline, measured.online) > 0


@pytest.mark.parametrize(
    ("parameters", "sizes", "sentence"),
    [
        ({"partition": "vertical"}, Sizes((30, 40), (("x",), ("y",))), "the same number of rows"),
        ({}, Sizes((30, 40), (("x",), ("y",))), "the same features"),
        ({"missing": ("age",)}, Sizes((30, 30), (("x",), ("x",))), "missing: no party has a feature 'age'"),
    ],
)
def test_sizes_that_contradict_each_other(parameters, sizes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plan(TrainConfig.of(**parameters), sizes)


SCHEMA = (
    'id = "id"\nage = { type = "numeric", missing = true }\nkind = { type = "categorical", categories = ["a", "b"] }\n'
)


@pytest.fixture
def job(tmp_path):
    """Write a configuration of one party that names a schema file; tests fill in [plan] and [train]."""

    def job(plan, train="", schema=SCHEMA):
        (tmp_path / "schema.toml").write_text(schema)
        text = 'tls = "keys"\n[dealer]\naddress = "localhost:1"\n[parties.a]\naddress = "localhost:2"\n'
        text += f'columns = "schema.toml"\n[parties.b]\n[plan]\n{plan}\n[train]\n{train}\n'
        (tmp_path / "a.toml").write_text(text)
        return HostsConfig.read(tmp_path / "a.toml")

    return job


def test_the_plan_reads_the_schema_file(job):
    names = "age", "kind=a", "kind=b"
    config, sizes = planned(job("rows = [40, 30]", 'missing = ["kind"]'))
    assert sizes == Sizes((40, 30), (names, names)) and config.missing == ("age", "kind")
    config, sizes = planned(job("rows = [40, 40]\nfeatures = [3, 2]", 'partition = "vertical"'))
    assert sizes.names == (names, ("f0", "f1")) and config.missing == ("age",)
    # A category is a candidate of its own: three numeric features need more.
    by_count = plan(config, Sizes((40, 40), (("age", "g", "h"), ("f0", "f1"))))
    assert plan(config, sizes).offline.bytes_dealer < 0.9 * by_count.offline.bytes_dealer


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {"LAN": (0.5e-3, 1e9), "WAN": (40e-3, 100e6)}),
        (["--link", "250"], {"your line": (40e-3, 250e6)}),
        (["--round-trip", "8"], {"your line": (8e-3, 100e6)}),
        (["--link", "20", "--round-trip", "60"], {"your line": (60e-3, 20e6)}),
    ],
)
def test_the_plan_is_for_ones_own_line(job, tmp_path, monkeypatch, given, expected):
    job("rows = [40, 30]", "n_estimators = 1\nmax_depth = 1\nmax_bin = 4")
    monkeypatch.setattr("sharewood.cost.calibration.calibrate", lambda *_: Computing(1.0, 2.0, 3.0))
    found = CliRunner().invoke(
        app, ["plan", "--config", str(tmp_path / "a.toml"), "--json", str(tmp_path / "p"), *given]
    )
    assert found.exit_code == 0, found.output
    written = json.loads((tmp_path / "p").read_text())
    for figures in (written["network_seconds"], written["seconds"], written["totals"], written["pairwise"]["totals"]):
        assert figures.keys() == expected.keys()
    for name, (round_trip, rate) in expected.items():
        assert re.search(rf"{name}\W+{1e3 * round_trip:g} ms\W+{rate / 1e6:g}\W", found.output)


@pytest.mark.parametrize(
    ("shape", "train", "sentence"),
    [
        ("rows = [40, 30]\nfeatures = 2", "", "plan.features must have 3 of a, as its schema file has, got 2"),
        (
            "rows = [40, 40]",
            'partition = "vertical"',
            "plan.features must be set: this configuration names no schema file of b",
        ),
    ],
)
def test_features_that_are_not_planned(job, shape, train, sentence):
    with pytest.raises(ConfigError, match=sentence):
        planned(job(shape, train))


def test_constraints_of_a_file_are_by_name_or_by_place(job):
    costs = []
    for given in ("{ age = 1 }", "[1, 0, 0]", '"(1,0,0)"', "{ }"):
        config, sizes = planned(job("rows = [40, 30]", f"monotone_constraints = {given}"))
        costs.append(plan(config, sizes).online.rounds)
    assert costs[0] == costs[1] == costs[2] > costs[3]
    for given, sentence in (
        ("{ income = 1 }", "no party has a feature 'income'"),
        ("[1, 0]", "a direction for each of the 3 features of both parties, got 2"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            plan(*planned(job("rows = [40, 30]", f"monotone_constraints = {given}")))


def test_groups_of_a_file_are_by_name_or_by_number(job):
    for given, sentence in (
        ('[["age", "income"], [0, 1]]', "no party has a column 'income'"),
        ("[[0, 1], [2, 3]]", "the columns of both parties are numbers 0 to 1, got 2"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            plan(*planned(job("rows = [40, 30]", f"interaction_constraints = {given}")))
    config, sizes = planned(job("rows = [40, 30]", 'interaction_constraints = [["age", 1]]'))
    assert config.interaction_constraints == (("age", 1),) and plan(config, sizes).online.rounds


def test_early_stopping_is_told(capsys):
    config = TrainConfig.of(n_estimators=7, max_depth=1, max_bin=4, early_stopping_rounds=2, test_size=0.2)
    print_plan(plan(config, Sizes.numeric((30, 40), 2), Computing(1.0, 2.0, 3.0)), ("a", "b"))
    assert "The plan has all 7 rounds of trees: a training that stops early takes less." in capsys.readouterr().out


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_the_plan_without_a_dealer_is_what_happens(partition):
    vertical = partition == "vertical"
    parameters = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "partition": partition, "edges": "joint"}
    rows, names = ((40, 40), (NAMES[:1], NAMES[1:3])) if vertical else ((30, 40), (NAMES[:3], NAMES[:3]))

    def job(party):
        X = np.random.default_rng(party.rank).normal(size=(rows[party.rank], len(names[party.rank])))
        y = None if vertical and party.rank else np.arange(rows[party.rank]) % 2
        SecureXGBClassifier(**parameters).fit(party, pd.DataFrame(X, columns=names[party.rank]), y)
        return {name: [stage.rounds, stage.bytes_sent + stage.bytes_received] for name, stage in party.stages.items()}

    outcome = run_session(job, offline=Offline("pairwise", "softspoken"), timeout=200)["party_a"]["result"]
    needed = plan(TrainConfig.of(**parameters), Sizes(rows, names), ot="softspoken").pairwise
    # The stage of set-up includes its handshakes and material; a portion also takes the rounds of its extensions.
    assert needed.online.rounds - needed.online.setup_rounds == outcome["online"][0]
    sent = needed.bytes + needed.online.bytes
    assert sent == pytest.approx(sum(bytes_ for _, bytes_ in outcome.values()), rel=0.1)


def test_trees_of_seeds_are_planned_once():
    sizes = Sizes.numeric((30, 40), 3)
    configs = [TrainConfig.of(n_estimators=n, max_depth=2, max_bin=8) for n in (1, 3)]
    one, three = (plan(config, sizes).pairwise.transfers for config in configs)
    _, tree, finish = plan_training(configs[0], sizes, dealer=False)
    assert three - one == 2 * sum(map(count_transfers, tree.requests + finish.requests)) > 0
