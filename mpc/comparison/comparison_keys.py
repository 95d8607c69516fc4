"""Comparison in one round from dealt keys of a distributed comparison function.

below_by_keys   [x], public t_1 .. t_T -> <x < t_k>, exact while -2^(B-1) <= x - t_k < 2^(B-1)
floor_by_keys   [x] -> [floor(x / 2^f)] exactly, |x| < 2^62

Messages       the masked operand: x + r mod 2^B; x + 2^62 + r                                (one round)
Cost           8 ceil(B / 8) |x| bits, or 64 |x| bits, each way. Offline, per element, the dealer sends each party
               a key of B - 1 levels of 17 bytes (below), or f levels of 25 (floor)
Security       semi-honest: messages are one-time pads. Keys are pseudorandom if fixed-key AES is a correlation-robust
               hash, which is a computational assumption: an adversary that evaluates AES T times, before or after the
               run, finds a seed of one of N nodes (the levels of all keys) with probability about N T / 2^126.
               One key serves every threshold on an opening
How            the sign of e - t - r is msb(e - t) xor msb(r) xor the borrow 1{low(e - t) < low(r)}: a comparison
               function at a public point, whose secret threshold the dealer knows
Source         Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar and Rathee, EUROCRYPT 2021
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.endpoint import Endpoint
from mpc.kernels import comparison_keys as kernels
from mpc.kernels.comparison_keys import Keys
from mpc.kernels.truncation import shift_opened
from mpc.offline.correlation import Correlation, View, correlation, private_to_each
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued
from mpc.rings import GF2, Z8, Z64, Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare
from mpc.words import U64, Shape, encode_signed, low_bits, packed_size

# A node's seed is one AES block, less two control bits.
SEED_BITS = 126
# Dealt to both parties for each level of a key.
LEVEL_BYTES = 50


@dataclass(frozen=True)
class OwnKeys:
    """One party's keys: its root seeds, the part that both parties hold, and the session's permutation key."""

    root: np.ndarray
    common: Keys
    permutation: bytes

    def evaluate(self, rank: int, x: np.ndarray) -> np.ndarray:
        """x uint64[n, t] -> shares of payload 1{x < alpha}, [n, t, w] (w = 1 for a bit)."""
        return kernels.evaluate(rank, self.root, self.common, x, self.permutation)


def deal_keys(view: View, alpha: np.ndarray, beta: list[np.ndarray], bits: int) -> OwnKeys:
    """Deal keys for secrets alpha uint64[n], reduced to their low `bits`, and payload words beta (empty: the bit 1)."""
    n, width = alpha.size, len(beta)
    roots, own = private_to_each(view, Z64, (n, 2))
    permutation = view.permutation_key()

    def keys() -> tuple[np.ndarray, ...]:
        payload = np.stack(beta, axis=1) if beta else np.zeros((n, 0), U64)
        made = kernels.generate(np.stack(roots), low_bits(alpha, bits), payload, bits, permutation)
        return made.seeds, made.control, made.values, made.last

    last = Z64 if width else Z8, (n, max(1, width))
    results = [(Z64, (bits, n, 2)), (Z8, (bits, n)), (Z64, (bits, n, width)), last]
    return OwnKeys(own, Keys(*view.derived_many(results, keys, to=None)), permutation)


def _flat(shape: Shape) -> tuple[int]:
    return (math.prod(shape),)


@correlation
class SignKeys:
    """[r] in Z_2^64, <bit B - 1 of r>, and keys for its low B - 1 bits."""

    shape: Shape
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, OwnKeys]:
        r = view.mask(Z64, _flat(self.shape))
        top = view.derived(GF2, r.shape, lambda: r >> np.uint64(self.bits - 1) & np.uint64(1))
        return r, top, deal_keys(view, r, [], self.bits - 1)


@correlation
class FloorKeys:
    """[r] and [r >> f] in Z_2^64, [msb r] modulo 2^f, and keys for the low f bits of r with the ring's 1 as payload."""

    shape: Shape
    shift: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, OwnKeys]:
        r = view.mask(Z64, _flat(self.shape))
        high = view.derived(Z64, r.shape, lambda: r >> np.uint64(self.shift))
        msb = view.derived(Z2k(U64, self.shift), r.shape, lambda: r >> np.uint64(63))
        return r, high, msb, deal_keys(view, r, [np.ones(r.shape, U64)], self.shift)


