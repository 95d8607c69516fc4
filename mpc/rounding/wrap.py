"""Wrap of two shares' sum over the integers, for a secret with top bit 0 (a part of other protocols).

Functionality  [x] in Z_2^k, 0 <= x < 2^(k-1) -> [(x_0 >> f) + (x_1 >> f) - 2^u w + c] in Z_2^m, public c, w = 1 where
               x_0 + x_1 >= 2^k; x = x_0 + x_1 - 2^k w over the integers
Messages       n_i xor beta_i, n_i = 1 where the top bit of x_i is 0                          (one round)
Cost           |x| bits each way; offline: [beta_0 beta_1] modulo 2^(m - u)
Security       semi-honest, perfect: every message is a one-time pad of a bit
How            the top bit of x is 0, so the sum wraps unless both top bits are 0: w = 1 - n_0 n_1, a product of two
               bits, each known to one party
Source         wrap by known top bits: Rathee et al. (SIRNN), IEEE S&P 2021; Huang et al. (Cheetah), USENIX Security
               2022, there by oblivious transfer
"""

from __future__ import annotations

import math

import numpy as np

from mpc.endpoint import Endpoint
from mpc.kernels import wrap
from mpc.offline.correlation import View, correlation, private_to_each
from mpc.offline.recipes import Crossed
from mpc.rings import Z8, Z64, Z2k, integers
from mpc.rounds import Steps, exchange_words
from mpc.shares import AShare
from mpc.words import U64, Shape, packed_size, smallest_word


@correlation
class WrapMasks:
    """Bits beta_0, beta_1, each the low bit of a byte that only its party knows, and [beta_0 beta_1] modulo 2^bits."""

    shape: Shape
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        shape = (math.prod(self.shape),)
        beta, own = private_to_each(view, Z8, shape)
        ring = integers(smallest_word(self.bits), self.bits)
        return own, view.derived(ring, shape, Crossed(ring, *beta))


def wire_bits(count: int) -> int:
    """Return the payload bits of `add_halves` for `count` words, each way."""
    return 8 * packed_size(count, 1)


def add_halves(
    party: Endpoint, x: AShare, offset: int, down: int, up: int, constant: int, ring: Z2k = Z64
) -> Steps[np.ndarray]:
    """[x] -> this party's share of the result of the header for x + offset, f = `down`, u = `up`, in `ring`; flat."""
    beta, product = party.randomness.take(WrapMasks(x.shape, ring.bits - up))
    first = party.rank == 0
    flat, lift = np.ascontiguousarray(x.words).reshape(-1), np.uint64(offset if first else 0)
    own = wrap.mask_tops(flat, lift, beta)
    (other,) = yield from exchange_words([own], [1])
    # w = 1 - n_0 n_1
    public = np.uint64((constant - (1 << up)) % (1 << 64))
    dealt = product.astype(U64, copy=False)
    words = wrap.add_halves(flat, lift, own, other, beta, dealt, down, up, public, first)
    return words.astype(ring.dtype, copy=False)
