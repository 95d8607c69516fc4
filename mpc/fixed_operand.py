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
from mpc.correlation import View, correlation
from mpc.endpoint import Endpoint
from mpc.linear_map import MatrixRelease
from mpc.recipes import Applied
from mpc.ring import Shape, packed_size
from mpc.rings import Ring
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare, S


@correlation
class OperandMask:
    """[A] for the operand of this number."""

    number: int
    shape: Shape
    ring: Ring

    def deal(self, view: View) -> np.ndarray:
        mask = view.mask(self.ring, self.shape)
        view.keep(self.number, mask)
        return mask


@correlation
class OperandProduct:
    """[rho] and [rho A]."""

    number: int
    shape: Shape
    columns: int
    ring: Ring

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        rho = view.mask(self.ring, self.shape)
        product = Applied(lambda matrix, rows: self.ring.matmul(rows, matrix), view.kept, self.number, rho)
        return rho, view.derived(self.ring, (*self.shape[:-1], self.columns), product)


@dataclass(frozen=True)
class FixedOperand:
    """A shared matrix after its opening: M - A, and this party's share of A."""

    number: int
    opened: np.ndarray
    mask: np.ndarray
    ring: Ring

    def release(self, party: Endpoint) -> None:
        """No further products: the dealer forgets A."""
        party.randomness.take(MatrixRelease(self.number))


def _wire(x: AShare | BShare) -> int:
    return 8 * packed_size(x.size, x.ring.bits)


@protocol(cost=lambda matrix: Cost(1, both(_wire(matrix))))
def fix(party: Endpoint, matrix: AShare | BShare) -> Steps[FixedOperand]:
    """[M] of shape [b, k, m] -> FixedOperand, for any number of `multiply_fixed`."""
    number = party.next_matrix()
    mask = party.randomness.take(OperandMask(number, matrix.shape, matrix.ring))
    (opened,) = yield from open_shares(matrix.map(lambda w: matrix.ring.subtract(w, mask)))
    return FixedOperand(number, opened, mask, matrix.ring)


@protocol(cost=lambda x, operand: Cost(1, both(_wire(x))))
def multiply_fixed(party: Endpoint, x: S, operand: FixedOperand) -> Steps[S]:
    """[x] of shape [b, v, k] times the fixed [b, k, m] -> [b, v, m]; the scale is that of x."""
    ring = operand.ring
    columns = operand.opened.shape[-1]
    rho, product = party.randomness.take(OperandProduct(operand.number, x.shape, columns, ring))
    (e,) = yield from open_shares(x.map(lambda w: ring.subtract(w, rho)))
    # rho (M - A) + e A + rho A, and only party 0 adds e (M - A).
    left = ring.add(rho, e) if party.rank == 0 else rho
    return x._like(ring.add(ring.add(ring.matmul(left, operand.opened), ring.matmul(e, operand.mask)), product))
