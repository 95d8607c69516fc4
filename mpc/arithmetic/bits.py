"""Products of shared bits, and of a shared bit with shared ring elements.

and_bits       (<a>, <b>) -> <a and b>                    one round, 2 bits each way per element, on packed bits
and_each       (<a>, <b_1 .. b_M>) -> <a and b_k>         one round, 1 bit and M bits each way per row
or_bits        (<a>, <b>) -> <a or b>                     as and_bits, of the complements
to_ring        <b> -> [b] in Z_2^k                        one round, 1 bit
select         (<b>, [x]) -> [b x]                        one round, 1 bit and k bits per element of x

Messages       and_bits, and_each: a xor alpha, b xor beta;  to_ring: b xor beta;  select: b xor beta, x - a
Offline        and_bits, and_each: <alpha beta>;  to_ring: [beta];  select: [beta], [beta a]
Security       semi-honest, perfect: every message is a one-time pad
Source         Beaver, CRYPTO 1991; daBits: Rotaru and Wood, INDOCRYPT 2019
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mpc.endpoint import Endpoint
from mpc.host.streaming import pieces
from mpc.kernels import products
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Chosen, Lifted, Product
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit, composed, packed, word
from mpc.rings import GF2, Z8, Z64, PackedBits, Z2k
from mpc.rounds import Steps, open_shares, open_words
from mpc.shares import AShare, BShare, PShare, same_shape
from mpc.words import U64, Shape, low_bits, packed_size

B = TypeVar("B", BShare, PShare)


def _wire_bits(count: int) -> int:
    return 8 * packed_size(count, 1)


@correlation
class BitTriples:
    """<alpha>, <beta>, <alpha and beta>, packed bits in words."""

    shape: Shape
    dtype: np.dtype

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        words = PackedBits(self.dtype)
        alpha, beta = (view.mask(words, self.shape) for _ in range(2))
        return alpha, beta, view.derived(words, self.shape, Product(words, alpha, beta))


@correlation
class RowTriples:
    """<alpha>, <beta_1 .. beta_M>, <alpha and beta_k>; `shape` is that of beta, and alpha lacks its last axis."""

    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        alpha, beta = view.mask(GF2, (*self.shape[:-1], 1)), view.mask(GF2, self.shape)
        return alpha, beta, view.derived(GF2, self.shape, Product(GF2, alpha, beta))


@correlation
class RingBits:
    """<beta> and the same bits as [beta] in Z_2^k."""

    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        beta = view.mask(GF2, self.shape)
        return beta, view.derived(self.ring, self.shape, Lifted(self.ring, beta))


@correlation
class SelectMasks:
    """<beta>, [beta], [a], [beta a] for a bit array and a ring array that broadcast together."""

    bit_shape: Shape
    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        beta = view.mask(GF2, self.bit_shape)
        a = view.mask(self.ring, self.shape)
        lifted = view.derived(self.ring, self.bit_shape, Lifted(self.ring, beta))
        product = np.broadcast_shapes(self.bit_shape, self.shape)
        return beta, lifted, a, view.derived(self.ring, product, Chosen(self.ring, beta, a))


def _and_cost(a: BShare | PShare, b: BShare | PShare) -> Cost:
    return Cost(1, both(2 * (_wire_bits(a.size) if isinstance(a, BShare) else 8 * a.words.nbytes)))


@protocol(cost=_and_cost, elementwise=True)
def and_bits(party: Endpoint, a: B, b: B) -> Steps[B]:
    """<a>, <b> -> <a and b>, of one kind and shape. Raises ShapeMismatch."""
    same_shape(a, b)
    if isinstance(a, BShare) and isinstance(b, BShare):
        return (yield from and_bits.steps(party, a.packed(), b.packed())).unpacked(a.shape)
    assert isinstance(a, PShare) and isinstance(b, PShare), "operands must both be bits or both be packed"
    alpha, beta, product = party.randomness.take(BitTriples(a.shape, a.dtype))
    d, e = yield from open_words(a.words ^ alpha, b.words ^ beta)
    d, e, alpha, beta, product = (w.reshape(-1) for w in (d, e, alpha, beta, product))
    words = products.conjunction(d, e, alpha, beta, product, party.rank == 0)
    return PShare(words.reshape(a.shape), party.rank)


@protocol(cost=lambda a, b: Cost(1, both(_wire_bits(a.size) + _wire_bits(b.size))))
def and_each(party: Endpoint, a: BShare, b: BShare) -> Steps[BShare]:
    """<a>, [..], and <b>, [.., M] -> <a and b_k>, [.., M]."""
    alpha, beta, product = party.randomness.take(RowTriples(b.shape))
    d, e = yield from open_shares(a.map(lambda w: w[..., None] ^ alpha), b.map(lambda w: w ^ beta))
    return BShare(d & beta ^ (alpha ^ d if party.rank == 0 else alpha) & e ^ product, party.rank)


@protocol()
def or_bits(party: Endpoint, a: B, b: B) -> Steps[B]:
    """<a>, <b> -> <a or b>, of one kind and shape. Raises ShapeMismatch."""
    return ~(yield from and_bits.steps(party, ~a, ~b))


@protocol(cost=lambda b, ring=Z64: Cost(rounds=1, bits=both(_wire_bits(b.size))), elementwise=True)
def to_ring(party: Endpoint, b: BShare, ring: Z2k = Z64) -> Steps[AShare]:
    """<b> -> [b] in `ring`, scale 0."""
    beta, lifted = party.randomness.take(RingBits(b.shape, ring))
    (c,) = yield from open_shares(b.map(lambda w: w ^ beta))
    words = products.flipped(c.reshape(-1), lifted.reshape(-1), party.rank == 0)
    return AShare(words.reshape(b.shape), party.rank)


def _select_cost(b: BShare, x: AShare, ring: Z2k | None = None, summed: bool = False) -> Cost:
    return Cost(1, both(_wire_bits(b.size) + 8 * packed_size(x.size, (ring or x.ring).bits)))


@protocol(cost=_select_cost)
def select(party: Endpoint, b: BShare, x: AShare, ring: Z2k | None = None, summed: bool = False) -> Steps[AShare]:
    """<b>, [x] -> [b x]; the shapes broadcast, the scale is that of x. `summed`: return the sum along the first axis.

    `ring` may have fewer bits than the words of x; x and the result are shared in it.
    """
    ring = ring or x.ring
    beta, lifted, a, product = party.randomness.take(SelectMasks(b.shape, x.shape, ring))
    hidden, masked = b.map(lambda w: w ^ beta), x.map(lambda w: low_bits(w - a, ring.bits))
    c, d = yield from open_shares(hidden, masked, bits=[1, ring.bits])
    return AShare(chosen(c, d, lifted, a, product, party.rank == 0, summed), party.rank, x.scale)


def chosen(
    c: np.ndarray,
    d: np.ndarray,
    lifted: np.ndarray,
    a: np.ndarray,
    product: np.ndarray,
    first: bool,
    summed: bool = False,
) -> np.ndarray:
    """Return a share of b x from opened c = b xor beta, d = x - a and the shares of `SelectMasks`; shapes broadcast.

    `summed`: return the sum along the first axis.
    """
    # An array that is broadcast cannot be written, for which a kernel would be compiled again.
    whole = [w if w.shape == product.shape else np.broadcast_to(w, product.shape) for w in (c, d, lifted, a)]
    out = np.zeros(product.shape[summed:], product.dtype)
    for some in pieces(len(product), product[:1].nbytes):
        opened_b, opened_x, beta, mask, both_masks = (
            np.ascontiguousarray(w[some]).reshape(-1) for w in (*whole, product)
        )
        part = products.choice(opened_b, opened_x, beta, mask, both_masks, first).reshape(product[some].shape)
        if summed:
            out += part.sum(axis=0, dtype=out.dtype)
        else:
            out[some] = part
    return out


def _gate(ideal: Callable[..., np.ndarray]) -> list[Enumerated]:
    return [
        Enumerated("packed bits", (packed(2), packed(2)), ideal),
        Enumerated("a bit", (bit(1), bit(1)), ideal, ring=Bits(1), batched=False),
    ]


describe(
    and_bits,
    samples=calls(lambda i, n: [i.bits(n, 3), i.bits(n, 3)]) + calls(lambda i, n: [i.packed(n), i.packed(n)]),
    priced=calls(lambda i, n: [i.bits(n), i.bits(n)], element="and"),
    evidence=_gate(np.bitwise_and),
)
describe(
    and_each,
    samples=calls(lambda i, n: [i.bits(n), i.bits(n, 3)]),
    priced=calls(lambda i, n: [i.bits(n), i.bits(n, 32)], element="bit times 32 bits"),
    evidence=[Enumerated(f"{m} bits", (bit(), bit(m)), lambda a, b: a[:, None] & b) for m in (1, 2)],
)
describe(
    or_bits,
    samples=calls(lambda i, n: [i.bits(n), i.bits(n)]) + calls(lambda i, n: [i.packed(n), i.packed(n)]),
    priced=calls(lambda i, n: [i.bits(n), i.bits(n)], element="or"),
    evidence=[*composed(and_bits), *_gate(np.bitwise_or)],
)
describe(
    to_ring,
    samples=calls(lambda i, n: [i.bits(n, 3)]) + calls(lambda i, n: [i.bits(n, 3), Z8]),
    priced=calls(lambda i, n: [i.bits(n)], element="bit into words of 64 bits"),
    evidence=[Enumerated(f"Z_{2**k}", (bit(),), lambda b: b, ring=Bits(k)) for k in (2, 3, 4)],
)
describe(
    select,
    samples=calls(lambda i, n: [i.bits(n, 1), i.words(-(1 << 61), 1 << 61, n, 4)])
    + calls(lambda i, n: [i.bits(n), i.words(-(1 << 39), 1 << 39, n), Z2k(U64, 40)]),
    priced=calls(lambda i, n: [i.bits(n), i.words(0, 1, n)], element="bit times word"),
    evidence=[Enumerated(f"Z_{2**k}", (bit(), word(k)), lambda b, x: b * x, long=k > 2) for k in (2, 3)],
)
