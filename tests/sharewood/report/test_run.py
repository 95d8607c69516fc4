"""A report describes its run and the model that was kept; reports that cannot be written."""

import json
import logging
import stat
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.hosts.predict import predict_rows
from sharewood.commands.hosts.train import train_half
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from tests.sharewood.commands.hosting import in_threads, write_job
from tests.sharewood.page.pages import check_page


@pytest.fixture
def place(tmp_path):
    """Tables by rows whose labels are mostly noise, so that a training stops early."""
    rng = np.random.default_rng(5)
    parameters = {"n_estimators": 30, "max_depth": 3, "max_bin": 8, "learning_rate": 1.0, "test_size": 0.3}
    parameters |= {"eval_epochs": 1, "early_stopping_rounds": 3, "eval_metric": "auc"}
    names = {"train_data": "{}.csv", "model": "{}.npz", "checkpoints": "kept_{}", "predict_data": "{}.csv"}
    sections = {
        f"party_{p}": {key: name.format(p) for key, name in names.items()} | {"predictions": f"{p}_out.csv"}
        for p in "ab"
    }
    write_job(tmp_path, sections, train=parameters)
    for p in "ab":
        X = rng.normal(size=(60, 3)).round(3)
        label = (X[:, 0] + 2 * rng.normal(size=60) > 0).astype(int)
        pd.DataFrame(X, columns=["x", "y", "z"]).assign(label=label).to_csv(tmp_path / f"{p}.csv", index=False)
    return tmp_path


def test_reports_of_a_training_that_stops_early_and_is_resumed(place, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    first, _ = in_threads(monkeypatch, place, train_half, False, None)
    rounds, model = first.rounds_of_trees, SharedModel.load(place / "a.npz")
    values = dict(first.curve)
    assert rounds.kept == model.rounds == max(values, key=values.get) < rounds.grown == max(values) < 30
    assert rounds.metric == values[rounds.kept] and rounds.resumed_after == 0
    assert f"the model keeps {rounds.kept} of {rounds.grown} rounds, with the best auc: " in caplog.text
    page = check_page((place / "a.report.html").read_text())
    assert f"AUC {rounds.metric:.4f} held-out rows, after {rounds.kept} rounds of trees" in page
    assert f"training stopped after {rounds.grown} of at most 30" in page
    assert f"id of the model: {model.facts.pairing}; train data: a.csv; model: a.npz." in page

    again, _ = in_threads(monkeypatch, place, train_half, True, None)
    assert f"resumed after round {rounds.grown} of trees" in caplog.text
    metric = pytest.approx(rounds.metric, abs=0.05)
    assert again.rounds_of_trees == replace(rounds, metric=metric, resumed_after=rounds.grown)
    page = check_page((place / "a.report.html").read_text())
    assert f"Resumed after round {rounds.grown}: times and traffic are those of this run only." in page
    assert "In all" not in page and again.run.id != first.run.id

    told, _ = in_threads(monkeypatch, place, predict_rows, None)
    files = {"predict_data": "a.csv", "model": "a.npz", "predictions": "a_out.csv"}
    assert told.run.files == files and told.run.id == again.run.id
    written = [path for path in place.iterdir() if path.suffix in (".npz", ".html") or path.name.endswith("_out.csv")]
    assert len(written) == 8 and {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_a_report_that_cannot_be_written(tmp_path, caplog):
    (tmp_path / "model.report.html").mkdir()
    report = PartyReport(PartyCosts({}, {}, ["predictions"], {"a": 1}))
    write_reports(tmp_path / "model.npz", "<html>", report, tmp_path / "report.json")
    assert "model.report.html: cannot be removed (Is a directory); " in caplog.text
    assert caplog.text.endswith(f"{tmp_path}/model.npz is written\n")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["written"] == [str(tmp_path / "model.npz")] and document["revealed"] == ["predictions"]
    with pytest.raises(DataError, match=r"r\.json: cannot be written .*; .*model\.npz is written"):
        write_reports(tmp_path / "model.npz", None, report, tmp_path / "nowhere" / "r.json")


def test_what_was_learned_many_times_is_told_once(capsys):
    learned = ["auc of held-out rows after 10 trees", "the model", "auc of held-out rows after 20 trees"]
    costs = SimpleNamespace(stages={}, revealed=learned)
    print_costs("trained", SimpleNamespace(costs=costs, written=[], record=None), 0.0)
    said = capsys.readouterr().out
    assert "feature names and parameters: auc of held-out rows after 10, 20 trees; the model\n" in said
