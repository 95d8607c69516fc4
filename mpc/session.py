"""Operators on shares within a party's session: `x * y`, `x @ y`, `x < y` run the protocols.

    with session(party):
        z = x * y + 3
        b = x < y

A job of `protocols.runtime.run_local` runs within one. Library code names the protocol and its party. Without a
session the operators raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from mpc import shares
from mpc.beaver import multiply
from mpc.comparison import below, less_than
from mpc.matrix_product import matmul
from mpc.party import Party
from mpc.shares import AShare, BShare

_PARTY: ContextVar[Party] = ContextVar("party")


@contextmanager
def session(party: Party) -> Iterator[Party]:
    """Make `party` the one that operators on shares talk through, in this thread."""
    token = _PARTY.set(party)
    try:
        yield party
    finally:
        _PARTY.reset(token)


def _multiply(x: AShare, y: Any) -> AShare:
    if not isinstance(y, AShare):
        return x.times(y)
    first, second = np.broadcast_arrays(x.words, y.words)
    return multiply(_PARTY.get(), x.map(lambda _: first), y.map(lambda _: second))


def _matmul(x: AShare, y: Any) -> AShare:
    if isinstance(y, AShare):
        return matmul(_PARTY.get(), x, y)
    return x.map(lambda w: w @ np.asarray(y).astype(np.int64).astype(w.dtype))


def _less(x: AShare, y: Any) -> BShare:
    if isinstance(y, AShare):
        return less_than(_PARTY.get(), x, y)
    threshold = np.asarray(y)
    if threshold.ndim:
        return less_than(_PARTY.get(), x, shares.public_ring(np.broadcast_to(threshold, x.shape), x.rank, x.scale))
    return below(_PARTY.get(), x, [int(threshold)], 64)[..., 0]


def _operator(name: str, run: Any) -> Any:
    def operate(x: AShare, y: Any) -> Any:
        if _PARTY.get(None) is None:
            raise TypeError(f"x {name} y on shares talks to the peer: use it inside `with session(party):`")
        return run(x, y)

    return operate


# Shares know nothing of parties; a session teaches them the operators that need one.
for _name, _symbol, _run in (
    ("__mul__", "*", _multiply),
    ("__rmul__", "*", _multiply),
    ("__matmul__", "@", _matmul),
    ("__lt__", "<", _less),
    ("__gt__", ">", lambda x, y: _less(-x, -y)),
):
    setattr(AShare, _name, _operator(_symbol, _run))
