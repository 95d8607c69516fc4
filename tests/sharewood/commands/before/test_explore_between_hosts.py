"""sharewood explore between hosts: screened features, the ledger, the page, and a training on what was screened."""

import json

import numpy as np
import pandas as pd
import pytest

import sharewood as sharewood_package
from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.ledger import Ledger
from protocols.testing.two_parties import run_both
from secure_tree.explore.result import Screened
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.before.explore import explore_party
from sharewood.commands.hosts.train import train_half
from sharewood.job.config import HostsConfig
from tests.secure_tree.explore.tables import parts, table
from tests.sharewood.commands.hosting import LONGEST, ROLES, both, dealing, in_threads, sharewood, start, write_job
from tests.sharewood.page.pages import check_page

ROWS = 1300


def job(folder, partition="vertical", parties=(), **explore):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(ROWS * (1 + (partition == "horizontal")), 8)).round(3)
    bad = (X[:, 1] + X[:, 5] ** 2 + rng.normal(size=len(X)) > 1.8).astype(int)
    X[rng.uniform(size=X.shape) < 0.03] = np.nan
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)]).assign(id=np.arange(len(X)))
    table["kind"] = pd.Series(np.where(rng.uniform(size=len(X)) < 0.3 + 0.3 * bad, "new", "old"))
    sections = {}
    for p, name in enumerate(ROLES[:2]):
        sections[name] = {
            k: f"{v.format('ab'[p])}"
            for k, v in {
                "train_data": "{}.csv",
                "model": "{}_model.npz",
                "screened": "{}_screened.json",
                "ledger": "{}_ledger.jsonl",
            }.items()
        } | dict(parties)
    if partition == "vertical":
        table[["id", "x0", "x1", "x2", "x3"]].to_csv(folder / "a.csv", index=False)
        table[["id", "x4", "x5", "x6", "x7"]].assign(bad=bad).to_csv(folder / "b.csv", index=False)
        sections["party_b"]["label"] = "bad"
    else:
        table = table.drop(columns="kind").assign(bad=bad)
        table[:ROWS].to_csv(folder / "a.csv", index=False)
        table[ROWS:].to_csv(folder / "b.csv", index=False)
        for section in sections.values():
            section["label"] = "bad"
    train = {"partition": partition, "n_estimators": 2, "max_depth": 2, "max_bin": 8, "missing": "all"}
    write_job(folder, sections, train=train, explore={"top": 2, **explore})


def test_screen_and_train(tmp_path):
    job(tmp_path)
    with dealing(2, cwd=tmp_path):
        said = both("explore", "--audit", "--json", "{}.explored.json", "--out", "{}.csv", cwd=tmp_path)
        ends = [
            start(
                "train",
                "--config",
                f"party_{p}.toml",
                "--party",
                f"party_{p}",
                "--screened",
                f"{p}_screened.json",
                cwd=tmp_path,
            )
            for p in "ab"
        ]
        assert [end.wait(LONGEST) for end in ends] == [0, 0], [end.stderr.read() for end in ends]
    for name, text in zip(ROLES, said, strict=False):
        assert "which 2 of 8 features have the largest iv" in text and "whether the audit found a fault" in text
        report = json.loads((tmp_path / f"{name}.explored.json").read_text())
        assert report["features"] == {"party_a": ["x1"], "party_b": ["x5"]}
        assert (
            report["bits"] == {"names": 5}
            and report["ledger"] == 0
            and (report["bits_most"] is None) == (name == "party_a")
        )
        assert pd.read_csv(tmp_path / f"{name}.csv")["feature"].tolist() == ["x1", "x5"]
    for p in "ab":
        page = check_page((tmp_path / f"{p}_screened.report.html").read_text())
        assert "told about the labels" in page and "5 bits" in page and ("budget left" in page) == (p == "b")
        assert SharedModel.load(tmp_path / f"{p}_model.npz").facts.names == ("x1", "x5")
    assert Ledger(tmp_path / "a_ledger.jsonl").lines == Ledger(tmp_path / "b_ledger.jsonl").lines
    assert (tmp_path / "b_ledger.jsonl.rows").exists()


def test_numbers_and_evidence_on_the_page(tmp_path, monkeypatch):
    job(
        tmp_path,
        reveal="woe",
        statistics=["iv", "auc", "correlation", "mean"],
        bins=5,
        to="party_b",
        **{"floors.bits": 1.0},
    )
    (a, _), (b, found) = in_threads(monkeypatch, tmp_path, explore_party, None, None)
    assert a.numbers == {} and b.numbers["iv"].keys() == {"x1", "x5"} and b.numbers["iv"]["x5"] > 0.3
    page = check_page((tmp_path / "b_screened.report.html").read_text())
    assert (
        "Weight of evidence by bin" in page and "AUC of a single feature" in page and "Correlation of each pair" in page
    )
    assert found.woe.shape == (1, 2, 6) and "hatched" in page
    assert "Weight of evidence by bin" not in (tmp_path / "a_screened.report.html").read_text()


def test_by_rows_in_threads(tmp_path, monkeypatch):
    job(tmp_path, "horizontal")
    # Trainings of this configuration have shards; an exploration does without.
    for p in "ab":
        path = tmp_path / f"party_{p}.toml"
        path.write_text("shards = 2\n" + path.read_text())
    (a, _), (b, _) = in_threads(monkeypatch, tmp_path, explore_party, None, None)
    assert a.features == b.features == {"party_a": ["x1", "x5"]}

    def train(config, name):
        config = config.model_copy(update={"shards": 0})
        return train_half(config, name, False, None, screened=tmp_path / f"{name[-1]}_screened.json")

    in_threads(monkeypatch, tmp_path, train)
    assert SharedModel.load(tmp_path / "b_model.npz").facts.names == ("x1", "x5")


