"""Public tables at overlapping windows of a shared integer, all on one opening.

Functionality  [x] in Z_2^64 and for each window j a place f_j and a public table T_j of 2^w words
               -> <T_j[v_j mod 2^w]>, v_j = floor(x / 2^f_j) + c_j; x is read modulo 2^B, B the end of the last window.
               c_j = 1 where (x mod 2^f_j) + (r mod 2^f_j) >= 2^f_j, else 0, for the dealt r: a random rounding
Messages       x + r mod 2^B                                                                    (one round)
Cost           8 ceil(B / 8) |x| bits each way; offline: [r] per element, and 2^w bits per window
Security       semi-honest, perfect: the message is a one-time pad
How            e = x + r is opened. A window of e minus the same window of r is v_j mod 2^w, so T_j there is a sum over
               the shared one-hot of r's window, rotated by e's window: local for any number of output bits
Source         one-time truth tables: Ishai et al., TCC 2013; several windows on one opening: ours
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mpc.endpoint import Endpoint
from mpc.kernels import windows as kernels
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import OneHotWindows, Summed
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, word
from mpc.rings import PackedBits, Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, PShare
from mpc.words import U64, Shape, low_bits, packed_size

TruthTable = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """f_j = place + step j, tables of 2^w words, and the table of each window; `outputs`: bits of the tables' words."""

    place: int
    step: int
    tables: tuple[TruthTable, ...]
    which: tuple[int, ...]
    outputs: int

    @property
    def width(self) -> int:
        """w of the header."""
        return len(self.tables[0]).bit_length() - 1

    @property
    def bits(self) -> int:
        """B of the header."""
        return int(self.places[-1]) + self.width

    @property
    def places(self) -> np.ndarray:
        """f_j, int64[windows]."""
        return self.place + self.step * np.arange(len(self.which))


@correlation
class WindowMasks:
    """[r] modulo 2^B, and the one-hots of its windows of `width` bits, shared by xor."""

    shape: Shape
    place: int
    step: int
    count: int
    width: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        n, bits = math.prod(self.shape), self.place + self.step * (self.count - 1) + self.width
        words = low_bits(view.mask(PackedBits(U64), (n,)), bits)
        ring = Z2k(U64, bits)
        r = view.derived(ring, (n,), Summed(ring, words))
        shape = n, self.count, kernels.hot_words(self.width)
        recipe = OneHotWindows(words, self.place, self.step, self.count, self.width)
        return r, view.derived(PackedBits(U64), shape, recipe)


@lru_cache(maxsize=64)
def _turned(tables: tuple[TruthTable, ...], outputs: int) -> np.ndarray:
    return np.stack([kernels.turned(np.array(table, U64), outputs) for table in tables])


@protocol(
    cost=lambda x, windows: Cost(1, both(8 * packed_size(x.size, windows.bits))),
    exact=lambda x, windows: not windows.places.any(),
    elementwise=True,
)
def look_up(party: Endpoint, x: AShare, windows: Windows) -> Steps[PShare]:
    """[x] -> <T_j[v_j mod 2^w]> of the header, uint64, shape x.shape + (windows,)."""
    r, hot = party.randomness.take(WindowMasks(x.shape, windows.place, windows.step, len(windows.which), windows.width))
    masked = x.map(lambda w: low_bits(w.reshape(-1).astype(U64, copy=False) + r, windows.bits))
    (e,) = yield from open_shares(masked, bits=[windows.bits])
    tables = _turned(windows.tables, windows.outputs)
    values = kernels.look_up(e, windows.places, hot, tables, np.array(windows.which))
    return PShare(values.reshape(*x.shape, -1), party.rank)


def values_at(x: np.ndarray, r: np.ndarray, windows: Windows) -> np.ndarray:
    """Compute `look_up` of integers x under masks r in the clear: uint64, shape x.shape + (windows,)."""
    places = windows.places.astype(U64)
    r = r.astype(U64)[..., None]
    v = (x.astype(U64)[..., None] + r >> places) - (r >> places)
    return np.array(windows.tables, U64)[np.array(windows.which), low_bits(v, windows.width)]


SQUARES = tuple(v * v % 251 for v in range(256))


def _sample(i: Inputs, n: int) -> list[object]:
    return [i.words(-(1 << 16), 1 << 16, n, 2), Windows(4, 3, (SQUARES, SQUARES[::-1]), (0, 1, 0), 8)]


describe(
    look_up,
    samples=calls(_sample),
    priced=calls(
        lambda i, n: [i.words(0, 1, n), Windows(4, 3, (SQUARES,), (0, 0, 0), 8)],
        element="three windows of 18 bits",
    ),
    evidence=[
        Enumerated(
            "a window of two bits in Z_4",
            (word(2), Windows(0, 1, ((3, 1, 0, 2),), (0,), 2)),
            lambda x: np.array([3, 1, 0, 2])[x][:, None],
            draws=[Bits(2), Bits(2), Bits(4)],
            output=Bits(2),
        ),
        Enumerated(
            "the two upper bits in Z_8",
            (word(3), Windows(1, 1, ((0, 1), (1, 0)), (0, 1), 1)),
            lambda x: np.stack([x >> 1 & 1, ~x >> 2 & 1], axis=-1),
            draws=[Bits(3), Bits(3), Bits(2)],
            output=Bits(1),
            promise=lambda x: (x % 4 == 0)[:, None],  # no coin
        ),
    ],
)