def nodes(request: Correlation[object]) -> int:
    """Return the number of nodes, with seeds of 126 bits, of the keys in a request; 0 for other correlations."""
    match request:
        case SignKeys(shape, bits):
            return math.prod(shape) * (bits - 1)
        case FloorKeys(shape, shift):
            return math.prod(shape) * shift
    return 0


def keys_pay(party: Endpoint, count: int, levels: int) -> bool:
    """Whether keys of this many levels for `count` values cost less to deal than the round that they save."""
    return party.randomness.has_dealer and LEVEL_BYTES * levels * count < party.round_price


def _key_cost(x: AShare, thresholds: Sequence[int], bits: int) -> Cost:
    return Cost(1, both(8 * packed_size(x.size, bits)))


@protocol(cost=_key_cost, elementwise=True)
def below_by_keys(party: Endpoint, x: AShare, thresholds: Sequence[int], bits: int) -> Steps[BShare]:
    """[x], public thresholds -> <x < t>, shape x.shape + (T,); `bits` is B of the header, 2 .. 64."""
    r, top, keys = party.randomness.take(SignKeys(x.shape, bits))
    masked = x.map(lambda w: low_bits(w.reshape(-1).astype(U64, copy=False) + r, bits))
    (e,) = yield from open_shares(masked, bits=[bits])
    point = e[:, None] - encode_signed(np.asarray(thresholds))
    borrow = keys.evaluate(party.rank, low_bits(point, bits - 1))[..., 0].astype(np.uint8)
    out = BShare((borrow ^ top[:, None]).reshape(*x.shape, -1), party.rank)
    return out ^ (point >> np.uint64(bits - 1) & np.uint64(1)).reshape(out.shape)


@protocol(cost=lambda x, shift: Cost(1, both(64 * x.size)), elementwise=True)
def floor_by_keys(party: Endpoint, x: AShare, shift: int) -> Steps[AShare]:
    """[x] -> [floor(x / 2^shift)], exact; 1 <= shift <= 62; the scale falls by shift."""
    r, high, msb, keys = party.randomness.take(FloorKeys(x.shape, shift))
    e = yield from open_offset(x, r)
    borrow = keys.evaluate(party.rank, low_bits(e, shift)[:, None])[:, 0, 0]
    words = shift_opened(e, high, msb, shift, party.rank == 0) - borrow
    return AShare(words.reshape(x.shape), party.rank, x.scale - shift)


OFFSET_64 = 1 << 62


def open_offset(x: AShare, r: np.ndarray) -> Steps[np.ndarray]:
    """Open x + 2^62 + r, flat."""
    (e,) = yield from open_shares((x + OFFSET_64).map(lambda w: w.reshape(-1) + r))
    return e


COMPUTATIONAL = Argued(
    "a key of a comparison function hides its point only as well as fixed-key AES hides a seed",
    "2 L times the advantage against the generator, for a key of L levels; the messages are one-time pads",
)

describe(
    below_by_keys,
    samples=calls(lambda i, n: [i.words(-99, 99, n), [3], 9]),
    priced=calls(lambda i, n: [i.words(0, 1, n), [0], 64], element="x < t, 64 bits"),
    evidence=[COMPUTATIONAL],
)
describe(
    floor_by_keys,
    samples=calls(lambda i, n: [i.words(-(1 << 61), 1 << 61, n), 9]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 20], element="word, by 20 bits"),
    evidence=[COMPUTATIONAL],
)
