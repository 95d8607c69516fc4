"""The experiment on virtual samples: its tables, and the results of a small run."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import virtual_samples_update
from benchmarks.federated_data import CREDITCARD, DATA, load, load_creditcard, rare_positives
from benchmarks.federated_virtual_samples import centralised, federated, split
from benchmarks.federated_virtual_samples import main as run_experiment
from mpc.errors import DataError


def test_the_generated_table_is_what_its_docstring_says():
    X, y = rare_positives(rows=20_000, seed=4)
    assert X.shape == (20_000, 30)
    assert y.sum() == 40
    assert np.array_equal(X, rare_positives(rows=20_000, seed=4)[0])
    assert abs(X[y == 0, :28].mean()) < 0.01
    update, test, training = split(20_000, 0)
    assert [len(update), len(test), len(training)] == [4205, 3200, 12595]
    assert len(np.unique(np.r_[update, test, training])) == 20_000


SMALL = {"n_estimators": 12, "update_estimators": 6, "min_group": 1}


def test_every_update_of_the_experiment_goes_on_from_one_base_model(monkeypatch):
    X, y = rare_positives(rows=8000, positive_rate=0.05, seed=1)
    monkeypatch.setattr(virtual_samples_update, "table", lambda name, seed: (X, y))
    base, *updates = virtual_samples_update.runs("rare", 0, None, trees=6, update_trees=3)
    assert [line["variant"] for line in updates] == list(virtual_samples_update.VARIANTS)
    assert [line["joined"] > 0 for line in updates] == [False, True, True, True, True]
    assert [line["trees"] for line in updates[:4]] == [3] * 4 and 0 <= updates[4]["trees"] <= 3
    assert updates[2]["joined"] >= updates[1]["joined"]
    assert len({line["logloss"] for line in [base, *updates[:4]]}) == 5


def test_a_small_run_of_the_experiment_finds_rare_positives():
    X, y = rare_positives(rows=20_000, positive_rate=0.01, seed=1)
    (_, before, _), (_, after, _) = federated(X, y, 50, 0, SMALL)
    assert before["f1"] > 0.5
    assert after["loss_train"] < before["loss_train"]
    assert after["joined"] > 0


@pytest.fixture
def creditcard(tmp_path):
    """Write a small file with the Kaggle table's columns, and return its contents."""
    X, y = rare_positives(rows=600, positive_rate=0.1, seed=3)
    table = pd.DataFrame(X, columns=CREDITCARD)
    table.assign(Class=y.astype(int)).to_csv(tmp_path / "creditcard.csv", index=False, float_format="%.9g")
    return tmp_path / "creditcard.csv", X, y


def test_the_users_own_copy_of_the_kaggle_table_is_read_and_run(creditcard, tmp_path, monkeypatch):
    path, X, y = creditcard
    for got, wanted in zip(load_creditcard(path), (X, y), strict=True):
        np.testing.assert_array_equal(got, wanted)
    out = tmp_path / "runs.csv"
    options = "--clusters 10 --trees 8 --update-trees 4 --peers XGBoost --out"
    monkeypatch.setattr("sys.argv", ["", "--data", str(path), *options.split(), str(out)])
    run_experiment()
    runs = pd.read_csv(out)
    assert list(runs["method"]) == ["federated", "federated", "XGBoost"]
    assert set(runs["data"]) == {"creditcard.csv"}
    assert runs["auc"].min() > 0.8


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("V17", "V71", "the columns must be Time, V1 to V28, Amount and Class"),
        ("Class", "label", "there is no label column 'Class'"),
        ("\n", "\nx", "column 'Time', line 2: value must be a number, got 'x.*'"),
    ],
)
def test_another_table_than_the_kaggle_one_is_refused(creditcard, old, new, sentence):
    path, *_ = creditcard
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError, match=sentence):
        load_creditcard(path)


@pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not beside this checkout")
def test_default_credit_is_as_good_as_xgboost():
    X, y = load("default_credit")
    X, y = X[:8000], y[:8000]
    (_, before, _), _ = federated(X, y, 50, 0, {"n_estimators": 10, "update_estimators": 1})
    ((_, plain, _),) = centralised(X, y, 0, 10, ["XGBoost"])
    assert abs(before["auc"] - plain["auc"]) < 0.02
