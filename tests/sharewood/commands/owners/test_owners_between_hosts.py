"""Owners who are no party contribute between hosts: the commands, their files, and what goes wrong."""

import json

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError
from sharewood.job.config import HostsConfig
from sharewood.job.owners import OwnerConfig
from tests.ports import free_port
from tests.sharewood.commands.hosting import (
    ROLES,
    both,
    both_end,
    dealing,
    ends_of,
    sharewood,
    start,
    write_job,
    write_owner,
)

OWNERS = ["bank_c", "bank_d"]
WITHDRAW = "withdraw", "--config", "party_a.toml", "--party", "party_a", "--owner", "bank_d"
TRAIN = {"n_estimators": 3, "max_depth": 2, "max_bin": 8, "edges": "joint", "edge_bits": 16}


def table(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)).round(3), columns=list("uvw"))
    return frame.assign(label=(frame["u"] + frame["v"] > 0).astype(int))


@pytest.fixture
def place(tmp_path):
    """Return a folder with the files of two parties, a dealer, and the owners bank_c and bank_d."""
    ports = [free_port() for _ in ROLES[:2]]
    sections = {
        name: {
            "train_data": f"{name}.csv", "model": f"{name}.npz", "predict_data": f"{name}.csv",
            "predictions": f"{name}.out.csv", "owners_address": f"127.0.0.1:{port}", "contributed": f"{name}.given",
        }
        for name, port in zip(ROLES[:2], ports, strict=True)
    }  # fmt: skip
    write_job(tmp_path, sections, OWNERS, train=TRAIN, owners={"names": OWNERS, "patience": 30})
    for name in OWNERS:
        write_owner(tmp_path, name, ports, {}, {"max_bin": 8, "edges": "joint"})
    for name, seed, rows in (("party_a", 1, 80), ("party_b", 2, 70), ("bank_c", 3, 90), ("bank_d", 4, 60)):
        table(rows, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def waiting(place):
    """Let parties wait for owners when they train, instead of collecting before."""
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        path.write_text("".join(line for line in path.open() if not line.startswith("contributed")))
    return place


def contributing(name, cwd):
    return start("contribute", "--config", f"{name}.toml", cwd=cwd)


def test_owners_that_have_left_are_trained_on_again_and_again(place):
    """Collected once by commands; trained with both, without one, and after a withdrawal."""
    with dealing(5, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        said = both("collect", cwd=place)
        ends = ends_of(owners)
        assert all(status == 0 for status, _, _ in ends.values()), ends
        both("train", "--json", "{}.train.json", cwd=place)
        both("train", "--without", "bank_c", "--json", "{}.without.json", cwd=place)
        withdrawn = sharewood(*WITHDRAW, cwd=place)
        uneven = both_end("train", cwd=place)
        for name in ROLES[:2]:
            path = place / f"{name}.toml"
            path.write_text(path.read_text().replace('["bank_c", "bank_d"]', '["bank_d"]'))
        unnamed = both_end("train", cwd=place)
    receipt = json.loads((place / "bank_c.json").read_text())
    assert f"bank_c: 90 rows, contribution {receipt['id']}" in said[0] and "bank_d: 60 rows" in said[1]
    assert {path.stat().st_mode & 0o777 for path in (place / "party_a.given").iterdir()} == {0o600}
    with_all, without = (json.loads((place / f"party_b.{kind}.json").read_text()) for kind in ("train", "without"))
    assert with_all["data"]["owners"] == {"bank_c": 90, "bank_d": 60} and without["data"]["owners"] == {"bank_d": 60}
    assert withdrawn[0] == 0 and "this party's half is deleted" in withdrawn[1] and "train it again" in withdrawn[1]
    assert [status for status, _, _ in uneven] == [2, 2] and "disagree on owners" in uneven[0][2], uneven
    assert [status for status, _, _ in unnamed] == [2, 2] and "has contributions of bank_c" in unnamed[1][2], unnamed
    again = sharewood(*WITHDRAW, cwd=place)
    assert again[0] == 2 and "has no contribution of bank_d" in again[2]


def test_collected_rows_are_screened_and_trained_on(place):
    explore = "\n[explore]\ntop = 2\nbins = 8\nfloors = {rows = 50, class_rows = 5, bits = 1.0}\n"
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        lines = path.read_text().replace(f"[parties.{name}]", f'[parties.{name}]\nscreened = "{name}.screened.json"')
        path.write_text(lines + explore)
    # This owner consents to the training only.
    path = place / "bank_d.toml"
    path.write_text(path.read_text().replace("[terms]\n", "[terms]\nexplore = false\n"))
    with dealing(3, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        both("collect", cwd=place)
        ends_of(owners)
        said = both("explore", "--without", "bank_d", "--json", "{}.explore.json", cwd=place)
        work = {
            name: start("train", "--config", f"{name}.toml", "--party", name, "--json", f"{name}.train.json",
                        "--screened", f"{name}.screened.json", cwd=place)
            for name in ROLES[:2]
        }  # fmt: skip
        ends = ends_of(work)
    assert all(status == 0 for status, _, _ in ends.values()), ends
    assert "whether the classes of an owner have enough rows" in said[0]
    assert json.loads((place / "party_b.explore.json").read_text())["features"] == {"party_a": ["u", "v"]}
    report = json.loads((place / "party_a.train.json").read_text())
    assert report["data"]["owners"] == {"bank_c": 90, "bank_d": 60} and report["data"]["features"] == 2


@pytest.mark.long
def test_numbers_with_weights_are_collected_trained_on_and_cross_validated(place):
    for name in (*ROLES[:2], *OWNERS):
        frame = pd.read_csv(place / f"{name}.csv")
        frame.assign(label=frame["u"] * 3 + 20, weight=1 + (frame["v"] > 0)).to_csv(place / f"{name}.csv", index=False)
    for name in (*ROLES[:2], *OWNERS):
        path, section = place / f"{name}.toml", "[owner]" if name in OWNERS else f"[parties.{name}]"
        text = path.read_text().replace(section, f'{section}\nweight = "weight"')
        path.write_text(text.replace("[train]\n", '[train]\nobjective = "squarederror"\n'))
    with dealing(3, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        both("collect", cwd=place)
        assert all(status == 0 for status, _, _ in ends_of(owners).values())
        both("train", cwd=place)
        said = both("cv", "--folds", "3", cwd=place)
    assert "rmse" in said[0] and said[0].splitlines()[0] == said[1].splitlines()[0]


@pytest.mark.long
def test_two_owners_contribute_to_a_training_between_hosts(place):
    waiting(place)
    with dealing(2, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        both("train", "--json", "{}.train.json", cwd=place)
        ends = ends_of(owners)
        assert all(status == 0 for status, _, _ in ends.values()), ends
        both("predict", cwd=place)
    report = json.loads((place / "party_a.train.json").read_text())
    assert report["data"]["rows"] == [80, 70] and report["data"]["owners"] == {"bank_c": 90, "bank_d": 60}
    for name, rows in (("bank_c", 90), ("bank_d", 60)):
        receipt = json.loads((place / f"{name}.json").read_text())
        assert receipt["rows"] == rows and len(receipt["receipts"]) == 2 and receipt["owner"] == name
        assert f"contributed {rows} rows to party_a and party_b" in ends[name][1]
    predicted = pd.read_csv(place / "party_a.out.csv")["prediction"]
    assert ((predicted > 0.5) == (table(80, 1)["label"] == 1)).mean() > 0.85


@pytest.mark.long
def test_an_owner_that_does_not_consent_is_named_and_nothing_is_trained(place):
    waiting(place)
    path = place / "bank_d.toml"
    path.write_text(path.read_text().replace("max_bin = 8", "max_bin = 16"))
    with dealing(1, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        trained = both_end("train", cwd=place)
        ends = ends_of(owners)
    assert [status for status, _, _ in trained] == [3, 3] and all("bank_d" in said for _, _, said in trained), trained
    assert ends["bank_d"][0] == 2 and "consents to max_bin 16, and the parties train with 8" in ends["bank_d"][2]
    assert ends["bank_c"][0] == 3 and ends["bank_c"][2].strip().splitlines()[-1].startswith("sharewood: "), ends
    assert not (place / "party_a.npz").exists() and not (place / "bank_d.json").exists()


@pytest.mark.long
def test_an_owner_that_does_not_come_is_named(place):
    waiting(place)
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        path.write_text(path.read_text().replace("patience = 30", "patience = 4"))
    with dealing(1, cwd=place):
        owner = contributing("bank_c", place)
        trained = both_end("train", cwd=place)
        ended = ends_of({"bank_c": owner})["bank_c"]
    assert all(status == 3 for status, _, _ in trained) and any(
        "bank_d did not connect" in said for *_, said in trained
    )
    assert ended[0] == 3 and "Traceback" not in ended[2]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('names = ["bank_c", "bank_d"]', 'names = ["party_a"]', "owners.names must not name a party or the dealer"),
        ('names = ["bank_c", "bank_d"]', 'names = ["x", "x"]', "owners.names must be distinct"),
        ('names = ["bank_c", "bank_d"]', "names = []", "owners.names"),
    ],
)
def test_owners_that_are_none_are_refused(place, old, new, sentence):
    path = place / "party_a.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=sentence):
        HostsConfig.read(path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[parties.party_b]", "[parties.bank_c]", "parties must name two parties besides bank_c"),
        ("max_bin = 8", "max_bin = -8", "max_bin"),
        ('address = "127.0.0.1', 'address = "127.0.0.1:x', "an address must be host:port"),
        ('name = "bank_c"', 'nome = "bank_c"', "owner.name must be set"),
    ],
)
def test_a_file_of_an_owner_is_checked(place, old, new, sentence):
    path = place / "bank_c.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=sentence):
        OwnerConfig.read(path)


def test_without_an_address_for_owners_nobody_waits(place):
    waiting(place)
    path = place / "party_a.toml"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "owners_address" not in line) + "\n")
    status, _, said = sharewood("train", "--config", path, "--party", "party_a", cwd=place)
    assert status == 2 and "parties.party_a.owners_address must be set" in said


def bounded(place, **limits):
    """Add bounds of owners to both files, and let waits be short."""
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        lines = "".join(f"{key} = {value}\n" for key, value in limits.items())
        path.write_text("timeout = 20\n" + path.read_text().replace("patience = 30", f"patience = 8\n{lines}"))
    return place


def test_an_owner_that_comes_to_one_party_only_is_left_out(place):
    bounded(place, least=1)
    path = place / "bank_d.toml"
    path.write_text(
        "patience = 5\n"
        + path.read_text().replace(
            "[parties.party_b]\naddress", f'[parties.party_b]\naddress = "127.0.0.1:{free_port()}"\n#'
        )
    )
    with dealing(1, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        said = both("collect", cwd=place)
        ends = ends_of(owners)
    assert all("bank_c: 90 rows" in each and "bank_d" not in each for each in said)
    assert (ends["bank_c"][0], ends["bank_d"][0]) == (0, 3), ends
    assert [[path.name for path in (place / f"{name}.given").iterdir()] for name in ROLES[:2]] == [["bank_c.npz"]] * 2


@pytest.mark.parametrize(
    ("limits", "command", "sentence"),
    [
        ({"until": "2020-01-01"}, "collect", "contributions are accepted until 2020-01-01 (owners.until)"),
        ({"least": 3}, "collect", "owners.least must be at most the number of names, 2, got 3"),
        ({"most_share": 1.5}, "collect", "owners.most_share must be at most 1"),
    ],
)
def test_bounds_are_checked_before_the_parties_connect(place, limits, command, sentence):
    status, _, said = sharewood(command, "--config", "party_a.toml", "--party", "party_a", cwd=bounded(place, **limits))
    assert status == 2 and sentence in said


def test_an_owner_checks_its_file(place):
    """The parties need not wait; a party that does goes on waiting."""
    said = sharewood("check", "--config", "bank_c.toml", "--seconds", 1, cwd=place)
    assert said[0] == 0 and all(line.startswith("ok") for line in said[1].splitlines()), said
    assert "keys/bank_c.crt is for bank_c" in said[1] and "nothing listens there yet" in said[1]
    sends = "bank_c.csv has 90 rows and 3 features: contributing sends 0.8 MB to party_b, once, with max_bin 8"
    assert sends in said[1] and sends in sharewood("plan", "--config", "bank_c.toml", cwd=place)[1]
    (place / "bank_d.csv").write_text("u,v,w,label\n1,2,x,1\n")
    (place / "keys" / "bank_d.crt").write_text("")
    status, *said = sharewood("check", "--config", "bank_d.toml", "--seconds", 1, cwd=place)
    assert (
        status == 2 and "error   certificate" in said[0] and "column 'w', line 2: value must be a number" in said[0]
    ), said
    assert "--party must be set" in sharewood("check", "--config", "party_a.toml", cwd=place)[2]


def test_a_check_does_not_end_a_collection(place):
    table(60, 4).to_csv(place / "bank_d.csv", index=False)
    with dealing(1, cwd=place):
        work = [start("collect", "--config", f"{name}.toml", "--party", name, cwd=place) for name in ROLES[:2]]
        for _ in range(40):
            _, said, _ = sharewood("check", "--config", "bank_c.toml", "--seconds", 2, cwd=place)
            if "party_a at 127.0.0.1" in said and said.count("listens, and its certificate holds") == 2:
                break
        owners = {name: contributing(name, place) for name in OWNERS}
        ends = [(process.communicate(timeout=120), process.returncode) for process in work]
        assert [status for _, status in ends] == [0, 0], ends
        assert all(end[0] == 0 for end in ends_of(owners).values())


def test_cuts_of_a_schema_file_are_those_of_all(place):
    """One contact with an owner suffices, and the owner need not say in its terms what its schema file says."""
    cut = {"u": [-0.5, 0.0, 0.5], "v": [0.0], "w": [1.0, 2.0]}
    columns = [f'{name} = {{ type = "numeric", cuts = {cuts} }}' for name, cuts in cut.items()]
    (place / "schema.toml").write_text("\n".join([*columns, 'label = "label"']) + "\n")
    for name in (*ROLES[:2], *OWNERS):
        path = place / f"{name}.toml"
        section = f"[parties.{name}]" if name in ROLES else "[owner]"
        path.write_text(path.read_text().replace(section, f'{section}\ncolumns = "schema.toml"'))
    other = (place / "schema.toml").read_text().replace("[0.0]", "[0.25]")
    (place / "other.toml").write_text(other)
    said = sharewood("check", "--config", "bank_c.toml", "--seconds", 1, cwd=place)[1]
    assert "contributing sends 0.0 MB" in said
    with dealing(2, cwd=place):
        owners = {name: contributing(name, place) for name in OWNERS}
        both("collect", cwd=place)
        assert all(status == 0 for status, _, _ in ends_of(owners).values())
        path = place / "party_b.toml"
        path.write_text(path.read_text().replace('"schema.toml"', '"other.toml"'))
        ends = both_end("train", cwd=place)
    assert [status for status, _, _ in ends] == [2, 2] and "the parties disagree on cuts" in ends[0][2], ends
