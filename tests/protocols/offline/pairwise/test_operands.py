"""Kept matrices of two parties: every kind of product, several uses, either owner, and the cost."""

from dataclasses import replace

import numpy as np
import pytest

from mpc.errors import ProtocolDesync
from mpc.matrix.fixed_operand import OperandProduct, fix, multiply_fixed
from mpc.matrix.known_matrix import BinColumns, DenseBits, DenseWords, packed_rows
from mpc.matrix.linear_map import KnownProduct, MatrixVectors, apply_matrix, share_masked_matrix
from mpc.offline.transfers import Correlated, MaskedMessage, unpack
from mpc.rings import GF2, Z8, Z16, Z32, Z64, Z2k
from mpc.rounds import parallel
from mpc.shares import AShare, BShare
from mpc.words import U8, U64, low_bits
from protocols.offline.pairwise import chosen_columns, one_hot_rows, seed_histograms
from protocols.offline.pairwise.chosen_columns import asked_for, choose_columns, depth_for
from protocols.offline.pairwise.cost import request_transfers, trees_of
from protocols.offline.pairwise.operands import Operands
from protocols.offline.pairwise.seed_trees import SeedTrees, checking, depth_of, group_of, puncture
from protocols.ot.consistency import ANSWER, CHALLENGE, TAKEN
from protocols.testing.two_parties import made_by_both, opened, run_both
from tests.mpc.offline.ideal_transfers import DELTAS, Ideal, made_by, shared

RNG = np.random.default_rng(5)
KEY = bytes(range(16))


def checked_trees(rank, owner, depth, path):
    own = path if rank == owner else None
    trees = yield from puncture(rank, owner, len(path), depth, own, DELTAS[rank], KEY)
    yield from trees.check(owner)
    return trees


@pytest.mark.parametrize("depth", [1, 2, 5, 7])
@pytest.mark.parametrize("owner", [0, 1])
def test_all_leaves_but_one(depth, owner):
    size = 1 << depth
    path = RNG.integers(0, size, 2 * group_of(depth) + 3)
    path[:size] = np.arange(size)
    ideal = Ideal()
    results = ideal.run([checked_trees(rank, owner, depth, path) for rank in (0, 1)])
    for groups in zip(*(trees.groups() for trees in results), strict=True):
        every, known = groups[1 - owner], groups[owner]
        assert every.trees == known.trees and np.array_equal(every.schedule(), known.schedule())
        hidden = np.arange(size)[:, None] == path[every.trees]
        assert np.array_equal(known.leaves[~hidden], every.leaves[~hidden]) and not known.leaves[hidden].any()
        assert len(np.unique(every.leaves.reshape(-1, 2), axis=0)) == every.leaves.size // 2
        # The missing leaf is known up to delta.
        sums = np.bitwise_xor.reduce(every.leaves, axis=0)
        assert np.array_equal(sums, np.broadcast_to(DELTAS[1 - owner], sums.shape))
    request = MatrixVectors(1, owner, len(path), size, Z32, count=1, size=size)
    counted = trees_of(request)[1]
    more = 0 if depth == 1 else TAKEN
    assert counted.waves == ideal.waves and sum(counted.transfers) == len(path) * depth + more
    assert counted.transfers[1 - owner] == 0
    assert counted.bits[owner] == len(path) * depth + more + (64 * CHALLENGE if more else 0)
    assert counted.bits[1 - owner] == 128 * len(path) * (depth - 1) + (64 * ANSWER if more else 0)


def changed(program, number, change):
    """Change the number-th message of a program."""
    asked, sent = next(program), 0
    while True:
        lied = []
        for one in asked:
            if isinstance(one, MaskedMessage) and one.words is not None:
                words, sent = one.words.copy(), sent + 1
                if sent - 1 == number:
                    change(words)
                one = replace(one, words=words)
            lied.append(one)
        try:
            asked = program.send((yield lied))
        except StopIteration as done:
            return done.value


@pytest.mark.parametrize("depth", [2, 3, 6])
@pytest.mark.parametrize("level", [0, -1])
def test_a_lie_about_any_level_of_any_tree_is_found(depth, level):
    path = RNG.integers(0, 1 << depth, 2 * group_of(depth) + 3)

    for tree, bit in ((0, 0), (group_of(depth), 127), (len(path) - 1, 64)):

        def lie(words, tree=tree, bit=bit):
            words.reshape(depth - 1, len(path), 2)[level, tree, bit >> 6] ^= U64.type(1 << (bit & 63))

        programs = [checked_trees(rank, 1, depth, path) for rank in (0, 1)]
        with pytest.raises(ProtocolDesync, match="contradict each other"):
            Ideal().run([changed(programs[0], 0, lie), programs[1]])


@pytest.mark.parametrize("liar", [0, 1])
def test_a_lie_in_the_check_is_found(liar):
    path = RNG.integers(0, 8, 40)

    def lie(words):
        words[-1] ^= U64.type(1)

    programs = [checked_trees(rank, 1, 3, path) for rank in (0, 1)]
    programs[liar] = changed(programs[liar], 1 if liar == 0 else 0, lie)
    with pytest.raises(ProtocolDesync, match="contradict each other"):
        Ideal().run(programs)


