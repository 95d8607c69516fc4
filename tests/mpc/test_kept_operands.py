"""Matrices that stay, between two parties: every kind of product, several uses, either owner; what it costs."""

import numpy as np
import pytest

from mpc.fixed_operand import fix, multiply_fixed
from mpc.kept_operands import Operands
from mpc.kernels import aes
from mpc.known_matrix import BinColumns, DenseBits, DenseWords
from mpc.linear_map import MatrixVectors, apply_matrix, share_masked_matrix
from mpc.punctured_trees import depth_of, known_levels, levels, puncture
from mpc.recipes import Applied
from mpc.ring import U8, U64, low_bits
from mpc.rings import GF2, Z8, Z16, Z32, Z64
from mpc.shares import AShare, BShare
from protocols.randomness.transfer_cost import request_transfers, trees_of
from protocols.testing.two_parties import made_by_both, opened, run_both
from tests.mpc.ideal_transfers import Ideal, shared

RNG = np.random.default_rng(5)
KEY = bytes(range(16))


@pytest.mark.parametrize("leaves", [2, 3, 5, 32, 33, 128])
@pytest.mark.parametrize("owner", [0, 1])
def test_all_leaves_but_one(leaves, owner):
    path = np.concatenate([np.arange(leaves), [0, leaves - 1]])
    roots = RNG.integers(0, 1 << 64, (len(path), 2), U64)
    ideal = Ideal()
    of = [(np.zeros_like(roots), path), (roots, np.zeros_like(path))]
    results = ideal.run([puncture(rank, owner, *of[rank != owner], leaves, KEY) for rank in (0, 1)])
    assert np.array_equal(results[1 - owner], roots)
    *_, every = levels(roots, leaves, KEY)
    *_, known = known_levels(results[owner], path, leaves, KEY)
    hidden = np.arange(leaves) == path[:, None]
    assert every.shape == known.shape == (len(path), leaves, 2)
    assert np.array_equal(known[~hidden], every[~hidden]) and not np.array_equal(known[hidden], every[hidden])
    assert len(np.unique(every.reshape(-1, 2), axis=0)) == len(path) * leaves
    request = MatrixVectors(1, owner, len(path), leaves, Z32, count=1, size=leaves)
    counted = trees_of(request)
    assert counted.waves == ideal.waves and sum(counted.transfers) == len(path) * depth_of(leaves)
    assert counted.transfers[1 - owner] == 0


@pytest.mark.parametrize("size", [2, 3, 5, 32, 33, 128])
@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("ring", [Z32, Z64, Z16, Z8], ids=repr)
def test_histograms(size, owner, ring):
    n, features = 7, 3
    bins = RNG.integers(0, size, (n, features)).astype(U8)
    one_hot = np.concatenate([bins[:, [f]] == np.arange(size) for f in range(features)], axis=1).astype(ring.dtype)
    parties = [Operands(rank, KEY) for rank in (0, 1)]
    parties[owner].keep(1, BinColumns(bins, size))
    parties[1 - owner].keep(1, None)
    ideal, waves = Ideal(), 0
    for count in (2, 1, 5):
        r = RNG.integers(0, 1 << 63, (count, n), U64).astype(ring.dtype)
        request = MatrixVectors(1, owner, n, features * size, ring, count=count, size=size)
        recipes = [Applied(None, None, 1, None if rank == owner else r, request) for rank in (0, 1)]
        results = ideal.run([party.applied(recipe) for party, recipe in zip(parties, recipes, strict=True)])
        assert np.array_equal(ring.add(*results), r @ one_hot)
        fresh = trees_of(request).waves if not waves else 0
        assert ideal.waves - waves == request_transfers(request).waves + fresh
        waves = ideal.waves


def test_no_leaf_word_is_used_twice(monkeypatch):
    """The seeds of a matrix stay, the numbers of its vectors do not come again."""
    n, size = 4, 5
    party = Operands(0, KEY)
    party.keep(1, None)
    seen = []
    expand = aes.expand
    monkeypatch.setattr(aes, "expand", lambda seeds, tweaks, key: seen.append(tweaks) or expand(seeds, tweaks, key))
    masks = []
    for count in (3, 1, 2):
        request = MatrixVectors(1, 1, n, size, Z64, count=count, size=size)
        making = party.applied(Applied(None, None, 1, np.zeros((count, n), U64), request))
        asked = next(making)
        while True:
            masks += [one.words for one in asked if one.ring == Z64]
            try:
                asked = making.send([np.zeros((one.count, getattr(one, "width", 1)), one.ring.dtype) for one in asked])
            except StopIteration:
                break
    words = np.concatenate([mask.reshape(-1) for mask in masks])
    assert words.size == 6 * n and len(set(words.tolist())) == words.size


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("ring", [Z32, Z64, GF2], ids=repr)
def test_any_matrix_of_one_party(owner, ring):
    n_in, n_out = 70, 9
    bits = ring == GF2
    matrix = RNG.integers(0, 2 if bits else 1 << 30, (n_out, n_in)).astype(np.int64)
    vectors = RNG.integers(0, 2 if bits else 1 << 30, (3, 2, n_in)).astype(np.int64)

    def job(party):
        own = (
            (DenseBits(matrix.astype(U8)) if bits else DenseWords(matrix.T.astype(ring.dtype)))
            if party.rank == owner
            else None
        )
        known = share_masked_matrix(party, owner, own, n_in, n_out, ring)
        supply, out = known.supply(party, 2 * len(vectors)), []
        for several in vectors:
            half = shared(ring, several)[party.rank]
            x = BShare(half, party.rank) if bits else AShare(half, party.rank)
            out.append(apply_matrix(party, supply, x))
        known.release(party)
        return out

    results, _ = run_both(job, source=made_by_both)
    for several, halves in zip(vectors, zip(*results, strict=True), strict=True):
        wanted = several @ matrix.T
        found = opened(halves)
        assert (
            np.array_equal(found, wanted % 2)
            if bits
            else np.array_equal(low_bits(found.astype(U64), ring.bits), low_bits(wanted.astype(U64), ring.bits))
        )


@pytest.mark.parametrize("kind", ["words", "bits in a ring", "bits"])
def test_shared_matrices(kind):
    ring = GF2 if kind == "bits" else Z64
    matrix = RNG.integers(0, 99 if kind == "words" else 2, (2, 5, 4))
    rows = RNG.integers(0, 2 if kind == "bits" else 99, (3, 2, 6, 5))

    def share(values, rank, seed):
        half = shared(ring, values, seed)[rank]
        return BShare(half, rank) if ring == GF2 else AShare(half, rank)

    def job(party):
        bits = BShare(shared(GF2, matrix, 9)[party.rank], party.rank) if kind == "bits in a ring" else None
        before = party.meter.total.rounds
        operand = fix(party, share(matrix, party.rank, 2), bits)
        assert party.meter.total.rounds == before and operand.opened is None
        out = [multiply_fixed(party, share(several, party.rank, i), operand) for i, several in enumerate(rows)]
        operand.release(party)
        return out

    results, _ = run_both(job, source=made_by_both)
    for several, halves in zip(rows, zip(*results, strict=True), strict=True):
        assert np.array_equal(opened(halves), several @ matrix % 2 if kind == "bits" else several @ matrix)
