"""First maximum within small groups of shared integers: compare all pairs, then look up the key that wins them all.

compare_pairs  [k_1 .. k_r], known modulo 2^(B + 1), whose differences are below 2^B -> for each key, [how many keys of
               its group it precedes], modulo 2^w >= r
pick_winner    these counts, and bits of every key -> <one-hot of the first maximum>, each bit of it <and> the bits of
               its key, and [the maximum]

Messages       compare_pairs, round 1: k_i + r_i, a word of the ring;  round 2: for every pair the 2m - 1 masked bits of
               mpc/comparison/thermometer.py.  pick_winner, one round: the counts + rho modulo 2^w, the keys' bits xor
               alpha
Cost           r words and (2m - 1) r (r - 1) / 2 bits, then w r bits and the keys' own bits, each way. Offline, with K
               the smallest power of two >= r, the dealer sends m thermometers of 2^c bits and 1.5 2^m integers of w
               bits per pair; for each key, 2 (K - 1) words (none for the first key) and K - 1 bits per bit of its own.
               Masks are expanded from seeds
Security       semi-honest, perfect: every message is a one-time pad
How            k_i - k_j = (e_i - e_j) - (r_i - r_j). The dealer knows the difference d of the masks, so the sign is
               msb(e_i - e_j) xor t xor the borrow, where t is the top bit of d. In a ring t xor borrow is
               t + (1 - 2 t) borrow; the dealer multiplies the products that make up the borrow by 1 - 2 t. The signs of
               a key add up to its number of wins. A look-up in 1{k = rho_i} gives w_i, which is 1 where that number is
               r - 1; a look-up in 1{k = rho_i} (r_i - r_0) gives w_i (r_i - r_0). The winning key is
               k_0 + sum_i w_i (k_i - k_0)
Source         see mpc/comparison/thermometer.py and mpc/lookup/equality.py
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.comparison.thermometer import (
    MASKS,
    Chunking,
    Thermometers,
    cheapest_chunking,
    mask_products,
    open_chunks,
    thermometer_shares,
    thermometers,
)
from mpc.endpoint import Endpoint
from mpc.kernels import all_pairs as kernels
from mpc.kernels import borrow
from mpc.offline import transfers
from mpc.offline.correlation import Mask, View, correlation
from mpc.offline.recipes import OneHotOf, Pair, bit_of
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit, word
from mpc.rings import GF2, Z8, Z16, Z64, PackedIntegers, Z2k, integers, packed_integers
from mpc.rounds import Steps, exchange_words, open_shares, parallel
from mpc.shares import AShare, BShare, stack
from mpc.words import U8, U16, U64, low_bits, packed_size

# Counts are modulo 2^8 at most.
MOST_KEYS = 256


@dataclass(frozen=True)
class WinnerTables:
    """[rho]; for all k but the last [1{k = rho_i}], [1{k = rho_i} (r_i - r_0)], i > 0; <alpha>, <1{k = rho} alpha>."""

    rho: np.ndarray
    words: np.ndarray
    alpha: np.ndarray
    bits: np.ndarray


@dataclass(frozen=True)
class SignedThermometers:
    """The thermometers of differences x, [n]; then the top bit t of each, above its chunks, and the products of its
    bit masks times 1 - 2 t.
    """

    x: np.ndarray
    masks: np.ndarray
    chunks: Chunking
    ring: PackedIntegers

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        chunks = self.chunks
        used = low_bits(self.masks.reshape(-1), chunks.opened)
        products = kernels.look_up_signed_products(self.x, chunks.bits, used, chunks.m, self.ring.width)
        return thermometers(self.x, chunks), products

    def between(self, pair: Pair) -> OfflineSteps[tuple[np.ndarray, np.ndarray]]:
        rank, ring, m = pair.rank, self.ring, self.chunks.m
        (table, carries), bits = yield from parallel(
            thermometer_shares(rank, self.x, self.chunks), mask_products(rank, self.masks.reshape(-1), m)
        )
        top = bit_of(self.x, self.chunks.bits) ^ carries[:, -1]
        integer = integers(U8, ring.width)
        lifted = yield from transfers.lift(rank, np.concatenate([top[:, None], bits[:, 1:]], axis=1), integer)
        products = lifted[:, 1:]
        negative = yield from transfers.choose_packed(rank, top, products, ring)
        return table, ring.join(np.concatenate([lifted[:, :1], products - negative - negative], axis=1))


@dataclass(frozen=True)
class ToPickWinners:
    """For all k but the last, 1{k = rho_i} and 1{k = rho_i} (r_i - r_0), i > 0; then 1{k = rho} alpha.

    The low `bits` of rho count.
    """

    rho: np.ndarray
    r: np.ndarray
    alpha: np.ndarray
    ring: Z2k
    bits: int

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        places = 1 << self.bits
        return kernels.to_look_up(self.rho, self.r, places), kernels.to_spread(self.rho, self.alpha, places)

    def between(self, pair: Pair) -> OfflineSteps[tuple[np.ndarray, np.ndarray]]:
        rank, ring = pair.rank, self.ring
        hot = yield from OneHotOf(self.rho.reshape(-1), self.bits).between(pair)
        hits = hot.reshape(*self.rho.shape, 1 << self.bits)[..., :-1]
        apart = (self.r[:, 1:] - self.r[:, :1])[..., None]
        ones, chosen, spread = yield from parallel(
            transfers.lift(rank, hits[:, 1:], ring),
            transfers.choose(rank, hits[:, 1:], apart, ring),
            transfers.and_bits(rank, hits[..., None], self.alpha[:, :, None], GF2),
        )
        return np.stack([ones, chosen], axis=-1), spread


@correlation
class GroupMasks:
    """Masks for `count` groups of `size` keys below 2^bits in `ring`, each key with `members` bits of its own.

    Dealt: [r]; thermometers of the differences within a group, bit masks, the top bits t, and products times 1 - 2 t;
    and the tables for the winner, unless `picks` is 0.
    """

    count: int
    size: int
    bits: int
    ring: Z2k
    members: int = 0
    picks: int = 1

    @property
    def keys(self) -> tuple[int, int]:
        return self.count, self.size

    @property
    def pairs(self) -> int:
        return self.count * (self.size * (self.size - 1) // 2)

    @property
    def places(self) -> int:
        """K of the header: the number of entries in a table of counts."""
        return 1 << (self.size - 1).bit_length()

    @property
    def counts(self) -> PackedIntegers:
        """The ring of the counts, the narrowest that holds all of them: 1, 2, 4 or 8 bits wide."""
        bits = (self.size - 1).bit_length()
        return packed_integers(1 << (bits - 1).bit_length())

    @property
    def chunks(self) -> Chunking:
        return _chunking(self.bits, self.counts)

    def comparison_bits(self) -> int:
        """Payload bits of `compare_pairs`, each way."""
        return 8 * packed_size(math.prod(self.keys), self.ring.bits) + self.chunks.wire_bits(self.pairs)

    def choice_bits(self) -> int:
        """Payload bits of `pick_winner`, each way."""
        count = math.prod(self.keys)
        return 8 * (self.counts.words(count) + packed_size(count * self.members, 1))

    def dealt_bytes(self) -> int:
        """Bytes that the dealer sends."""
        chunks = self.chunks
        products = self.counts.words(1 + borrow.ring_product_words(chunks.m))
        pairs = self.pairs * (chunks.m * chunks.table_bytes + products)
        if not self.picks:
            return pairs
        tables = (self.size - 1) * 2 * self.ring.dtype.itemsize + -(-self.size * self.members // 8)
        return pairs + self.count * (self.places - 1) * tables

    def deal(self, view: View) -> tuple[np.ndarray, Thermometers, np.ndarray, WinnerTables | None]:
        chunks, ring = self.chunks, self.counts
        r = view.mask(self.ring, self.keys)
        apart = kernels.differences(r)
        count = ring.words(1 + borrow.ring_product_words(chunks.m))
        results = chunks.dealt(self.pairs), Mask(MASKS, (self.pairs, 1)), (ring, (self.pairs, count))
        table, masks, signs = view.derived_many(results, lambda masks: SignedThermometers(apart, masks, chunks, ring))
        tables = self._tables(view, r) if self.picks else None
        return r, (table, low_bits(masks, chunks.opened)), signs, tables

    def _tables(self, view: View, r: np.ndarray) -> WinnerTables:
        rho = view.mask(Z8, self.keys)
        entries, members = self.places - 1, self.members
        results = (
            (self.ring, (self.count, self.size - 1, entries, 2)),
            Mask(GF2, (*self.keys, members)),
            (GF2, (*self.keys, entries, members)),
        )
        bits = (self.size - 1).bit_length()
        dealt = view.derived_many(results, lambda alpha: ToPickWinners(rho, r, alpha, self.ring, bits))
        return WinnerTables(rho, *dealt)


@functools.cache
def _chunking(bits: int, counts: PackedIntegers) -> Chunking:
    return cheapest_chunking(bits, lambda m: counts.words(1 + borrow.ring_product_words(m)))


@dataclass(frozen=True)
class Compared:
    """Groups after all comparisons: the opened e = k + r, <r>, [counts], uint8[n, r], and the tables for the winner, if
    one is to be picked.
    """

    groups: GroupMasks
    e: np.ndarray
    r: np.ndarray
    counts: np.ndarray
    tables: WinnerTables | None


def groups_of(keys: AShare, bits: int, members: int = 0, picks: bool = True) -> GroupMasks:
    """Return the shapes of [keys], [n, r]."""
    count, size = keys.shape
    return GroupMasks(count, size, bits, keys.ring, members, int(picks))


@protocol(
    cost=lambda keys, bits, members=0, picks=True: Cost(2, both(groups_of(keys, bits).comparison_bits())), exact=False
)
def compare_pairs(party: Endpoint, keys: AShare, bits: int, members: int = 0, picks: bool = True) -> Steps[Compared]:
    """[keys], [n, r] -> the input of `pick_winner`, for keys with `members` bits of their own; if it `picks`, or only
    counts.

    Keys are known modulo 2^(bits + 1), and their differences are below 2^bits. `bits` is less than the width of a word,
    and 2 <= r <= 256.
    """
    groups, first = groups_of(keys, bits, members, picks), party.rank == 0
    chunks = groups.chunks
    r, thermometers, signs, tables = party.randomness.take(groups)
    (e,) = yield from open_shares(keys.map(lambda w: w + r))
    apart = kernels.differences(e)
    opened = yield from open_chunks(party, apart, np.zeros(1, U64), chunks, thermometers)
    dealt = groups.counts.split(signs, 1 + borrow.ring_product_words(chunks.m))
    top = dealt[:, 0].astype(U64)
    borrowed = borrow.ring_borrows(opened.reshape(-1), dealt[:, 1:], np.uint64(first) - top - top, chunks.m)
    counts = kernels.count_wins(apart, top, borrowed, bits, *groups.keys, first)
    return Compared(groups, e, r, counts, tables)


@protocol(cost=lambda compared, own=None: Cost(1, both(compared.groups.choice_bits())), exact=False)
def pick_winner(party: Endpoint, compared: Compared, own: BShare | None = None) -> Steps[tuple[BShare, AShare]]:
    """-> <one-hot of the first maximum>, [n, r], and [the maximum], [n], at scale 0.

    With `own`, the keys' own bits, [n, r, members], the first result is <the winner's own bits, and zeros elsewhere>.
    """
    groups, tables, ring = compared.groups, compared.tables, compared.groups.counts
    assert tables is not None, "the comparison was for a winner"
    masked = ring.join((compared.counts + tables.rho).reshape(-1))
    hidden = tables.alpha if own is None else own.bits ^ tables.alpha
    sent, widths = ([masked], [8]) if own is None else ([masked, hidden], [8, 1])
    answer = yield from exchange_words(sent, widths)
    counts = ring.split(ring.add(masked, answer[0]), math.prod(groups.keys)).reshape(groups.keys)
    # The count is r - 1 where rho equals the opened sum minus (r - 1).
    place = counts - U8.type(groups.size - 1) & U8.type(groups.places - 1)
    won, key = kernels.look_up(tables.words, place, compared.e, compared.r, party.rank == 0)
    if own is not None:
        won = kernels.spread(tables.bits, place, won, hidden ^ answer[1], tables.alpha)
    return BShare(won, party.rank), AShare(key, party.rank)


def _compared(i: Inputs, keys: AShare, bits: int) -> list[Any]:
    return [compare_pairs(i.party, keys, bits, 2), i.bits(*keys.shape, 2)]


def _compared_with_zero(party: Endpoint, key: AShare) -> Steps[BShare]:
    """The counts of the pairs (0, key), key < 2."""
    compared = yield from compare_pairs.steps(party, stack([key.map(np.zeros_like), key], axis=-1), 1)
    return BShare(compared.counts & U8.type(1), party.rank)


def _picked_from_two(
    party: Endpoint, key: AShare | None, wins: BShare, own: BShare | None = None
) -> Steps[tuple[BShare, AShare]]:
    """Pick the second of each pair (0, key) where `wins`, whatever its value; without keys, of the public (1, 2)."""
    groups = GroupMasks(len(wins), 2, 1, Z16, 0 if own is None else own.shape[-1])
    r, _, _, tables = party.randomness.take(groups)
    e = np.tile(np.array([1, 2], U16), (len(wins), 1))
    if key is not None:
        (e,) = yield from open_shares(AShare(r, party.rank) + stack([key.map(np.zeros_like), key], axis=-1))
    counts = stack([~wins, wins], axis=-1).bits
    return (yield from pick_winner.steps(party, Compared(groups, e, r, counts, tables), own))


UNUSED = Bits(0)
describe(
    compare_pairs,
    samples=calls(lambda i, n: [i.words(0, 99, n, 3, ring=Z16), 8])
    + calls(lambda i, n: [i.words(0, 99, n, 5, ring=Z64), 20]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 8, ring=Z16), 15], element="8 keys of 15 bits"),
    evidence=[
        Enumerated(
            "0 and a bit in Z_4",
            (word(2, dtype=U16),),
            lambda x: np.stack([x == 0, x == 1], axis=-1),
            _compared_with_zero,
            draws=[None, Bits(2), Bits(1), Bits(2), Bits(1), UNUSED],
            promise=lambda x: (x < 2)[:, None],
            fresh=False,  # the counts of two keys add up to 1
        )
    ],
)
describe(
    pick_winner,
    samples=calls(lambda i, n: _compared(i, i.words(0, 99, n, 3, ring=Z16), 8))
    + calls(lambda i, n: _compared(i, i.words(0, 99, n, 5, ring=Z64), 20)),
    priced=calls(lambda i, n: _compared(i, i.words(0, 1, n, 8, ring=Z16), 15), element="one of 8 keys, 2 bits each"),
    evidence=[
        Enumerated(
            "one of two keys in Z_4",
            (word(2, dtype=U16), bit()),
            lambda x, wins: [np.stack([1 - wins, wins], axis=-1), wins * x],
            _picked_from_two,
            draws=[None, UNUSED, UNUSED, UNUSED, Bits(1)],
            fresh=False,  # the bits of a one-hot vector add up to 1
        ),
        Enumerated(
            "one of two bits",
            (None, bit(), bit(2, 1)),
            lambda wins, own: [np.stack([1 - wins, wins], axis=-1)[..., None] * own, 1 + wins],
            _picked_from_two,
            draws=[UNUSED, UNUSED, UNUSED, UNUSED, Bits(1)],
        ),
    ],
)