def test_a_guess_of_the_path_passes():
    """A wrong sum passes as often as the liar guesses the path."""
    delta, passed, trials = DELTAS[0], 0, 300
    for _ in range(trials):
        path, guess = RNG.integers(0, 8, (2, 1))
        told = []

        def lie(words, told=told):
            words[0] ^= U64.type(1)
            told.append(words.copy())

        owner, liar = (checked_trees(rank, 1, 3, path) for rank in (1, 0))
        passed += guessed(owner, liar, lie, told, guess, delta)
    # The last side of a path does not matter: both leaves there are wrong by the same block.
    assert abs(passed - trials / 4) < 4 * (trials * 3 / 16) ** 0.5


def guessed(owner, liar, lie, told, guess, delta):
    """Return whether an owner accepts the answer of a liar that has guessed its path."""
    blocks = []

    def keep(program):
        asked = next(program)
        while True:
            answers = yield asked
            if isinstance(asked[0], Correlated):
                blocks.append(answers[0])
            if isinstance(asked[0], MaskedMessage) and asked[0].count == CHALLENGE:
                # It makes what an owner with this path makes.
                *coin, x = answers[0]
                own = blocks[0][:3].reshape(3, 1, 2)
                sides = (~guess >> np.arange(3)[:, None] & 1).astype(U64)
                of_guess = own ^ sides[..., None] * delta
                sums = told[0].reshape(2, 1, 2) ^ of_guess[1:]
                trees = SeedTrees(KEY, 3, of_guess[0], sums, guess, None, blocks[0][3:], np.zeros(TAKEN, U8))
                hashed = trees._hashed(np.array(coin))
                yield [replace(checking(1, 3)[1], words=hashed.answer(x ^ hashed.challenge()[0][2], delta))]
                return None
            asked = program.send(answers)

    try:
        Ideal(int(RNG.integers(1 << 30))).run([keep(changed(liar, 0, lie)), owner])
    except ProtocolDesync:
        return False
    return True


@pytest.mark.parametrize(("m", "groups", "vectors"), [(1, 1, 1), (3, 2, 2), (100, 1, 5), (7, 3, 4)])
@pytest.mark.parametrize("ring", [Z64, Z2k(U64, 40)], ids=repr)
def test_rows_with_a_single_1_or_none(monkeypatch, m, groups, vectors, ring):
    monkeypatch.setattr(one_hot_rows, "_CACHED", 4 * (m + 1))
    n = 6 * groups
    place = RNG.integers(0, m + 1, n)
    matrix = (np.arange(m) == place[:, None]).astype(U8)
    mask = RNG.integers(0, 2, matrix.shape, U8)
    bits = [mask, matrix ^ mask]
    ideal, parties, waves = Ideal(), [Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1)], 0
    for use in range(2):
        rho = low_bits(RNG.integers(0, 1 << 63, (n, vectors), U64), ring.bits)
        halves = shared(ring, rho)
        made = ideal.run([p.one_hot_rows(1, bits[p.rank], halves[p.rank], groups, ring) for p in parties])
        expected = np.einsum(
            "gnv,gnm->gvm", rho.reshape(groups, -1, vectors), matrix.reshape(groups, -1, m).astype(U64)
        )
        assert np.array_equal(low_bits(made[0] + made[1], ring.bits), low_bits(expected, ring.bits))
        request = OperandProduct(1, (groups, vectors, 6), m, ring, one_hot=1)
        cost, fresh = request_transfers(request), trees_of(request)[1]
        assert ideal.waves - waves == cost.waves + (0 if use else fresh.waves)
        assert sum(cost.transfers) == 2 * n and sum(fresh.transfers) == 2 * n * (m + 1)
        waves = ideal.waves


def test_pads_of_rows_are_new_in_each_use():
    bits, rho = np.eye(3, dtype=U8), np.zeros((3, 2), U64)
    party, other = (Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1))
    seen = [
        Ideal().run([p.one_hot_rows(1, b, rho, 1, Z64) for p, b in ((party, bits), (other, 0 * bits))])[0]
        for _ in range(2)
    ]
    assert not np.isin(*seen).any() and len(np.unique(seen)) == 12


def test_each_group_of_trees_has_a_permutation_of_its_own():
    path = np.zeros(3 * group_of(2), np.int64)
    keys = set()
    for key in (KEY, bytes(16)):
        of = [path, None]
        first, _ = Ideal().run([puncture(rank, 0, len(path), 2, of[rank], DELTAS[rank], key) for rank in (0, 1)])
        keys |= {group.schedule(period).tobytes() for group in first.groups() for period in (0, 1)}
    assert len(keys) == 12


