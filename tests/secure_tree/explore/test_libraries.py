"""Beside optbinning, scikit-learn and scipy on four data sets: information value, AUC and KS of every feature.

optbinning_iv.json has what `BinningTable(...).build()` of optbinning 1.0 gives for the same bins; it is not installed
here. It gives a bin that lacks a class no information, so features with such a bin are compared only with the formula.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from benchmarks.federated_data import DATA, load
from secure_tree.explore import statistics
from tests.secure_tree.explore.tables import bins_of, counts, divergence, explored

RECORDED = json.loads(Path(__file__).with_name("optbinning_iv.json").read_text())
FLOORS = {"rows": 100, "class_rows": 50, "digits": 1}


@pytest.mark.parametrize(("name", "bins"), [("breast_cancer", 4), ("default_credit", 10), ("a9a", 10), ("abalone", 6)])
def test_every_feature(monkeypatch, name, bins):
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    elif DATA.is_dir():
        X, y = load(name)
        y = y > 9 if name == "abalone" else y
    else:
        pytest.skip(f"{DATA} is not there")
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)
    X, y, none = X.astype(np.float32), y.astype(int), np.zeros((len(y), 0))
    own = [{"X": X}, {"X": none, "y": y}]
    asked = {"partition": "vertical", "bins": bins, "reveal": "numbers", "statistics": ("iv", "auc", "ks")}
    result = explored(own, **asked, top=X.shape[1], floors=FLOORS)[0][0]
    numbers, size = bins_of(X, bins)
    p, q = counts(numbers, size, y)
    iv, expected = result.numbers["iv"][0], divergence(p, q)[0]
    assert (np.abs(iv - expected) < 1e-5 * np.maximum(1, expected)).all()
    # A merged bin has no number of either class.
    full = ((p > 0) == (q > 0)).all(axis=1)
    assert full.sum() >= 7
    assert (np.abs(iv - RECORDED[name])[full] < 1e-5 * np.maximum(1, iv[full])).all()
    for f, column in enumerate(numbers.T):
        assert abs(result.numbers["auc"][0, f] - roc_auc_score(y, column)) < 1e-5
        assert abs(result.numbers["ks"][0, f] - stats.ks_2samp(column[y == 1], column[y == 0]).statistic) < 1e-5
