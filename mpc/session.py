"""Operators on shares within a party's session: `x * y`, `x @ y`, `x < y` run the protocols.

    with session(party):
        z = x * y + 3
        b = x < y
        e = x == y

A job of `protocols.runtime.run_local` runs within one. Library code names the protocol and its party. Without a
session the operators raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from mpc.beaver import multiply
from mpc.comparison import below, in_range
from mpc.matrix_product import matmul
from mpc.party import Party
from mpc.ring import encode_signed, to_units
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
        return x.times(y, _scale(x, y))
    first, second = np.broadcast_arrays(x.words, y.words)
    return multiply(_PARTY.get(), x.map(lambda _: first), y.map(lambda _: second))


def _matmul(x: AShare, y: Any) -> AShare:
    if isinstance(y, AShare):
        return matmul(_PARTY.get(), x, y)
    scale = _scale(x, y)
    factor = encode_signed(y, x.dtype, scale)
    return x.map(lambda w: w @ factor).at_scale(x.scale + scale)


def _scale(x: AShare, y: Any) -> int:
    """That of a public factor: floats are rounded to the scale of the share, integers are what they are."""
    return x.scale if np.asarray(y).dtype.kind == "f" else 0


def _less(x: AShare, y: Any) -> BShare:
    # On integers x < y and x < ceil(y) are the same.
    bound = y if isinstance(y, AShare) else to_units(y, x.scale, np.ceil)
    return below(_PARTY.get(), x - bound, [0], 64)[..., 0]


def _more(x: AShare, y: Any) -> BShare:
    return _less(-x, -(y if isinstance(y, AShare) else to_units(y, x.scale, np.floor)))


def _equal(x: AShare, y: Any) -> BShare:
    return in_range(_PARTY.get(), x - y, 0, 1)


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
    ("__gt__", ">", _more),
    ("__eq__", "==", _equal),
    ("__ne__", "!=", lambda x, y: ~_equal(x, y)),
):
    setattr(AShare, _name, _operator(_symbol, _run))
