"""Products of fresh shared bits with fixed shared elements: one opening of the elements serves all uses.

Functionality  [x], shape [s, n], once, then <b>, shape [v, n] -> [b x], shape [v, s, n], over Z_2^k
Messages       once: x - a                              each use: b xor beta            (one round each)
Cost           k |x| bits once, |b| bits per use, each way; offline, per row of n bits: n words [beta] and s n words
               [beta a]
Security       semi-honest, perfect: every message is a one-time pad; a hides one x
Source         as mpc/arithmetic/bits.py, with the opening of the fixed operand kept: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.bits import SelectMasks, chosen
from mpc.endpoint import Endpoint
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, bit, word
from mpc.rings import Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U64, low_bits, packed_size


@dataclass
class FixedValues:
    """Shared elements in `ring` after their opening: x - a, this party's share of a, and its supply of bit masks."""

    opened: np.ndarray
    a: np.ndarray
    beta: np.ndarray
    lifted: np.ndarray
    product: np.ndarray
    scale: int
    ring: Z2k
    used: int = 0

    def take(self, count: int) -> slice:
        """Take the next `count` rows of the supply, which must hold them."""
        rows = slice(self.used, self.used + count)
        assert rows.stop <= len(self.beta), f"the supply has {len(self.beta)} rows of bits, {rows.stop} are used"
        self.used = rows.stop
        return rows


@protocol(cost=lambda x, count, ring=None: Cost(1, both(8 * packed_size(x.size, (ring or x.ring).bits))), exact=False)
def fix_values(party: Endpoint, x: AShare, count: int, ring: Z2k | None = None) -> Steps[FixedValues]:
    """[x], shape [s, n] -> FixedValues, with masks for `count` rows of n bits.

    `ring` may have fewer bits than the words of x; the products are then shared in it.
    """
    ring = ring or x.ring
    masks = SelectMasks((count * party.audit.evaluations, 1, x.shape[1]), (1, *x.shape), ring)
    beta, lifted, a, product = party.randomness.take(masks)
    (opened,) = yield from open_shares(x.map(lambda w: low_bits(w - a[0], ring.bits)), bits=[ring.bits])
    return FixedValues(opened[None], a, beta, lifted, product, x.scale, ring)


@protocol(cost=lambda b, values: Cost(1, both(8 * packed_size(b.size, 1))))
def select_fixed(party: Endpoint, b: BShare, values: FixedValues) -> Steps[AShare]:
    """<b>, shape [v, n] -> [b x], shape [v, s, n], at the scale of x."""
    rows = values.take(len(b))
    (c,) = yield from open_shares(b.map(lambda w: w[:, None] ^ values.beta[rows]))
    words = chosen(c, values.opened, values.lifted[rows], values.a, values.product[rows], party.rank == 0)
    return AShare(words, party.rank, values.scale)


def _select_each(party: Endpoint, x: AShare, b: BShare) -> Steps[AShare]:
    """Fix one element per row, and multiply it by the bits of the row one after another."""
    values = yield from fix_values.steps(party, x.reshape(1, -1), b.shape[-1])
    products = []
    for i in range(b.shape[-1]):
        products.append((yield from select_fixed.steps(party, b[..., i].reshape(1, -1), values)).reshape(-1, 1))
    return concatenate(products, axis=-1)


NARROW = Z2k(U64, 40)


def _with_values(i: Inputs, s: int, n: int, v: int) -> list[object]:
    bits = i.bits(v, n)
    return [bits, fix_values(i.party, i.words(-9, 9, s, n), v)]


ENUMERATED = [
    Enumerated(name, (word(k, 1), bit(bits)), lambda x, b: b * x, _select_each)
    for name, k, bits in (("Z_4", 2, 1), ("Z_2, two uses", 1, 2))
]
describe(
    fix_values,
    samples=calls(lambda i, n: [i.words(-9, 9, 2, n), 3]) + calls(lambda i, n: [i.words(-9, 9, 2, n), 3, NARROW]),
    priced=calls(lambda i, n: [i.words(0, 1, 1, n), 1], element="word, with masks for one bit"),
    evidence=ENUMERATED,
)
describe(
    select_fixed,
    samples=calls(lambda i, n: _with_values(i, 2, n, 3)),
    priced=calls(lambda i, n: _with_values(i, 1, n, 1), element="bit times fixed word"),
    evidence=ENUMERATED,
)
