"""Trainings without a dealer: trees are the twin's, and the quality is that of trainings with a dealer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from protocols.runtime.local import run_session
from protocols.runtime.settings import Offline
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import check, halves, table


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 3, "max_bin": 8},
        {"max_depth": 1, "max_bin": 4, "edges": "joint"},
        {"max_depth": 2, "max_bin": "exact", "min_child_weight": 0.0},
        {"max_depth": 2, "max_bin": 8, "reg_alpha": 0.7, "min_split_loss": 0.5, "min_child_samples": 12},
        {"max_depth": 2, "max_bin": 8, "objective": "squarederror"},
        {"max_depth": 2, "max_bin": 8, "objective": "count:poisson"},
        {"max_depth": 2, "max_bin": 8, "missing": "all"},
        {"max_depth": 2, "max_bin": 8, "colsample_bytree": 0.5, "subsample": 0.7},
    ],
    ids=str,
)
def test_every_split_is_the_twins(parameters):
    X, y = table(90, 4, seed=1)
    labels = X[:, 1] * 30 - 7 if parameters.get("objective") == "squarederror" else y
    if parameters.get("objective") == "count:poisson":
        labels = np.random.default_rng(1).poisson(np.exp(X[:, 1] - X[:, 0]))
    if parameters.get("missing"):
        X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    training = train_both(*halves(X, labels, 37), source=made_by_both, n_estimators=2, learning_rate=0.3, **parameters)
    assert len(check(training, 2)) >= 1


@pytest.mark.parametrize("rows", [(89, 1), (1, 89)])
def test_very_unequal_parties(rows):
    X, y = table(90, 3, seed=5)
    check(train_both(*halves(X, y, rows[0]), source=made_by_both, n_estimators=1, max_depth=2, max_bin=4), 1)


def predictions(parameters, tables, labels, source):
    kind = SecureXGBRegressor if parameters.get("objective", "").startswith(("reg", "count")) else SecureXGBClassifier

    def job(party):
        model = kind(**parameters).fit(party, tables[party.rank], labels[party.rank])
        return [model.predict_margin(party, tables[party.rank], method) for method in ("bins", "thresholds")]

    both = run_both(job, source=source)[0]
    return [np.concatenate([p for p in pair if p is not None], axis=-1) for pair in zip(*both, strict=True)]


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_predictions_by_bins_and_by_thresholds_agree(partition):
    X, y = table(120, 4, seed=3)
    frames, labels = halves(pd.DataFrame(X, columns=list("abcd")), y, 50)
    if partition == "vertical":
        whole = pd.DataFrame(X, columns=list("abcd"))
        frames, labels = (whole[["a", "b"]], whole[["c", "d"]]), (y, None)
    parameters = {"n_estimators": 3, "max_depth": 2, "max_bin": 8, "partition": partition, "edges": "joint"}
    by_bins, by_thresholds = predictions(parameters, frames, labels, made_by_both)
    assert np.abs(by_bins - by_thresholds).max() < 1e-4
    assert roc_auc_score(y, by_bins) > 0.8


def test_several_classes_with_held_out_rows():
    X, _ = table(150, 4, seed=7)
    y = np.digitize(X[:, 0] + 0.2 * X[:, 1], [-0.5, 0.5]).astype(float)
    parameters = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "objective": "multi:ova", "num_class": 3}

    def job(party):
        own = slice(None, 70) if party.rank == 0 else slice(70, None)
        model = SecureXGBClassifier(**parameters, test_size=0.2, eval_epochs=1).fit(party, X[own], y[own])
        return model.predict_margin(party, X[own])

    first, second = run_both(job, source=made_by_both)[0]
    assert (np.concatenate([first, second]).argmax(axis=1) == y).mean() > 0.6


@pytest.mark.parametrize("ot", ["ferret", "softspoken"])
def test_two_processes_and_no_third(ot):
    X, y = table(200, 4, seed=2)

    def job(party):
        own = slice(None, 90) if party.rank == 0 else slice(90, None)
        model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8).fit(party, X[own], y[own])
        return model.predict_margin(party, X[own]), party.stages["offline"].rounds

    outcome = run_session(job, offline=Offline("pairwise", ot), timeout=120)
    assert list(outcome) == ["party_a", "party_b"]
    margins, rounds = zip(*(outcome[name]["result"] for name in outcome), strict=True)
    assert roc_auc_score(y, np.concatenate(margins)) > 0.8
    assert rounds[0] == rounds[1] > 0
