"""The names of the four strongest reasons, in order, beside XGBoost's `pred_contribs`, for rows of four data sets."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from protocols.testing.two_parties import run_both
from secure_tree.exchange.plain_model import share_model
from secure_tree.exchange.xgboost import from_xgboost
from tests.secure_tree.exchange.test_share import estimator_of

xgboost = pytest.importorskip("xgboost")

TOP = 4
DIGITS = "digits, 8 or not"
SETS = {
    "breast cancer": (load_breast_cancer, {"objective": "binary:logistic", "max_depth": 4}),
    DIGITS: (load_digits, {"objective": "binary:logistic", "max_depth": 6}),
    "diabetes": (load_diabetes, {"objective": "reg:squarederror", "max_depth": 3}),
    "wine": (load_wine, {"objective": "multi:softprob", "max_depth": 3, "num_class": 3}),
}
# Contributions that are closer than this, in units of the margin, are ties: XGBoost's are floats of 32 bits.
TIE = 4e-6


def explained(name, most):
    """Return the reasons of at most so many rows, and XGBoost's contributions, [rows, classes, features], and unit."""
    load, parameters = SETS[name]
    X, y = load(return_X_y=True)
    X = X.astype(np.float32)
    y = (y == 8).astype(int) if name == DIGITS else y
    booster = xgboost.train({"seed": 1, **parameters}, xgboost.DMatrix(X, label=y), 20)
    rows = X[np.random.default_rng(0).permutation(len(X))[:most]]
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")

    def job(party):
        model = estimator_of(share_model(party, plain if party.rank == 0 else None))
        own = rows if party.rank == 1 else rows[:0]
        return model.contributions(party, own, TOP, method="thresholds"), model.model.facts

    (_, (reasons, facts)), _ = run_both(job)
    theirs = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)[..., :-1]
    if parameters.get("num_class"):
        return reasons, theirs, facts
    return [[of_row] for of_row in reasons], theirs[:, None], facts


def check(reasons, contributions, names, tie):
    """Check that the reasons of a row are the strongest contributions in order, but for ties."""
    strongest = -np.sort(-contributions)[:TOP]
    named = contributions[[names.index(one) for one in reasons]]
    assert len(set(reasons)) == len(reasons) and (np.abs(named - strongest[: len(named)]) <= tie).all()
    assert (strongest[len(named) :] <= tie).all() and (named > 0).all()


def compare(name, most):
    """Compare up to `most` rows; return how many names were compared, and how many of them are XGBoost's by strict
    order.
    """
    reasons, theirs, facts = explained(name, most)
    assert len(reasons) == len(theirs)
    compared, same = 0, 0
    for of_row, of_classes in zip(reasons, theirs, strict=True):
        for found, contributions in zip(of_row, of_classes, strict=True):
            check(found, contributions, facts.names, TIE * facts.margin_unit)
            strict = [facts.names[f] for f in np.argsort(-contributions, kind="stable")[: len(found)]]
            compared, same = compared + len(found), same + sum(a == b for a, b in zip(found, strict, strict=True))
    return compared, same


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *((name, 1000) for name in SETS if name != DIGITS),
        (DIGITS, 60),
        pytest.param(DIGITS, 1000, marks=pytest.mark.long),
    ],
)
def test_the_strongest_reasons_are_those_of_xgboost(name, most):
    compared, same = compare(name, most)
    assert compared > most / 2 and same > 0.99 * compared


@pytest.mark.long
def test_what_neighbours_of_a_row_tell():
    """Names depend on nodes that a row does not reach: they change where the prediction stays the same."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 4}, xgboost.DMatrix(X, label=y), 20)
    nodes = booster.trees_to_dataframe().query("Feature != 'Leaf'")
    thresholds = len(nodes[["Feature", "Split"]].drop_duplicates())
    places = {"margin": [], "names": []}
    for f in range(X.shape[1]):
        values = np.unique(X[:, f])
        values = np.concatenate([values[:1] - 1, (values[1:] + values[:-1]) / 2, values[-1:] + 1])
        rows = np.repeat(X[:40], len(values), axis=0)
        rows[:, f] = np.tile(values, 40)
        data = xgboost.DMatrix(rows)
        margins = booster.predict(data, output_margin=True).reshape(40, -1)
        contributions = booster.predict(data, pred_contribs=True)[:, :-1]
        order = np.argsort(-contributions, axis=1, kind="stable")[:, :TOP]
        named = np.where(np.take_along_axis(contributions, order, 1) > 0, order, -1).reshape(40, -1, TOP)
        changes = margins[:, 1:] != margins[:, :-1], (named[:, 1:] != named[:, :-1]).any(axis=-1)
        for kind, changed in zip(places, changes, strict=True):
            places[kind] += [(row, f, place) for row, place in np.argwhere(changed).tolist()]
    margin, names = set(places["margin"]), set(places["names"])
    assert 0.6 < len(names) / len(margin) < 0.8 and 0.25 < len(names - margin) / len(names) < 0.4
    assert all(len({one[1:] for one in found}) > 0.9 * thresholds for found in (margin, names))


@pytest.mark.parametrize("wrong", [("b", "a"), ("a",), ("a", "a"), ("a", "b", "c"), ("a", "c")])
def test_another_list_is_found(wrong):
    check(("a", "b"), np.array([3.0, 2.0, -1.0]), ["a", "b", "c"], TIE)
    with pytest.raises(AssertionError):
        check(wrong, np.array([3.0, 2.0, -1.0]), ["a", "b", "c"], TIE)