def test_the_same_rows_but_one_are_refused(tmp_path, monkeypatch):
    job(tmp_path)
    in_threads(monkeypatch, tmp_path, explore_party, None, None)
    for p in "ab":
        table = pd.read_csv(tmp_path / f"{p}.csv")
        table[1:].to_csv(tmp_path / f"{p}.csv", index=False)
    with pytest.raises((DataError, PeerFailure), match=r"fewer than 10 rows \(floors\.cell_rows\)"):
        in_threads(monkeypatch, tmp_path, explore_party, None, None)


def test_bad_configurations(tmp_path):
    job(tmp_path)
    path = tmp_path / "party_a.toml"
    text = path.read_text()

    def refused(match, change, kind=ConfigError):
        path.write_text(change(text))
        with pytest.raises(kind, match=match):
            explore_party(HostsConfig.read(path), "party_a", None, None)

    refused(r"explore\.top must be at least 1", lambda t: t.replace("top = 2", "top = 0"))
    refused(r"unknown parameter explore\.tops", lambda t: t.replace("top = 2", "tops = 2"))
    (tmp_path / "folder").mkdir()
    refused("must be a file, got a folder", lambda t: t.replace('"a.csv"', '"folder"'), DataError)
    refused("must be different files", lambda t: t.replace("a_ledger.jsonl", "a.csv"))
    refused("must be set", lambda t: t.replace('train_data = "a.csv"\n', ""))


def test_screened_files(tmp_path):
    screened = Screened((("a", "b"), ("c",)), 0, "iv", 9, 3)
    screened.save(tmp_path / "names.json")
    assert Screened.load(tmp_path / "names.json") == screened
    for text in ("", "[]", "{}", '{"format": 1, "names": [["a"]]}', '{"format": 1, "names": 3}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DataError, match="must be a file of screened features"):
            Screened.load(tmp_path / "bad.json")
    (tmp_path / "bad.json").write_text('{"format": 2, "names": []}')
    with pytest.raises(DataError, match="another format"):
        Screened.load(tmp_path / "bad.json")
    frame = pd.DataFrame(np.zeros((2, 3)), columns=["b", "x", "a"])
    assert list(screened.of(frame)) == ["b", "a"]
    with pytest.raises(DataError, match="no column 'a'"):
        screened.of(frame.drop(columns="a"))
    array = Screened((("f0", "f2"), ()), 0, "iv", 9)
    assert array.of(np.arange(6).reshape(2, 3)).tolist() == [[0, 2], [3, 5]]
    with pytest.raises(DataError, match="but not all of those screened"):
        array.of(np.zeros((2, 2)))


def test_the_plan_prices_an_exploration(tmp_path):
    job(tmp_path)
    path = tmp_path / "party_a.toml"
    path.write_text(path.read_text() + "[plan]\nrows = [1300, 1300]\nfeatures = 4\n")
    status, said, log = sharewood("plan", "--config", "party_a.toml", "--json", "plan.json", cwd=tmp_path)
    assert status == 0, log
    planned = json.loads((tmp_path / "plan.json").read_text())["explore"]
    assert f"{planned['bytes_dealer']:,} from the dealer" in said
    # One byte per row, feature of the other party and bin.
    assert 1300 * 4 * 11 < planned["bytes"] < 2 * 1300 * 4 * 11
    assert planned["transfers"] > 1300 and planned["pairwise_bytes"] > planned["bytes"]


def test_a_page_in_python(tmp_path):
    X, y = table()
    own = parts(X, y, "vertical")
    asked = {"partition": "vertical", "reveal": "numbers", "statistics": ("iv", "correlation"), "privacy": {"rho": 0.5}}

    def run(party):
        found = sharewood_package.explore(party, **own[party.rank], floors={"bits": 1.0}, **asked)
        found.save_page(tmp_path / f"{party.rank}.html")
        return found

    run_both(run)
    pages = [check_page((tmp_path / f"{p}.html").read_text()) for p in (0, 1)]
    assert all("epsilon of the labels" in page and "What this tells" in page for page in pages)
    assert ["budget left" in page for page in pages] == [False, True]


def test_cuts_of_columns_that_were_not_screened(tmp_path, monkeypatch):
    """Cuts of a column that screening has dropped are left out; those of a named one hold."""
    job(tmp_path, "horizontal")
    in_threads(monkeypatch, tmp_path, explore_party, None, None)
    for p in "ab":
        path = tmp_path / f"party_{p}.toml"
        cuts = "[train.cuts]\nx1 = [0.0]\nx3 = [-1.0, 1.0]\n"
        path.write_text(path.read_text().replace("[train]", '[train]\nedges = "joint"') + cuts)

    def train(config, name):
        return train_half(config, name, False, None, screened=tmp_path / f"{name[-1]}_screened.json")

    in_threads(monkeypatch, tmp_path, train)
    model = SharedModel.load(tmp_path / "b_model.npz")
    assert model.facts.names == ("x1", "x5") and model.config.cuts == {"x1": (0.0,)}
    for p in "ab":
        path = tmp_path / f"party_{p}.toml"
        path.write_text(path.read_text().replace("x3 =", "y3 ="))
    with pytest.raises(ConfigError, match="cuts: no party has a numeric feature 'y3'"):
        in_threads(monkeypatch, tmp_path, train)
