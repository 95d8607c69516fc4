"""Odd tables: statistics are right, beside definitions and numpy, or the exploration is refused in a sentence."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, PeerFailure
from protocols.testing.two_parties import dealt, made_by_both
from secure_tree.explore import statistics
from secure_tree.explore.moments import inflation
from tests.secure_tree.explore.tables import bins_of, counts, divergence, explored

LOW = {"rows": 2, "class_rows": 1, "cell_rows": 1}
EVERY = ("iv", "auc", "ks", "missing", "mean", "deviation", "correlation", "vif")
BOTH = pytest.mark.parametrize("partition", ["horizontal", "vertical"])


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)


def table(rows=700, features=4, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    return X, (X[:, 0] + rng.normal(size=rows) > 0).astype(int)


def divided(X, y, partition, cut=None, **more):
    """By columns, the first two are those of party 0, and labels and weights those of party 1."""
    if partition == "horizontal":
        cut = len(X) // 2 if cut is None else cut
        return [{"X": X[r], "y": y[r], **{k: v[r] for k, v in more.items()}} for r in (slice(0, cut), slice(cut, None))]
    return [{"X": X[:, :2]}, {"X": X[:, 2:], "y": y, **more}]


def result(X, y, partition, source=dealt, **asked):
    more = {k: asked.pop(k) for k in ("sample_weight", "cut") if k in asked}
    own = divided(X, y, partition, **more)
    asked = {"reveal": "numbers", "statistics": EVERY, "partition": partition, **asked}
    return explored(own, source, floors=dict(LOW), **asked)[0][0]


@BOTH
@pytest.mark.parametrize("source", [dealt, made_by_both])
def test_constant_columns_and_columns_without_values(partition, source):
    X, y = table()
    X[:, 0], X[:, 3] = 3, np.nan
    found = result(X, y, partition, source)
    numbers = found.numbers
    for name, of_nothing in (("iv", 0), ("ks", 0), ("auc", 0.5)):
        assert np.abs(numbers[name][0, [0, 3]] - of_nothing).max() < 1e-5, name
    told = found.moments
    assert np.array_equal(told["missing"], [0, 0, 0, 1])
    assert told["mean"][0] == 3 and told["deviation"][0] == 0
    assert np.isnan([told["mean"][3], told["deviation"][3]]).all()
    # Those that do not vary correlate with none, and do not spoil the others' variance inflation.
    assert np.isnan(np.delete(found.correlation, [1, 2], axis=0)).all()
    assert np.array_equal(np.isnan(told["vif"]), [True, False, False, True])
    assert np.abs(told["vif"][1:3] - 1).max() < 0.02


@BOTH
def test_a_column_without_values_is_not_the_best_by_auc(partition):
    X, y = table()
    X[:, 3] = np.nan
    assert result(X, y, partition, rank="auc", top=1, reveal="names").features == [(0, "f0")]


def test_only_what_is_determined_has_an_infinite_inflation():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 4))
    X[:, 3] = X[:, 0] - X[:, 1]
    found = inflation(np.corrcoef(X.T))
    assert np.array_equal(np.isinf(found), [True, True, False, True]) and found[2] == pytest.approx(1, abs=0.02)


@BOTH
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_very_small_and_very_large_values(partition, factor):
    X, y = table()
    expected, found = (result(x, y, partition) for x in (X, X * np.float32(factor)))
    assert np.array_equal(found.numbers["iv"], expected.numbers["iv"])
    assert np.abs(found.correlation - expected.correlation).max() < 0.1
    deviation = X.std(axis=0, dtype=np.float64) * factor
    assert np.abs(found.moments["deviation"] / deviation - 1).max() < 0.15


@BOTH
def test_one_feature_and_all_of_them_named(partition):
    X, y = table()
    own = divided(X[:, :1], y, partition)
    if partition == "vertical":
        own[1]["X"] = X[:, :0]
    for top in (1, 1000):
        found = explored(own, partition=partition, floors=dict(LOW), top=top)[0][1]
        assert found.features == [(0, "f0")] and found.bits == {}


def test_more_bins_than_rows():
    """Bins of one row reveal nothing about the labels; only the column of few values has others."""
    X, y = table(rows=40)
    X[:, 2] = y
    own = divided(X, y, "vertical")
    found = explored(own, partition="vertical", floors=dict(LOW), bins=64, top=1)[0][0]
    both = np.concatenate([bins_of(part, 64, 1)[0] for part in (X[:, :2], X[:, 2:])], axis=1)
    assert (both.max(axis=0) > 10).sum() == 3 and divergence(*counts(both, 64, y))[0].argmax() == 2
    assert found.features == [(1, "f0")]


def test_parties_with_very_unequal_rows():
    X, y = table(rows=3000)
    found = result(X, y, "horizontal", cut=120, statistics=("iv", "auc", "mean"))
    halves = result(X, y, "horizontal", statistics=("iv", "auc", "mean"))
    assert all(np.array_equal(found.numbers[name], halves.numbers[name]) for name in ("iv", "auc"))
    assert np.abs(found.moments["mean"] - X.mean(axis=0)).max() < 0.05


def test_the_same_names_at_both_parties_by_columns():
    X, y = table()
    own = [{"X": pd.DataFrame(X[:, :2], columns=["a", "b"])}, {"X": pd.DataFrame(X[:, 2:], columns=["b", "a"]), "y": y}]
    found = explored(own, partition="vertical", floors=dict(LOW), top=1)[0]
    assert [each.features for each in found] == [[(0, "a")]] * 2
    assert list(found[0].screened.of(own[0]["X"])) == ["a"] and list(found[1].screened.of(own[1]["X"])) == []


def test_categories_that_the_other_party_does_not_have():
    X, y = table()
    kinds = np.array(["a", "b", "c", "d"])[np.random.default_rng(5).integers(0, 2, 700) + 2 * (np.arange(700) >= 350)]
    frames = pd.DataFrame({"kind": pd.Categorical(kinds), "x": X[:, 0]})
    own = [
        {"X": frames[r].assign(kind=frames["kind"][r].cat.remove_unused_categories()), "y": y[r]}
        for r in (slice(0, 350), slice(350, None))
    ]
    found = explored(own, floors=dict(LOW), reveal="numbers")[0][0]
    codes = frames["kind"].cat.codes.to_numpy()[:, None]
    assert abs(found.iv["kind"] - divergence(*counts(codes, 4, y))[0][0]) < 1e-5
    own[1]["X"] = own[1]["X"].assign(kind=pd.Categorical([None] * 350, categories=[]))
    found = explored(own, floors=dict(LOW), reveal="numbers")[0][0]
    codes = np.where(np.arange(700) < 350, codes[:, 0], 2)[:, None]
    assert abs(found.iv["kind"] - divergence(*counts(codes, 3, y))[0][0]) < 1e-5


@BOTH
def test_what_is_refused(partition):
    X, y = table()

    def refused(match, X=X, y=y, **asked):
        with pytest.raises((DataError, PeerFailure, ConfigError), match=match):
            result(X, y, partition, **asked)

    refused("at least 2 rows|at least one row", X[:1], y[:1])
    refused("a class has fewer than 1 rows", y=np.zeros_like(y))
    refused("a class has fewer than 1 rows", classes=3)
    refused("a class has fewer than 1 rows", y=np.full(len(y), 2.5), numbers=True, classes=3)
    refused("all weights are 0", sample_weight=np.zeros(len(y)))
    refused("label is missing or infinite", y=np.where(np.arange(len(y)), y, np.nan))
    refused("top must be at least 1", top=0)
    refused("budget of released bits|tells up to", X[:40], y[:40])
    if partition == "horizontal":
        refused("there are no features", X[:, :0])
