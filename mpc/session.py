"""Operators on shares within a party's session: `x * y`, `x @ y`, `x < y`, `x == y` run the protocols.

    with session(party):
        z = x * y + 3
        b = x < y
        e = x == y

Jobs of `protocols.runtime.run_local` run within a session. Library code names the protocol and its party instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import and_bits
from mpc.comparison import below
from mpc.matrix_product import matmul
from mpc.party import Party
from mpc.shares import SESSION, AShare, BShare


@dataclass(frozen=True)
class _Session:
    """The protocols behind the operators, with the party that runs them."""

    party: Party

    def multiply(self, x: AShare, y: AShare) -> AShare:
        first, second = np.broadcast_arrays(x.words, y.words)
        return multiply(self.party, x.map(lambda _: first), y.map(lambda _: second))

    def matmul(self, x: AShare, y: AShare) -> AShare:
        return matmul(self.party, x, y)

    def negative(self, x: AShare) -> BShare:
        return below(self.party, x, [0], 64)[..., 0]

    def zero(self, x: AShare) -> BShare:
        # Both signs are needed: -2^63 is below 0, and -2^63 - 1 wraps to a positive number.
        signs = below(self.party, x, [0, 1], 64)
        return and_bits(self.party, ~signs[..., 0], signs[..., 1])


@contextmanager
def session(party: Party) -> Iterator[Party]:
    """Make `party` the one that operators on shares use, in this thread."""
    token = SESSION.set(_Session(party))
    try:
        yield party
    finally:
        SESSION.reset(token)
