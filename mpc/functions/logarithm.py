"""Binary logarithm of a shared integer to about seven bits of relative precision, enough to compare quotients.

Functionality  [x] -> [L] in Z_2^16, L = c + U log2(|x| / m) + error, m = 80 2^f, for public c, U and f. For signed x,
               L is 0 where |x| <= m, and may be 0 up to 1.2 m; for others it is c where x <= m
Error          |error| <= 0.019 U + 1/2 (at most 1/79 of |x|, and the rounding to a unit); random, by coins as in
               mpc/lookup/windows.py, 0.002 U on average
Range          |x| < 62 2^(f + 4 + 3 j), or 30 2^(f + 4 + 3 j) for signed x, with j + 1 windows, at most 11
Messages       find_windows, one round: x + r modulo 2^B.  read_window, one round: the bits that select a window, under
               masks.  logarithm: find_windows; which windows have only windows near zero above them (1); for signed x,
               which of those leads (1); read_window; a table at the bits read (1); the conversion to the ring (1)
Cost           find_windows: B |x| bits each way;  read_window: one bit per window and side.  Offline, per element: [r];
               per window 14 bytes, or 18 for signed x; and 128 bytes for the table
Security       semi-honest, perfect: every message is a one-time pad
How            windows of six bits overlap by three. The leading one, the highest whose value is 6 or more, determines
               the octave of x up to three; ten bits of x, from four places below that window, are read and looked up.
               All windows above the leading one are near zero, from above for x >= 0, from below for x < 0: one chain
               of "near zero" per sign, and a window leads on one side only (notebooks/tables.ipynb). Of an x that is
               never negative, the leading window is the highest that is not near zero, or else the lowest. At its
               place g the ten bits are those of (e >> g) - (r >> g): e is public, and the windows of r are dealt as
               integers
Source         mpc/lookup/windows.py; logarithms for comparing products: common practice in floating point
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mpc.arithmetic.bits import and_bits, to_ring
from mpc.comparison.comparison import below, beyond
from mpc.endpoint import Endpoint
from mpc.errors import RangeError
from mpc.kernels import windows as kernels
from mpc.lookup.prefix_and import prefix_and
from mpc.lookup.windows import TruthTable, Windows, look_up
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Chosen, Later, Lifted, OneHotWindows, ReadWindows, Summed
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued, Bits, Enumerated, bit, composed, word
from mpc.rings import GF2, Z16, PackedBits, Z2k
from mpc.rounds import Steps, open_shares, parallel
from mpc.shares import AShare, BShare, concatenate, public_bits, stack
from mpc.words import U16, U64, Shape, low_bits, packed_size

WIDTH, STEP = 6, 3
SIZE = 1 << WIDTH
# A window leads from this value on: 2^(WIDTH - STEP), less the largest difference that the coins of two windows make.
LEADING = (1 << STEP) - 2
# From this value on, a window counts for the other side.
LAST = SIZE - 8
# How many bits are read, how far below the window they start, and the least value that a leading window implies.
READ_BITS, BELOW = 10, 4
LEAST_READ = LEADING - 1 << BELOW
# Error of a logarithm in units U, without the rounding.
ERROR = 0.019
MOST_WINDOWS, WORD, UNIT_MOST = 11, 64, 160
# Bits per side in a table of windows: whether the window leads, and whether it is near zero.
LEADS, NEAR_ZERO, SIDE_BITS = 1, 2, 2


def _log(value: int, unit: int) -> int:
    """Return unit * log2(value / LEAST_READ), rounded, for value >= LEAST_READ, by integer arithmetic."""
    twice = (value ** (2 * unit) // LEAST_READ ** (2 * unit)).bit_length() - 1
    return (twice + 1) // 2


@dataclass(frozen=True)
class Logarithm:
    """Parameters of a logarithm: U of the header, f, the number of windows, whether x may be negative, and c."""

    unit: int
    place: int
    count: int
    signed: bool = False
    base: int = 0

    @classmethod
    def of(cls, unit: int, least: int, most: int, signed: bool = False, base: int = 0) -> Logarithm:
        """Return parameters for |x| <= most, with m <= `least`, a positive integer of 80 or more. Raises RangeError."""
        end, place = (SIZE >> signed) - 1, (least // LEAST_READ).bit_length() - 1
        choices = []
        # With f lower by one or two, the highest window may end within the word.
        for f in range(max(0, place - STEP + 1), place + 1):
            count = 1
            while most >> f + BELOW + STEP * (count - 1) >= end:
                count += 1
            if count <= MOST_WINDOWS and f + STEP * (count - 1) + READ_BITS <= WORD:
                choices.append(cls(unit, f, count, signed, base))
        if not choices or unit > UNIT_MOST:
            raise RangeError(f"a logarithm of numbers from {least} to {most} needs too many windows: narrow the range")
        return min(choices, key=lambda log: (log.count, -log.place))

    @property
    def sides(self) -> int:
        """Number of sides: 2 if x may be negative."""
        return 1 + self.signed

    @property
    def bits(self) -> int:
        """B of the header."""
        return self.place + STEP * (self.count - 1) + READ_BITS

    @property
    def largest(self) -> int:
        """An upper bound of L."""
        return int(self.octaves[-1]) + _log((1 << READ_BITS) - 1, self.unit)

    @property
    def octaves(self) -> np.ndarray:
        """The least value of the logarithm where each window leads, int64[count]."""
        return self.base + self.unit * STEP * np.arange(self.count)

    @property
    def value(self) -> Windows:
        """The table at the bits read, v: U log2(v / LEAST_READ)."""
        return _values(self.unit)


@lru_cache(maxsize=8)
def _values(unit: int) -> Windows:
    table = tuple(_log(v, unit) if v >= LEAST_READ else 0 for v in range(1 << READ_BITS))
    return Windows(0, 1, (table,), (0,), table[-1].bit_length())


@lru_cache(maxsize=8)
def _tables(signed: bool) -> tuple[TruthTable, ...]:
    """Return the tables of the windows below the highest, and of the highest, whose own sign counts.

    The low bits of an entry are for x > 0, the bits above them for x < 0.
    """

    def side(value: int, last: int) -> int:
        return NEAR_ZERO if value < LEADING else LEADS if value < last else 0

    ends = (LAST, SIZE // 2) if signed else (SIZE, SIZE)
    signs = (1, -1)[: 1 + signed]
    return tuple(
        tuple(sum(side(sign * v % SIZE, end) << SIDE_BITS * s for s, sign in enumerate(signs)) for v in range(SIZE))
        for end in ends
    )


@lru_cache(maxsize=8)
def _turned(signed: bool) -> np.ndarray:
    outputs = SIDE_BITS * (1 + signed)
    return np.stack([kernels.turned(np.array(table, U64), outputs) for table in _tables(signed)])


@correlation
class LogarithmMasks:
    """[r] modulo 2^B; the one-hots of its windows of six bits; the ten bits at each window's place as [integers]; bits
    <beta> that select one, the same as integers, and their products.
    """

    shape: Shape
    place: int
    count: int
    sides: int

    def deal(self, view: View) -> tuple[np.ndarray, ...]:
        n, count = math.prod(self.shape), self.count
        bits = self.place + STEP * (count - 1) + READ_BITS
        words = low_bits(view.mask(PackedBits(U64), (n,)), bits)
        ring, hot = Z2k(U64, bits), OneHotWindows(words, self.place + BELOW, STEP, count, WIDTH)
        r = view.derived(ring, (n,), Summed(ring, words))
        one_hots = view.derived(PackedBits(U64), (n, count, kernels.hot_words(WIDTH)), hot)
        parts = view.derived(Z16, (n, count), ReadWindows(words, self.place, STEP, count, READ_BITS, Z16))
        beta = view.mask(GF2, (self.sides, n, count))
        lifted = view.derived(Z16, beta.shape, Lifted(Z16, beta))
        return r, one_hots, parts, beta, lifted, view.derived(Z16, beta.shape, Later(Chosen(Z16, beta, parts)))


@dataclass(frozen=True)
class Found:
    """Result of `find_windows`: the opened e = x + r, the table entries of every window, [sides, n, count] each, and
    the dealt values that `read_window` needs.
    """

    log: Logarithm
    e: np.ndarray
    leads: BShare
    near_zero: BShare
    parts: np.ndarray
    beta: np.ndarray
    lifted: np.ndarray
    product: np.ndarray


@protocol(cost=lambda x, log: Cost(1, both(8 * packed_size(x.size, log.bits))), exact=False)
def find_windows(party: Endpoint, x: AShare, log: Logarithm) -> Steps[Found]:
    """[x] -> which windows lead, and which are near zero, for x > 0 and, with two sides, for x < 0."""
    request = LogarithmMasks(x.shape, log.place, log.count, log.sides)
    r, hot, *dealt = party.randomness.take(request)
    (e,) = yield from open_shares(x.map(lambda w: low_bits(w.reshape(-1) + r, log.bits)), bits=[log.bits])
    places = log.place + BELOW + STEP * np.arange(log.count)
    which = (np.arange(log.count) == log.count - 1).astype(np.int64)
    words = kernels.look_up(e, places, hot, _turned(log.signed), which)
    of_sides = words >> np.arange(0, SIDE_BITS * log.sides, SIDE_BITS, dtype=U64)[:, None, None]
    leads, near_zero = ((of_sides & U64.type(bit) != 0).astype(np.uint8) for bit in (LEADS, NEAR_ZERO))
    return Found(log, e, BShare(leads, party.rank), BShare(near_zero, party.rank), *dealt)


@protocol(cost=lambda found, chosen: Cost(1, both(8 * packed_size(chosen.size, 1))), exact=False)
def read_window(party: Endpoint, found: Found, chosen: BShare) -> Steps[tuple[AShare, AShare]]:
    """<selected window>, if any, [sides, n, count] -> [ten bits of |x|], uint16 [n], and [selected], [n, count]."""
    (c,) = yield from open_shares(chosen.map(lambda b: b ^ found.beta))
    first, sign = U16.type(party.rank == 0), np.array([1, -1], np.int16)[: found.log.sides].astype(U16)
    hidden, one = c.astype(U16), U16.type(1)
    kept = hidden * first + (one - hidden - hidden) * found.lifted
    masked = hidden * found.parts + (one - hidden - hidden) * found.product
    places = (found.log.place + STEP * np.arange(found.log.count)).astype(U64)
    opened = (found.e[:, None] >> places).astype(U16)
    read = ((kept * opened - masked).sum(axis=2, dtype=U16) * sign[:, None]).sum(axis=0, dtype=U16)
    return AShare(read, party.rank), AShare(kept.sum(axis=0, dtype=U16), party.rank)


def _apart(party: Endpoint, first: AShare, second: AShare, x: AShare, log: Logarithm) -> Steps[BShare]:
    """Return bits that are 0 unless two logarithms of [x] differ by more than their coins allow."""
    apart, coins = first - second, math.ceil(2 * ERROR * log.unit) + 1
    if not log.signed:
        return (yield from beyond(party, apart, coins, Z16.bits))
    # Between m and 1.2 m, one of them may be 0 and the other one not. Larger ones have a larger sum.
    most = log.base + math.ceil((math.log2(1.2) + ERROR) * log.unit) + 1
    ends, sums = yield from parallel(
        below.steps(party, apart, [-most, -coins, coins + 1, most + 1], Z16.bits),
        beyond(party, first + second, most, Z16.bits),
    )
    outside = [ends[..., 0], ~ends[..., 3]]
    both = yield from and_bits.steps(party, ends[..., 1] ^ ~ends[..., 2], sums[..., 0] ^ sums[..., 1])
    return stack([*outside, both], axis=-1)


@protocol(near=_apart, elementwise=True)
def logarithm(party: Endpoint, x: AShare, log: Logarithm) -> Steps[AShare]:
    """[x] -> [L] of the header, uint16, shape of x."""
    found = yield from find_windows.steps(party, x, log)
    # The windows that have only windows near zero above them; the highest has none above.
    unbroken = public_bits(np.ones((log.sides, x.size, 1)), party.rank)
    if log.count > 1:
        above = found.near_zero[..., 1:]
        lower = yield from prefix_and.steps(party, above.reshape(-1, log.count - 1))
        unbroken = concatenate([lower.reshape(*above.shape), unbroken], axis=-1)
    if not log.signed:
        chosen = concatenate([unbroken[..., :1], unbroken[..., 1:] ^ unbroken[..., :-1]], axis=-1)
    elif log.count > 1:
        lower = yield from and_bits.steps(party, unbroken[..., :-1], found.leads[..., :-1])
        chosen = concatenate([lower, found.leads[..., -1:]], axis=-1)
    else:
        chosen = found.leads
    read, places = yield from read_window.steps(party, found, chosen)
    words = yield from look_up.steps(party, read, log.value)
    bits = words.words >> np.arange(log.value.outputs, dtype=U64) & U64.type(1)
    ring = yield from to_ring.steps(party, BShare(bits.astype(np.uint8), party.rank), Z16)
    value = ring.times(1 << np.arange(log.value.outputs)).sum(axis=-1)
    return (value + places.times(log.octaves).sum(axis=-1)).reshape(*x.shape)


def rounded_logarithm(x: np.ndarray, r: np.ndarray, log: Logarithm) -> np.ndarray:
    """Compute the L that `logarithm` gives for integers x under masks r, in the clear: int64, shape of x."""
    shape = x.shape
    x, r = (w.reshape(-1, 1).astype(U64) for w in (x, r))
    places = (log.place + STEP * np.arange(log.count)).astype(U64)

    def values(at: np.ndarray, bits: int) -> np.ndarray:
        return low_bits((x + r >> at) - (r >> at), bits).astype(np.int64)

    which = (np.arange(log.count) == log.count - 1).astype(np.int64)
    words = np.array(_tables(log.signed))[which, values(places + U64.type(BELOW), WIDTH)]
    read, octave = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
    for side in range(log.sides):
        of_side = words >> SIDE_BITS * side
        unbroken = np.ones(of_side.shape, bool)
        unbroken[:, :-1] = np.logical_and.accumulate((of_side & NEAR_ZERO != 0)[:, :0:-1], axis=1)[:, ::-1]
        chosen = unbroken & (of_side & LEADS != 0)
        if not log.signed:
            chosen[:, 0] = unbroken[:, 0]
        read += (chosen * values(places, READ_BITS)).sum(axis=1) * (1 - 2 * side)
        octave += chosen @ log.octaves
    (table,) = log.value.tables
    return (octave + np.array(table)[read % (1 << READ_BITS)]).reshape(shape)


SIGNED, UNSIGNED = Logarithm.of(128, 4000, 1 << 23, signed=True), Logarithm.of(64, 2000, 1 << 23)


def _found(i: Inputs, x: AShare, log: Logarithm) -> list[Any]:
    return [find_windows(i.party, x, log), i.bits(log.sides, x.size, log.count)]


def _read_one(party: Endpoint, x: AShare, chosen: BShare) -> Steps[tuple[AShare, AShare]]:
    """Open x + r, then read the low bits of x if the given bit is 1."""
    r, _, *dealt = party.randomness.take(LogarithmMasks(x.shape, 0, 1, 1))
    (e,) = yield from open_shares(x.map(lambda w: w + r))
    chosen = chosen.reshape(1, 1, 1)
    return (yield from read_window.steps(party, Found(Logarithm(1, 0, 1), e, chosen, chosen, *dealt), chosen))


describe(
    find_windows,
    samples=calls(lambda i, n: [i.words(-(2**23), 2**23, n), SIGNED]),
    priced=calls(lambda i, n: [i.words(0, 1, n), UNSIGNED], element="x up to 2^23, in five windows"),
    evidence=[
        Argued(
            "its windows have 64 places each; it opens one word, as look_up does",
            "perfect: the message is a one-time pad",
        )
    ],
)
describe(
    read_window,
    samples=calls(lambda i, n: _found(i, i.words(-(2**23), 2**23, n), SIGNED)),
    priced=calls(lambda i, n: _found(i, i.words(0, 1, n), UNSIGNED), element="of five windows"),
    evidence=[
        Enumerated(
            "one window of Z_2",
            (word(1, 1), bit(1)),
            lambda x, chosen: [chosen * x, chosen[None]],
            _read_one,
            draws=[Bits(1), Bits(1), Bits(0)],
            batched=False,
        )
    ],
)
describe(
    logarithm,
    samples=calls(lambda i, n: [i.words(-(2**23), 2**23, n), SIGNED])
    + calls(lambda i, n: [i.words(0, 2**23, n, 2), UNSIGNED]),
    priced=calls(lambda i, n: [i.words(0, 1, n), UNSIGNED], element="x up to 2^23, in five windows")
    + calls(lambda i, n: [i.words(0, 1, n), SIGNED], element="x of either sign up to 2^23, in six windows"),
    evidence=composed(find_windows, prefix_and, and_bits, read_window, look_up, to_ring),
)
