"""Messages on trees of seeds, and words masked by blocks, are uniform for any matrix, bits and words."""

import numpy as np
import pytest

from mpc.matrix.known_matrix import BinColumns, packed_rows
from mpc.matrix.linear_map import KnownProduct, MatrixVectors
from mpc.offline.transfers import MaskedMessage
from mpc.rings import Z32, Z64
from mpc.words import U8, U64
from protocols.offline.pairwise import chosen_columns
from protocols.offline.pairwise.chosen_columns import choose_columns, depth_for
from protocols.offline.pairwise.one_hot_rows import OneHotRows
from protocols.offline.pairwise.operands import Operands
from protocols.ot.consistency import ANSWER, CHALLENGE
from tests.leakage.welch import Tally, leaking_positions
from tests.mpc.offline.ideal_transfers import DELTAS, Ideal, made_by

LANES, KEY = 10_000, bytes(16)


def messages(programs, seed):
    """Tally party 0's messages in order, lane after lane."""
    ideal = Ideal(seed)
    ideal.run(programs)
    *sums, last = [
        one.words
        for one in ideal.asked
        if isinstance(one, MaskedMessage) and one.words is not None and one.count > max(CHALLENGE, ANSWER)
    ]
    # Sums of levels come level by level, with two words per lane.
    by_lane = [np.ascontiguousarray(w.reshape(-1, LANES, 2).swapaxes(0, 1)) for w in sums]
    return Tally.by_lane([part.tobytes() for part in (*by_lane, last)], LANES)


def of_columns(fixed, seed):
    """Routing: each column is a lane."""
    rng, height, vectors = np.random.default_rng(seed), 640, 4
    assert depth_for(vectors, height) == vectors, "one group, so that each column has one tree"
    matrix = rng.integers(0, 2, (1 if fixed else LANES, height)).astype(U8)
    bits = rng.integers(0, 2, (vectors, 1 if fixed else LANES)).astype(U8)
    columns = packed_rows(np.broadcast_to(matrix, (LANES, height)))
    own = np.broadcast_to(bits, (vectors, LANES)), columns
    return messages([choose_columns(r, 0, own[r == 0], vectors, height, DELTAS[r], KEY) for r in (0, 1)], seed)


def of_rows(fixed, seed):
    """Histograms: each row is a lane."""
    rng, size, count = np.random.default_rng(seed), 8, 3
    bins = np.broadcast_to(rng.integers(0, size, (1 if fixed else LANES, 1)), (LANES, 1)).astype(U8)
    r = np.broadcast_to(rng.integers(0, 1 << 32, (count, 1 if fixed else LANES)), (count, LANES)).astype(np.uint32)
    parties = [Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1)]
    parties[1].keep(1, BinColumns(bins, size))
    request = MatrixVectors(1, 1, LANES, size, Z32, count=count, size=size)
    programs = [made_by(party, KnownProduct(request, None, None if party.rank else r)) for party in parties]
    return messages(programs, seed)


class Told(Ideal):
    """Adds up what both parties say in a wave."""

    opened = U64.type(0)

    def _told(self, pair):
        words, _ = super()._told(pair)
        self.opened = self.opened + words
        return words, words


def of_shared_rows(fixed, seed):
    """What both parties open of rows that they share: each row is a lane."""
    rng, m, count = np.random.default_rng(seed), 4, 3
    place = np.broadcast_to(rng.integers(0, m + 1, (1 if fixed else LANES, 1)), (LANES, 1))
    rho = np.broadcast_to(rng.integers(0, 1 << 63, (1 if fixed else LANES, count), U64), (LANES, count))
    mask, first = rng.integers(0, 2, (LANES, m), U8), rng.integers(0, 1 << 63, rho.shape, U64)
    bits, halves = (mask, mask ^ (np.arange(m) == place)), (first, rho - first)
    ideal = Told(seed)
    parties = [Operands(rank, KEY, DELTAS[rank]) for rank in (0, 1)]
    ideal.run([p.one_hot_rows(1, bits[p.rank], halves[p.rank], 1, Z64) for p in parties])
    return Tally.by_lane([ideal.opened.tobytes()], LANES)


@pytest.mark.parametrize("of", (of_columns, of_rows, of_shared_rows))
def test_no_bit_of_a_message_distinguishes_fixed_from_random(of):
    fixed, other = of(True, 3), of(False, 4)
    assert fixed.ones.size > 0 and leaking_positions(fixed, other).tolist() == []


def test_rows_whose_pads_agree_are_found(monkeypatch):
    real = OneHotRows._hashed

    def weak(self, rows, chooser, key):
        return real(self, rows, chooser, key) * U64.type(0)

    monkeypatch.setattr(OneHotRows, "_hashed", weak)
    assert leaking_positions(of_shared_rows(True, 3), of_shared_rows(False, 4)).tolist() != []


def test_columns_without_their_mask_are_found(monkeypatch):
    real = chosen_columns._folded

    def unmasked(*arguments):
        products, sums = real(*arguments)
        return products, sums & U64.type(~1 & (1 << 64) - 1)

    monkeypatch.setattr(chosen_columns, "_folded", unmasked)
    assert leaking_positions(of_columns(True, 3), of_columns(False, 4)).tolist() != []
