"""Matrix product of fresh secret rows with a secret matrix that stays.

Functionality  [M] once, then [x] -> [x M], batched: x [b, v, k], M [b, k, m] -> [b, v, m], over Z_2^k or GF(2)
Messages       once: M - A                             each use: x - rho            (one round each)
Cost           |M| words once, |x| words a use, each way; offline: [A], and [rho], [rho A] a use
Security       semi-honest, perfect: every message is a one-time pad; A hides one M, rho one x
Source         Beaver, CRYPTO 1991, with the opening of the fixed operand kept: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.endpoint import Endpoint
from mpc.linear_map import MatrixRelease
from mpc.ring import U8, Shape, packed_size
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare, S


def _product(x: np.ndarray, matrix: np.ndarray, bits: bool) -> np.ndarray:
    # Sums of bits are taken modulo 256, which keeps their parity.
    out = np.matmul(x, matrix)
    return out & U8.type(1) if bits else out


@dataclass(frozen=True)
class OperandMask:
    """[A] for the operand of this number; `dtype` None stands for GF(2)."""

    number: int
    shape: Shape
    dtype: np.dtype | None

    def deal(self, hand: Hand):
        mask = hand.mask_bits(self.shape) if self.dtype is None else hand.mask(self.shape, self.dtype)
        hand.keep(self.number, mask)
        return mask


@dataclass(frozen=True)
class OperandProduct:
    """[rho] and [rho A]."""

    number: int
    shape: Shape
    columns: int
    dtype: np.dtype | None

    def deal(self, hand: Hand):
        shape = (*self.shape[:-1], self.columns)
        if self.dtype is None:
            rho = hand.mask_bits(self.shape)
            return rho, hand.derived_bits(lambda: _product(rho, hand.kept(self.number), True), shape)
        rho = hand.mask(self.shape, self.dtype)
        return rho, hand.derived(lambda: _product(rho, hand.kept(self.number), False), shape, self.dtype)


@dataclass(frozen=True)
class FixedOperand:
    """A shared matrix after its opening: M - A, and this party's share of A."""

    number: int
    opened: np.ndarray
    mask: np.ndarray
    dtype: np.dtype | None

    def release(self, party: Endpoint) -> None:
        """No further products: the dealer forgets A."""
        party.randomness.take(MatrixRelease(self.number))


def _wire(x: AShare | BShare) -> int:
    return 8 * packed_size(x.size, 1 if isinstance(x, BShare) else x.bits)


def _kind(x: AShare | BShare) -> np.dtype | None:
    return None if isinstance(x, BShare) else x.dtype


@protocol(cost=lambda matrix: Cost(1, both(_wire(matrix))))
def fix(party: Endpoint, matrix: AShare | BShare) -> Steps[FixedOperand]:
    """[M] of shape [b, k, m] -> FixedOperand, for any number of `multiply_fixed`."""
    number = party.next_matrix()
    mask = party.randomness.take(OperandMask(number, matrix.shape, _kind(matrix)))
    hidden = matrix.map(lambda w: w ^ mask if isinstance(matrix, BShare) else w - mask)
    (opened,) = yield from open_shares(hidden)
    return FixedOperand(number, opened, mask, _kind(matrix))


@protocol(cost=lambda x, operand: Cost(1, both(_wire(x))))
def multiply_fixed(party: Endpoint, x: S, operand: FixedOperand) -> Steps[S]:
    """[x] of shape [b, v, k] times the fixed [b, k, m] -> [b, v, m]; the scale is that of x."""
    bits = isinstance(x, BShare)
    columns = operand.opened.shape[-1]
    rho, product = party.randomness.take(OperandProduct(operand.number, x.shape, columns, operand.dtype))
    (e,) = yield from open_shares(x.map(lambda w: w ^ rho if bits else w - rho))
    # rho (M - A) + e A + rho A, and party 0 alone adds e (M - A).
    left = (rho ^ e if bits else rho + e) if party.rank == 0 else rho
    terms = _product(left, operand.opened, bits), _product(e, operand.mask, bits), product
    return x._like(terms[0] ^ terms[1] ^ terms[2] if bits else terms[0] + terms[1] + terms[2])
