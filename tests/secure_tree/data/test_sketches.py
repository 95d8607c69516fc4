"""Bins over shards: exact for few values, otherwise within the stated error, however the rows are divided."""

import pickle
import re
import sys

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from secure_tree.data.bins import Counted, make_bins
from secure_tree.data.sketches import MOST_COUNTED, SketchReport, bins_of_shards, check_exact, merge, sketch

ROWS = 120_000


def adversarial(name, n, rng):
    if name == "sorted":
        return np.arange(n, dtype=np.float32)
    if name == "descending":
        return np.arange(n, dtype=np.float32)[::-1].copy()
    if name == "heavy tail":
        return (rng.pareto(0.3, n)).astype(np.float32)
    if name == "mostly zero":
        return np.where(rng.random(n) < 0.9, 0, rng.normal(size=n)).astype(np.float32)
    if name == "two clusters":
        return np.where(rng.random(n) < 0.5, rng.normal(size=n) * 1e-6, 1e6 + rng.normal(size=n)).astype(np.float32)
    if name == "zig-zag":
        return np.where(np.arange(n) % 2, np.arange(n), -np.arange(n)).astype(np.float32)
    return rng.normal(size=n).astype(np.float32)


KINDS = "sorted", "descending", "heavy tail", "mostly zero", "two clusters", "zig-zag", "normal"


def divided(X, ways, rng):
    if ways == "one":
        return [X]
    if ways == "tiny":
        return np.array_split(X, 600)
    if ways == "by value":
        return np.array_split(X[np.argsort(X[:, 0], kind="stable")], 7)
    ends = np.sort(rng.integers(0, len(X), 5))
    return np.split(X, ends)  # some may be empty


def rank_errors(column, found, nominal):
    """Return the distance of each nominal rank from the ranks of the found value in the column."""
    present = np.sort(column[~np.isnan(column)])
    below = np.searchsorted(present, found, side="left") / present.size
    up_to = np.searchsorted(present, found, side="right") / present.size
    return np.maximum(0, np.maximum(below - nominal, nominal - up_to))


@pytest.mark.parametrize("ways", ["one", "tiny", "by value", "uneven"])
def test_ranks_are_within_the_stated_error_however_the_rows_are_divided(ways):
    rng = np.random.default_rng(1)
    X = np.stack([adversarial(name, ROWS, rng) for name in KINDS], axis=1)
    X[rng.random(ROWS) < 0.2, 6] = np.nan
    merged = merge(sketch(part) for part in divided(X, ways, rng))
    report = SketchReport.of(merged, KINDS)
    assert report.rows == ROWS and all(0 < error < 0.001 for error in report.rank_errors.values())
    assert list(report.rank_errors) == list(KINDS) and report.rank_error == max(report.rank_errors.values())
    nominal = np.arange(1, 64) / 64
    for each, column in zip(merged, X.T, strict=True):
        values = each.values
        assert values.counts.sum() == each.present == (~np.isnan(column)).sum()
        assert values.values[0] == np.nanmin(column)
        # The error holds for 99% of sketches; three times this error does not occur by chance.
        assert rank_errors(column, values.quantiles(63), nominal).max() < 3 * each.rank_error


@pytest.mark.parametrize(("size", "finer"), [(32, 1), (8, 16), (64, 3)])
def test_bins_are_cut_as_those_of_one_process(size, finer):
    rng = np.random.default_rng(2)
    X = np.stack([adversarial(name, ROWS, rng) for name in KINDS], axis=1)
    whole = make_bins(X, size, finer)
    bins = bins_of_shards(merge(sketch(part) for part in divided(X, "uneven", rng)), size, finer)
    assert bins.cuts.shape == whole.cuts.shape and bins.cuts.dtype == np.float32 and bins.finer == finer
    assert np.array_equal(bins.cuts[:, 0], whole.cuts[:, 0])
    assert (np.diff(bins.cuts, axis=1) >= 0).all() and (np.diff(bins.edges, axis=1) > 0).all()
    for f, column in enumerate(X.T):
        ours, theirs = (np.searchsorted(np.sort(column), x.cuts[f]) / ROWS for x in (bins, whole))
        # Cuts between edges move with the edges, and an edge that repeats a value is replaced by others.
        assert np.abs(ours - theirs).max() < 0.02
        inside = (bins.medians[f] >= bins.cuts[f]) & (bins.medians[f] <= np.append(bins.cuts[f, 1:], np.inf))
        assert inside.all()


def test_features_of_few_values_have_the_bins_of_one_process():
    rng = np.random.default_rng(3)
    few = np.stack(
        [
            rng.integers(0, 2, ROWS),
            rng.geometric(0.01, ROWS),
            np.full(ROWS, 7),
            np.where(rng.random(ROWS) < 0.999, 0, rng.integers(0, 4000, ROWS)),
            np.full(ROWS, np.nan),
            np.where(rng.random(ROWS) < 0.5, np.nan, rng.integers(-9, 9, ROWS)),
        ],
        axis=1,
    ).astype(np.float32)
    merged = merge(sketch(part) for part in divided(few, "tiny", rng))
    assert SketchReport.of(merged, "abcdef").rank_errors == dict.fromkeys("abcdef", 0.0)
    for size, finer in ((32, 1), (8, 16), (1, 1)):
        ours, whole = bins_of_shards(merged, size, finer), make_bins(few, size, finer)
        assert np.array_equal(ours.cuts, whole.cuts) and np.array_equal(ours.medians, whole.medians)
    check_exact(merged, list("abcdef"))


def test_few_rows_of_many_values_are_exact_and_sketches_cross_processes():
    X = np.random.default_rng(4).normal(size=(3000, 2)).astype(np.float32)
    shards = [pickle.loads(pickle.dumps(sketch(part))) for part in np.array_split(X, 4)]
    assert np.array_equal(bins_of_shards(merge(shards), 32, 4).cuts, make_bins(X, 32, 4).cuts)


def test_exact_bins_are_refused_beyond_a_number_of_values():
    column = np.arange(MOST_COUNTED + 1, dtype=np.float32)[:, None]
    merged = merge(sketch(part) for part in np.array_split(np.hstack([np.zeros_like(column), column]), 5))
    with pytest.raises(ConfigError, match="'income' has more than 4096 distinct values over the shards"):
        check_exact(merged, ["sex", "income"])


def test_shards_of_other_widths_and_a_missing_library_are_sentences(monkeypatch):
    with pytest.raises(DataError, match="same features, got 2 and 3"):
        merge([sketch(np.zeros((4, 2), np.float32)), sketch(np.zeros((4, 3), np.float32))])
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ConfigError, match=re.escape(install("cluster"))):
        sketch(np.zeros((4, 2), np.float32))


def test_counts_weigh_as_repeated_values_do():
    rng = np.random.default_rng(5)
    values, counts = rng.integers(0, 900, 500).astype(np.float32), rng.integers(1, 50, 500)
    weighed, repeated = Counted.of(values, counts), Counted.of(np.repeat(values, counts))
    assert np.array_equal(weighed.values, repeated.values) and np.array_equal(weighed.counts, repeated.counts)
    expected = np.quantile(np.repeat(values, counts), np.arange(1, 32) / 32, method="inverted_cdf")
    assert np.array_equal(weighed.quantiles(31), expected)
