"""What matrices have in common that multiply shared vectors, whoever knows them: known, or shared and fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from mpc.endpoint import Endpoint
from mpc.rounds import Steps
from mpc.shares import S


class Supply(Protocol):
    """What a matrix needs for a number of vectors."""

    def apply(self, party: Endpoint, x: S) -> Steps[S]:
        """[x] of shape [v, n_in] -> [M x], [v, n_out]."""


class Releasable(Protocol):
    """A masked matrix with a number."""

    @property
    def number(self) -> int: ...

    def release(self, party: Endpoint) -> None:
        """End the use of the matrix."""


class LinearMap(Releasable, Protocol):
    """A masked matrix that multiplies shared vectors, whoever knows it: a SharedMatrix or a FixedOperand."""

    def supply(self, party: Endpoint, count: int) -> Supply:
        """Take what `count` vectors need."""


@contextmanager
def released(party: Endpoint, matrices: Sequence[Releasable]) -> Iterator[None]:
    """Release the matrices after the block. After an error the program is out of step with the dealer, so the party
    forgets only its own part, and the dealer's part ends with the session.
    """
    try:
        yield
    except BaseException:
        for matrix in matrices:
            party.randomness.forget(matrix.number)
        raise
    for matrix in matrices:
        matrix.release(party)
