"""Sums of a level's nodes: only the smaller child of a split is summed; its sibling is the parent minus that child.

The sums are integers at the guest, after decryption, or ciphertexts at the host.

Source  Chen et al., SecureBoost+, arXiv 2110.10927 (2021): histogram subtraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class Siblings(Generic[T]):
    """One tree's sums of the previous level. Without `subtract`, every node is summed."""

    def __init__(self, subtract: Callable[[T, T], T] | None) -> None:
        self._subtract = subtract
        self._known: dict[int, T] = {}

    def to_sum(self, assignment: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return which of a level's `nodes` to sum, int16; row r is in node assignment[r], int16[n], or in none: -1."""
        rows = np.bincount(assignment[assignment >= 0], minlength=int(nodes.max()) + 1)
        return np.array([node for node in nodes.tolist() if not self._is_rest(node, rows)], np.int16)

    def complete(self, nodes: np.ndarray, summed: dict[int, T]) -> list[T]:
        """Return the sums of every node, given those of `to_sum`."""
        for node in nodes.tolist():
            if self._subtract and node not in summed:
                summed[node] = self._subtract(self._known[_parent(node)], summed[_sibling(node)])
        self._known = summed
        return [summed[node] for node in nodes.tolist()]

    def _is_rest(self, node: int, rows: np.ndarray) -> bool:
        if self._subtract is None or _parent(node) not in self._known:
            return False
        sibling = _sibling(node)
        return (rows[node], node) > (rows[sibling], sibling)


def _parent(node: int) -> int:
    return (node - 1) // 2


def _sibling(node: int) -> int:
    return node + 1 if node % 2 else node - 1
