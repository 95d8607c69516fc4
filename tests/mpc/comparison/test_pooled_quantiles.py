"""Quantiles of pooled columns are right, and everything revealed follows from them."""

from itertools import combinations_with_replacement

import numpy as np

from mpc.comparison.pooled_quantiles import PooledColumn, masses_of, pooled_quantiles
from protocols.testing.two_parties import run_both

BITS = 32


def quantile(keys, masses, rank, parts):
    """Return the least key such that keys up to it have rank / parts of the mass."""
    order = np.argsort(keys, kind="stable")
    sums = np.cumsum(masses[order])
    if rank == 0 or not sums.size or sums[-1] == 0:
        return 0
    return int(keys[order][np.argmax(parts * sums >= rank * sums[-1])])


def bisected(halves, rank, parts, key_bits=BITS, bits=26):
    """halves[p]: party p's (keys, masses) of every column -> quantiles of the pooled columns, and the revealed bits."""

    def job(party):
        revealed, reveal = [], party.reveal
        party.reveal = lambda x, what: revealed.append(reveal(x, what=what)) or revealed[-1]
        own = masses_of([PooledColumn.of(*column) for column in halves[party.rank]])
        found = pooled_quantiles(party, own, rank, parts, key_bits, bits, "quantiles")
        return found, np.array(revealed), set(party.revealed)

    (found, revealed, what), other = run_both(job)[0]
    assert np.array_equal(found, other[0]) and what == {"quantiles"}
    return found, revealed


def ones(keys):
    return np.asarray(keys, np.int64), np.ones(len(keys), np.int64)


def test_quantiles_of_pooled_columns():
    rng = np.random.default_rng(1)
    shapes = [(50, 3), (0, 20), (20, 0), (0, 0), (200, 200)]
    halves = [[], []]
    for column, counts in enumerate(shapes):
        for half, n in zip(halves, counts, strict=True):
            keys = rng.integers(0, 2**32 if column % 2 else 9, n)
            half.append((keys, rng.integers(0, 1000, n)))
    parts = np.array([[16], [16], [3], [7], [31]]) * np.ones((1, 6), np.int64)
    rank = np.minimum(np.array([0, 1, 2, 5, 15, 31]), parts)
    found, _ = bisected(halves, rank, parts)
    for f in range(len(shapes)):
        keys, masses = (np.concatenate([halves[p][f][i] for p in (0, 1)]) for i in (0, 1))
        assert [quantile(keys, masses, r, s) for r, s in zip(rank[f], parts[f], strict=True)] == found[f].tolist()


def test_every_small_column_in_every_division():
    # All multisets of up to two keys of two bits at each party.
    columns = [c for n in range(3) for c in combinations_with_replacement(range(4), n)]
    halves = [[ones(a) for a in columns for _ in columns], [ones(b) for _ in columns for b in columns]]
    rank, parts = np.tile([1, 2, 3], (len(columns) ** 2, 1)), np.full((len(columns) ** 2, 3), 3)
    found, revealed = bisected(halves, rank, parts, key_bits=2, bits=5)
    for f, (a, b) in enumerate(zip(*halves, strict=True)):
        pooled = ones(np.concatenate([a[0], b[0]]))
        assert [quantile(*pooled, r, 3) for r in (1, 2, 3)] == found[f].tolist()
    # The revealed bits are those of the quantile.
    assert np.array_equal(revealed, np.stack([found >> 1, found & 1]))


def test_the_revealed_bits_do_not_depend_on_the_division_of_rows():
    rng = np.random.default_rng(2)
    pooled = [rng.integers(0, 2**32, 60), rng.integers(0, 5, 60), np.repeat(rng.integers(0, 2**32, 3), 20)]
    rank, parts = np.tile(np.arange(1, 8), (3, 1)), np.full((3, 7), 8)
    seen = []
    for share in (0, 0.02, 0.5, 1):
        first = [rng.permutation(60) < 60 * share for _ in pooled]
        halves = [[ones(keys[m == own]) for keys, m in zip(pooled, first, strict=True)] for own in (True, False)]
        seen.append(bisected(halves, rank, parts)[1])
    by_value = [pooled[1] < 2, pooled[0] > 2**31, pooled[2] == pooled[2][0]]
    halves = [[ones(keys[m == own]) for keys, m in zip(pooled, by_value, strict=True)] for own in (True, False)]
    seen.append(bisected(halves, rank, parts)[1])
    assert all(np.array_equal(one, seen[0]) for one in seen)
