"""The plan on the wire: requests for correlated randomness as plain values, checked before a dealer acts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from mpc import (
    beaver,
    bit_product,
    comparison,
    comparison_keys,
    equality,
    fixed_operand,
    linear_map,
    matrix_product,
    one_hot,
    reciprocal,
    sharing,
    sigmoid,
    truncation,
    wrap,
)
from mpc.correlation import Correlation
from mpc.errors import ProtocolDesync

Plan = Sequence[tuple[Sequence[Correlation], int]]

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        beaver.Triples,
        beaver.Squares,
        bit_product.BitTriples,
        bit_product.RingBits,
        bit_product.SelectMasks,
        comparison.SignMasks,
        comparison_keys.SignKeys,
        comparison_keys.FloorKeys,
        comparison_keys.MaximumKeys,
        equality.EqualityMasks,
        fixed_operand.OperandMask,
        fixed_operand.OperandProduct,
        linear_map.MatrixMask,
        linear_map.MatrixVectors,
        linear_map.MatrixRelease,
        matrix_product.MatrixMasks,
        one_hot.OneHotMasks,
        reciprocal.NewtonMasks,
        sharing.InputMask,
        sharing.ZeroShares,
        sigmoid.TrigonometricMasks,
        truncation.FloorMasks,
        wrap.WrapMasks,
    )
}
_DTYPES = ("bool", "uint8", "uint16", "uint32", "uint64")
_LARGEST = 1 << 36


def encode_plan(plan: Plan) -> list:
    """A plan as a tree for the codec."""
    return [[[_encode(kind) for kind in kinds], times] for kinds, times in plan]


def _encode(kind: Correlation) -> list:
    values = [getattr(kind, f.name) for f in fields(kind)]  # type: ignore[arg-type]
    return [type(kind).__name__, *(v.name if isinstance(v, np.dtype) else v for v in values)]


def decode_plan(tree: Any) -> list[tuple[list[Correlation], int]]:
    """Inverse of `encode_plan`. Raises ProtocolDesync for anything that is not a plan of bounded size."""
    try:
        return [([_decode(kind) for kind in kinds], _count(times)) for kinds, times in tree]
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise ProtocolDesync(f"not a plan: {error}") from None


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError("a number out of range")
    return value


def _decode(tree: Any) -> Correlation:
    name, *values = tree
    kind = KINDS[name]
    if len(values) != len(fields(kind)):
        raise ValueError(f"{name} takes {len(fields(kind))} values")
    return kind(*(_value(f.type, value) for f, value in zip(fields(kind), values, strict=True)))


def _value(annotation: Any, value: Any) -> Any:
    if annotation in ("int", "bool"):
        if annotation == "bool" and type(value) is bool:
            return value
        return _count(value)
    if annotation == "Shape":
        shape = tuple(_count(v) for v in value)
        if math.prod(map(float, shape)) > _LARGEST:
            raise ValueError("a shape out of range")
        return shape
    if value is None and "None" in annotation:
        return None
    if value not in _DTYPES:
        raise ValueError("an unknown type of words")
    return np.dtype(value)
