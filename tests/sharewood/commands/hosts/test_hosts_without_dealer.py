"""Two hosts without a dealer, as real processes on loopback: every command, and material prepared in advance."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import xgboost

from tests.sharewood.commands.hosting import ROLES, both, both_end, complaint, sharewood, start, write_job

TRAIN = {"objective": "binary:logistic", "n_estimators": 2, "max_depth": 2, "max_bin": 8, "test_size": 0.3}
NAMES = ROLES[:2]


@pytest.fixture
def place(tmp_path):
    """A job without a dealer section, with keys and data."""
    rng = np.random.default_rng(3)
    sections = {"dealer": {}}
    for name in NAMES:
        X = rng.normal(size=(60, 3)).astype(np.float32)
        table = pd.DataFrame(X, columns=["x", "y", "z"])
        table.insert(0, "id", np.arange(60))
        table["label"] = (X[:, 0] + X[:, 1] > 0).astype(int)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        files = {"train_data": f"{name}.csv", "predict_data": f"{name}.csv", "predictions": f"{name}.out.csv"}
        files |= {"model": f"{name}.json", "revealed": f"{name}.revealed.json", "checkpoints": f"{name}.checkpoints"}
        sections[name] = {"label": "label", "reveal_to": ["party_b"], **files}
    write_job(tmp_path, sections, train=TRAIN, plan={"rows": [60, 60], "features": 3})
    for name in NAMES:
        change(tmp_path, name, r"\[dealer\]\naddress = .*\n", 'offline = "pairwise"\not = "softspoken"\n')
    return tmp_path


def change(place, name, old, new):
    path = place / f"{name}.toml"
    text, count = re.subn(old, new, path.read_text())
    assert count == 1
    path.write_text(text)


def name_material(place):
    for name in NAMES:
        change(place, name, r"\nmodel = ", f'\nprepared = "{name}.material"\nmodel = ')


def reports(place):
    return [json.loads((place / f"{name}.report.json").read_text()) for name in NAMES]


def test_prepare_train_and_predict_without_a_dealer(place):
    name_material(place)
    both("prepare", cwd=place)
    both("train", "--json", "{}.report.json", cwd=place)
    for report in reports(place):
        assert report["offline"]["bytes_dealer"] == 0 < report["offline"]["bytes_parties"]
        assert report["curve"][-1][1] < 0.7
    both("predict", cwd=place)
    for name in NAMES:
        truth, table = pd.read_csv(place / f"{name}.csv"), pd.read_csv(place / f"{name}.out.csv")
        assert ((table["prediction"] > 0.5) == truth["label"]).mean() > 0.7


@pytest.mark.long
def test_share_reveal_and_resume_without_a_dealer(place):
    both("train", cwd=place)
    for name in NAMES:
        for kind in ("round", "margin"):
            (place / f"{name}.checkpoints" / f"{kind}_00002.npz").unlink()
    said = both_end("train", "--resume", cwd=place)
    assert all(status == 0 and "resumed after round 1 of trees" in log for status, _, log in said), said
    both("reveal", "--to", "party_b", cwd=place)
    assert (place / "party_b.revealed.json").exists() and not (place / "party_a.revealed.json").exists()
    rows = pd.read_csv(place / "party_a.csv")
    data = xgboost.DMatrix(rows[["x", "y", "z"]], label=rows["label"])
    booster = xgboost.train({"objective": "binary:logistic"}, data, 3)
    booster.save_model(place / "plain.json")
    owner = start("share", "--config", "party_a.toml", "--party", "party_a", "--model", "plain.json", cwd=place)
    other = sharewood("share", "--config", "party_b.toml", "--party", "party_b", cwd=place)
    assert other[0] == 0 and owner.wait(60) == 0, other
    both("predict", cwd=place)
    own = pd.read_csv(place / "party_a.out.csv")["prediction"]
    assert np.abs(booster.predict(xgboost.DMatrix(rows[["x", "y", "z"]])) - own).max() < 1e-3


@pytest.mark.long
def test_a_training_takes_what_was_prepared_once(place):
    both("train", "--json", "{}.report.json", cwd=place)
    before = reports(place)
    name_material(place)
    prepared = both("prepare", cwd=place)
    trained = both_end("train", "--json", "{}.report.json", cwd=place)
    assert all(status == 0 for status, _, _ in trained), trained
    for name, old, new, said, (_, _, log) in zip(NAMES, before, reports(place), prepared, trained, strict=True):
        assert (place / f"{name}.material").stat().st_mode & 0o077 == 0
        pieces = re.search(r"prepared ([\d,]+) of ([\d,]+) requests", said)
        assert int(pieces[1]) > int(pieces[2]) / 2
        assert f"{pieces[1]} of {pieces[1]} pieces of prepared material are used" in log
        assert new["online"]["bytes"] == old["online"]["bytes"] and new["online"]["rounds"] == old["online"]["rounds"]
        assert new["offline"]["bytes"] < old["offline"]["bytes"] / 2
        assert abs(new["curve"][-1][1] - old["curve"][-1][1]) < 0.02
    for status, _, log in both_end("train", cwd=place):
        assert status == 2 and "all of this prepared material is used: prepare again at both parties" in log


@pytest.mark.long
def test_material_of_a_larger_plan_lasts_for_two_trainings(place):
    name_material(place)
    for name in NAMES:
        change(place, name, "n_estimators = 2", "n_estimators = 3")
    both("prepare", cwd=place)
    for name in NAMES:
        change(place, name, "n_estimators = 3", "n_estimators = 2")
    for _ in range(2):
        ends = both_end("train", cwd=place)
        assert all(status == 0 and "pieces of prepared material are used" in log for status, _, log in ends), ends


def test_what_is_wrong_with_material_is_one_sentence(place, monkeypatch, capsys):
    def told(command, name="party_a", *more):
        return complaint(monkeypatch, capsys, command, "--config", place / f"{name}.toml", "--party", name, *more)

    assert "parties.party_a.prepared must be set in the configuration" in told("prepare")
    name_material(place)
    misnamed = told("train", "party_a", "--party", "party_b")
    assert misnamed.rstrip().endswith(
        "parties.party_b.train_data must be set in the configuration for this command, and is set for party_a"
    ), misnamed
    assert "there is no such file: run sharewood prepare at both parties" in told("train")
    refused = "parties.party_a.prepared must be used with one process at each party"
    assert refused in told("train", "party_a", "--shards", "2")
    dealt = (place / "party_a.toml").read_text().replace('"pairwise"', '"dealer"')
    (place / "party_a.toml").write_text(dealt + '[dealer]\naddress = "127.0.0.1:1"\n')
    assert "parties.party_a.prepared must be used with offline" in told("train")


def test_a_dealer_is_not_needed(place):
    status, _, said = sharewood("dealer", "--config", "party_a.toml", cwd=place)
    assert status == 2 and 'with offline = "pairwise" none is needed' in said