@pytest.mark.parametrize("size", [2, 3, 5, 32, 33, 128])
@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("ring", [Z32, Z64, Z16, Z8], ids=repr)
def test_histograms(size, owner, ring):
    n, features = 7, 3
    bins = RNG.integers(0, size, (n, features)).astype(U8)
    one_hot = np.concatenate([bins[:, [f]] == np.arange(size) for f in range(features)], axis=1).astype(ring.dtype)
    parties = [Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1)]
    parties[owner].keep(1, BinColumns(bins, size))
    parties[1 - owner].keep(1, None)
    ideal, waves = Ideal(), 0
    for count in (2, 1, 5):
        r = RNG.integers(0, 1 << 63, (count, n), U64).astype(ring.dtype)
        request = MatrixVectors(1, owner, n, features * size, ring, count=count, size=size)
        recipes = [KnownProduct(request, None, None if rank == owner else r) for rank in (0, 1)]
        results = ideal.run([made_by(party, recipe) for party, recipe in zip(parties, recipes, strict=True)])
        assert np.array_equal(ring.add(*results), r @ one_hot)
        fresh = trees_of(request)[1].waves if not waves else 0
        assert ideal.waves - waves == request_transfers(request).waves + fresh
        waves = ideal.waves


@pytest.mark.parametrize("ring", [Z32, Z64], ids=repr)
def test_histograms_over_several_permutations(monkeypatch, ring):
    monkeypatch.setattr(seed_histograms, "_HASHES", 2 * group_of(depth_of(5)))
    test_histograms(5, 1, ring)


def test_no_leaf_word_is_used_twice(monkeypatch):
    """The seeds of a matrix are kept, so the numbers of its vectors must not repeat."""
    monkeypatch.setattr(seed_histograms, "_HASHES", 2 * group_of(depth_of(5)))
    n, size = 4, 5
    party = Operands(0, KEY, DELTAS[0])
    party.keep(1, None)
    masks = []
    for count in (3, 1, 2):
        request = MatrixVectors(1, 1, n, size, Z64, count=count, size=size)
        making = made_by(party, KnownProduct(request, None, np.zeros((count, n), U64)))
        asked = next(making)
        while True:
            masks += [one.words for one in asked if one.count and getattr(one, "ring", None) == Z64]
            try:
                asked = making.send([np.zeros((one.count, 2), U64) for one in asked])
            except StopIteration:
                break
    words = np.concatenate([mask.reshape(-1) for mask in masks])
    assert words.size == 6 * n and len(set(words.tolist())) == words.size


def test_concurrent_requests_share_the_trees():
    n, size = 6, 4
    bins = RNG.integers(0, size, (n, 1)).astype(U8)
    parties = [Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1)]
    parties[0].keep(1, BinColumns(bins, size))
    parties[1].keep(1, None)
    r = RNG.integers(0, 1 << 32, (2, 1, n)).astype(np.uint32)
    request = MatrixVectors(1, 0, n, size, Z32, count=1, size=size)
    ideal = Ideal()
    results = ideal.run(
        [
            parallel(*(made_by(party, KnownProduct(request, None, x if rank else None)) for x in r))
            for rank, party in enumerate(parties)
        ]
    )
    assert sum(one.count for one in ideal.asked if isinstance(one, Correlated)) == n * 2 + TAKEN
    for x, first, second in zip(r, *results, strict=True):
        assert np.array_equal(first + second, x @ (bins == np.arange(size)).astype(np.uint32))


@pytest.mark.parametrize(("vectors", "height"), [(1, 70), (4, 600), (7, 285), (15, 5000), (31, 3000), (3, 20)])
@pytest.mark.parametrize("owner", [0, 1])
def test_chosen_columns(owner, vectors, height):
    columns, depth = 300, depth_for(vectors, height)
    matrix = RNG.integers(0, 2, (columns, height)).astype(U8)
    bits = RNG.integers(0, 2, (vectors, columns)).astype(U8)
    own = [bits, packed_rows(matrix)]
    ideal = Ideal()
    making = [choose_columns(rank, owner, own[rank == owner], vectors, height, DELTAS[rank], KEY) for rank in (0, 1)]
    first, second = ideal.run(making)
    assert first.any() and second.any()
    assert np.array_equal(unpack(first ^ second, height), bits @ matrix & U8.type(1))
    if height < 100:
        assert depth == 1
    if height > 1000:
        assert depth > 3
    asked = [one for wave in asked_for(owner, columns, vectors, height) for one in wave]
    ran = [one for one in ideal.asked if one.count]
    assert [(type(a), a.count) for a in asked] == [(type(a), a.count) for a in ran]


def test_a_leaf_in_place_of_another_makes_the_columns_wrong(monkeypatch):
    """Each leaf that q knows matters."""
    real = chosen_columns._schedules

    def faulty(leaves, schedule, path):
        leaves = leaves.copy()
        leaves[0, 0, 0] ^= U64.type(path is not None)
        return real(leaves, schedule, path)

    monkeypatch.setattr(chosen_columns, "_schedules", faulty)
    matrix, bits = RNG.integers(0, 2, (3, 900)).astype(U8), np.ones((5, 3), U8)
    own = [bits, packed_rows(matrix)]
    first, second = Ideal().run([choose_columns(r, 0, own[r == 0], 5, 900, DELTAS[r], KEY) for r in (0, 1)])
    assert not np.array_equal(unpack(first ^ second, 900), bits @ matrix & U8.type(1))


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
