"""Bad input to the estimators raises a one-sentence error, at both parties if both need to know."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])


def fit(tables, labels=(Y, Y), parameters=({}, {}), kind=SecureXGBClassifier):
    def job(party):
        kind(n_estimators=1, **parameters[party.rank]).fit(party, tables[party.rank], labels[party.rank])

    run_both(job)


def named(*names):
    return pd.DataFrame(X, columns=list(names))


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ((named("a", "b"), named("a", "c")), "only this party has '[bc]' and only the other has '[bc]'"),
        ((named("a", "b"), named("b", "a")), "names and order must agree"),
        ((X, X[:, :1]), "both must have the same features, and only (this party|the other) has 'f1'"),
        ((X, X[:, 0]), "2 dimensions, rows and features, got 1"),
        ((X, X[:0]), "at least one row"),
        ((X, X[:, :0]), "no features"),
        ((X, np.where(X == 5, np.nan, X)), "column 'f1', row 2: value is missing"),
        ((X, np.where(X == 4, 1e300, X)), "column 'f0', row 2: value is infinite, or beyond float32"),
        ((X, np.array([["a", "b"]] * 6)), "features must be numeric, got dtype <U1: convert them"),
        ((named("a", "b"), named("a", "b").assign(b="x")), "column 'b' must be numeric, got dtype .*dtype category"),
        ((X, pd.DataFrame(X, columns=["a", "a"])), "column 'a' appears twice"),
    ],
)
def test_features(tables, sentence):
    labels = Y, Y[: len(tables[1])]
    with pytest.raises(DataError, match=sentence):
        fit(tables, labels)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (X.astype(complex), "X: features must be numeric, got dtype complex128"),
        (X.astype(str), "X: features must be numeric, got dtype <U"),
        (
            pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
            "must have one level, got 2: join them",
        ),
        (csr_array(X), r"X: features must be a dense array, got a sparse one: pass its toarray\(\)"),
        ([[1.0, 2.0]] * 5 + [[3.0]], "X: features must have the same number of values in each row"),
        (
            named("a", "b").assign(b=pd.date_range("2020", periods=6)),
            "X: column 'b' must be numeric, got dtype datetime64",
        ),
    ],
)
def test_what_is_no_table_of_numbers(table, sentence):
    with pytest.raises(DataError, match=sentence):
        fit((X, table))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.array([0, 1, 2, 1, 0, 1]), "row 2: label must be 0 or 1 under binary:logistic, got 2"),
        (np.array([0, 1, np.nan, 1, 0, 1]), "row 2: label is missing"),
        (Y[:5], "a label for each of the 6 rows, got 5"),
        (np.array(list("abcdef")), "labels must be numeric, got dtype <U1: .*classes are numbered from 0"),
    ],
)
def test_labels(labels, sentence):
    with pytest.raises(DataError, match=sentence):
        fit((X, X), (Y, labels))


@pytest.mark.parametrize("change", [{"max_depth": 2}, {"learning_rate": 0.2}, {"max_bin": "exact"}])
def test_unequal_parameters(change):
    with pytest.raises(ConfigError, match=f"the parties disagree on {next(iter(change))}"):
        fit((X, X), parameters=({}, change))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_dept": 3}, "unknown parameter max_dept"),
        ({"max_depth": 0}, "max_depth"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"max_bin": 1}, "max_bin"),
        ({"max_bin": "some"}, "max_bin"),
        ({"objective": "rank"}, "objective"),
        ({"base_score": 1.0}, "base_score must be a probability between 0 and 1 under binary:logistic, got 1"),
        ({"base_score": float("nan")}, "base_score must be a finite number, got nan"),
        ({"reg_lambda": -1}, "reg_lambda"),
        ({"n_estimators": 2.5}, "n_estimators"),
    ],
)
def test_parameters(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SecureXGBClassifier(**parameters)


def test_petmls_objective_names_are_accepted():
    assert SecureXGBClassifier(objective="logitraw").config.objective == "binary:logistic"
    assert SecureXGBClassifier(objective="logistic").config.objective == "binary:logistic"
    assert SecureXGBRegressor(objective="squarederror").config.objective == "reg:squarederror"
