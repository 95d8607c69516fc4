"""The plan on the wire: requests for correlated randomness as plain values, checked before a dealer acts on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.offline.correlation import Correlation
from mpc.protocol.catalogue import correlations
from mpc.rings import GF2, integers

Plan = Sequence[tuple[Sequence[Correlation[object]], int]]

_WORDS = ("uint8", "uint16", "uint32", "uint64")
_LARGEST = 1 << 36
_MOST_REQUESTS, _MOST_DIMENSIONS = 1 << 24, 16
_LONGEST_NAME = 40


def in_order(plan: Plan) -> Iterator[Correlation[object]]:
    """Yield every request of a plan."""
    for requests, times in plan:
        for _ in range(times):
            yield from requests


def encode_plan(plan: Plan) -> list[object]:
    """Return a plan as a tree for the codec."""
    return [[[_encode(request) for request in requests], times] for requests, times in plan]


def _encode(request: Correlation[object]) -> list[object]:
    values = [getattr(request, f.name) for f in fields(request)]  # type: ignore[arg-type]  # it is a dataclass
    return [type(request).__name__, *(getattr(value, "name", value) for value in values)]


def decode_plan(tree: Any) -> list[tuple[list[Correlation[object]], int]]:
    """Decode what `encode_plan` wrote. Raises ProtocolDesync for anything but a plan of bounded size."""
    try:
        plan = [([_decode(request) for request in requests], _count(times)) for requests, times in tree]
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise ProtocolDesync(f"the plan is not valid: {error}") from None
    # A list of nothing takes its time, too.
    if sum(max(1, len(requests)) * times for requests, times in plan) > _MOST_REQUESTS:
        raise ProtocolDesync(f"a plan must have at most {_MOST_REQUESTS} requests")
    return plan


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError("a number out of range")
    return value


def _decode(tree: Any) -> Correlation[object]:
    name, *values = tree
    described = correlations().get(name)
    if described is None:
        raise ValueError(f"no correlation is named {str(name)[:_LONGEST_NAME]!r}; @correlation makes one, in mpc")
    if len(values) != len(fields(described)):
        raise ValueError(f"{name} must have {len(fields(described))} values, got {len(values)}")
    return described(*(_value(f.type, value) for f, value in zip(fields(described), values, strict=True)))


def _value(annotation: Any, value: Any) -> Any:
    if annotation == "int":
        return _count(value)
    if annotation == "Shape":
        shape = tuple(_count(v) for v in value)
        if len(shape) > _MOST_DIMENSIONS or math.prod(map(float, shape)) > _LARGEST:
            raise ValueError("a shape out of range")
        return shape
    if annotation == "Ring" and value == GF2.name:
        return GF2
    if not isinstance(value, str):
        raise ValueError("a word type must be a name")
    word, _, low = value.partition(":")
    if word not in _WORDS:
        raise ValueError("an unknown word type")
    dtype = np.dtype(word)
    if annotation == "np.dtype" and not low:
        return dtype
    bits = int(low or 8 * dtype.itemsize)
    if annotation == "np.dtype" or not 1 <= bits <= 8 * dtype.itemsize:
        raise ValueError("an unknown ring")
    return integers(dtype, bits)
