"""Comparison of runs: differences and costs; keyed digests of files."""

import json

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError
from mpc.host import folders
from sharewood.commands.hosts.predict import predict_rows
from sharewood.commands.hosts.train import train_half
from sharewood.commands.local.report import report
from sharewood.report.digests import keyed_digests
from tests.sharewood.commands.hosting import in_threads, write_job
from tests.sharewood.page.pages import check_page


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(5)
    names = {"train_data": "{}.csv", "model": "{}.npz", "predict_data": "{}.csv", "predictions": "{}_out.csv"}
    sections = {f"party_{p}": {key: name.format(p) for key, name in names.items()} for p in "ab"}
    write_job(tmp_path, sections, train={"n_estimators": 2, "max_depth": 2, "max_bin": 4, "test_size": 0.3})
    for p in "ab":
        X = rng.normal(size=(40, 2)).round(3)
        frame = pd.DataFrame(X, columns=["x", "y"]).assign(label=(X[:, 0] > 0).astype(int))
        frame.to_csv(tmp_path / f"{p}.csv", index=False)
    return tmp_path


def test_two_runs_beside_each_other(place, monkeypatch, capsys):
    first, _ = in_threads(monkeypatch, place, train_half, False, None)
    for path in place.glob("party_?.toml"):
        path.write_text(path.read_text().replace("max_depth = 2", "max_depth = 3"))
    (place / "b.csv").write_text((place / "b.csv").read_text().replace("\n", "\n0.5,0.25,1\n", 1))
    later, other = in_threads(monkeypatch, place, train_half, False, None)
    predicted, _ = in_threads(monkeypatch, place, predict_rows, None)
    paths = [place / name for name in ("first.json", "later.json", "other.json", "predicted.json")]
    for path, run in zip(paths, (first, later, other, predicted), strict=True):
        path.write_text(json.dumps(run.document()))
    monkeypatch.setenv("COLUMNS", "200")
    report(paths, place / "page.html")
    said, page = capsys.readouterr().out, check_page((place / "page.html").read_text())
    for text in (said, page):
        assert "max_depth" in text and "n_estimators" not in text and "learning_rate" not in text
        assert first.run.run in text and later.run.id in text and "online: rounds" in text
        assert f"{later.rounds_of_trees.metric:.4f}" in text and f"{predicted.quality['auc']:.6g}" in text
        assert all(d[:25] in text and d not in text for d in first.run.digests.values())
    one, two, last = (report.run.digests for report in (first, later, predicted))
    assert one["train_data"] == two["train_data"] == last["predict_data"] != other.run.digests["train_data"]
    assert one["model"] != two["model"] == last["model"] and set(last) == {"predict_data", "model", "predictions"}
    assert first.run.run != later.run.run and predicted.document()["predict"]["method"] == "thresholds"


def test_digests_need_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    table, shards = tmp_path / "a.csv", tmp_path / "shards"
    table.write_bytes(b"1")
    shards.mkdir()
    (shards / "0.csv").write_bytes(b"1")
    digests = keyed_digests(table=table, copy=table, shards=shards, none=None)
    assert digests["table"] == digests["copy"] != digests["shards"] and set(digests) == {"table", "copy", "shards"}
    assert keyed_digests(table=table) == {"table": digests["table"]}
    (shards / "0.csv").rename(shards / "1.csv")
    assert keyed_digests(shards=shards)["shards"] != digests["shards"]
    assert (folders.cache_folder() / "report.key").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    again = keyed_digests(table=table)["table"]
    assert again.split(":")[0] != digests["table"].split(":")[0] and again != digests["table"]
    with pytest.raises(DataError, match="cannot be read"):
        keyed_digests(table=tmp_path / "none.csv")


@pytest.mark.parametrize("text", ["[]", "{}", '{"run": 1, "config": {}}', '{"run": {}}', "x"])
def test_what_is_no_report(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"x\.json"):
        report([path], None)
