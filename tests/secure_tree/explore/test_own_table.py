"""A party's own bins: merging, missing values, categories, and tables read in portions."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError
from secure_tree.explore import own_table
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.own_table import OwnBins, OwnTable
from tests.secure_tree.explore.tables import bins_of


def starts(X, size=10, least=10):
    return OwnBins.of(OwnTable.read(X, None, None, None, ExploreConfig.of()), size, least).starts


def test_bins_have_equally_many_rows():
    numbers, size = bins_of(np.random.default_rng(1).normal(size=(1000, 2)))
    assert size == 10 and (np.abs(np.bincount(numbers[:, 0]) - 100) <= 1).all()


def test_few_values_have_a_bin_each_and_small_ones_are_merged():
    column = np.repeat([0, 1, 2, 3, 7], [500, 3, 4, 493, 5]).reshape(-1, 1)
    numbers, size = bins_of(column)
    assert np.array_equal(numbers[:, 0], np.repeat([0, 1], [500, 505])) and size == 10
    assert starts(column) == [[0.0, 1.0]]
    assert starts(column, least=1) == [[0.0, 1.0, 2.0, 3.0, 7.0]]


@pytest.mark.parametrize("seed", range(20))
def test_no_bin_has_fewer_rows_than_the_floor(seed):
    rng = np.random.default_rng(seed)
    column = rng.geometric(0.5, (200, 1)).astype(float)
    column[rng.uniform(size=column.shape) < 0.04] = np.nan
    numbers, _ = bins_of(column, 8, 10)
    counts = np.bincount(numbers[:, 0])
    assert (counts[counts > 0] >= 10).all() and counts.sum() == 200


def test_a_rare_indicator_is_one_bin():
    """The crafted column of one row: its value is not told from the others."""
    column = np.zeros((1000, 1))
    column[17] = 1
    assert not bins_of(column)[0].any()


def test_few_missing_values_join_the_largest_bin():
    column = np.repeat([0.0, 1.0, np.nan], [400, 600, 9]).reshape(-1, 1)
    numbers, size = bins_of(column)
    assert size == 10 and (numbers[-9:] == 1).all()
    column = np.repeat([0.0, 1.0, np.nan], [400, 600, 10]).reshape(-1, 1)
    numbers, size = bins_of(column)
    assert size == 11 and (numbers[-10:] == 10).all()


def test_a_column_without_values_is_missing():
    numbers, size = bins_of(np.full((50, 1), np.nan))
    assert (numbers == 10).all() and size == 11


def test_categories_by_frequency_and_the_rest():
    column = pd.Series(np.repeat(list("abcdef"), [30, 5, 300, 20, 4, 100])).astype("category")
    frame = pd.DataFrame({"c": column})
    numbers, size = bins_of(frame, 4)
    assert starts(frame, 4) == [["c", "f", "a"]] and size == 4
    assert numbers[:, 0].tolist() == np.repeat([2, 3, 0, 3, 3, 1], [30, 5, 300, 20, 4, 100]).tolist()
    # Those that are too rare even together join the rarest of the others.
    numbers, _ = bins_of(frame, 10)
    assert starts(frame, 10) == [["c", "f", "a", "d"]]
    assert numbers[:, 0].tolist() == np.repeat([2, 3, 0, 3, 3, 1], [30, 5, 300, 20, 4, 100]).tolist()


def test_tables_are_read_in_portions(monkeypatch):
    X = np.random.default_rng(3).normal(size=(100, 7))
    whole = bins_of(X)[0]
    monkeypatch.setattr(own_table, "PORTION", 100 * 8 * 2)
    assert np.array_equal(bins_of(X)[0], whole)
    X[3, 5] = np.inf
    with pytest.raises(DataError, match="column 'f5', row 3: value is infinite"):
        bins_of(X)


def test_columns_of_one_name_are_refused():
    with pytest.raises(DataError, match="'a' appears twice"):
        bins_of(pd.DataFrame(np.zeros((5, 2)), columns=["a", "a"]))


def test_summary_of_own_rows():
    X = np.array([[1.0, np.nan], [3.0, 5.0]])
    found = OwnTable.read(X, None, None, None, ExploreConfig.of()).summary()
    mixed = pd.DataFrame({"c": pd.Series(["a", None]).astype("category"), "x": [1.0, 2.0]})
    summary = OwnTable.read(mixed, None, None, None, ExploreConfig.of()).summary()
    assert summary.loc["c", "missing"] == 0.5 and np.isnan(summary.loc["c", "mean"]) and summary.loc["x", "mean"] == 1.5
    assert found.loc["f0"].tolist() == [0, 2, np.std([1, 3], ddof=1)] and found.loc["f1", "missing"] == 0.5
