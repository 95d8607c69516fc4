"""Counts of views: what one party saw over all cases, and whether it depends on what the party must not learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Small integers: one array per column, one entry per case.
Columns = list[np.ndarray]


@dataclass(frozen=True)
class Side:
    """One party over all cases: its input, revealed values, output shares, dealt values and received messages."""

    own: Columns
    revealed: Columns
    shares: Columns
    dealt: Columns
    messages: Columns

    def leaks(self, other: Side) -> int:
        """Count views that do not occur equally often for every consistent input of the other party."""
        given, view, theirs = (
            _number([*self.own, *self.revealed]),
            _number(self.dealt + self.messages),
            _number(other.own),
        )
        fitting = np.bincount(_distinct(given, theirs)[0], minlength=int(given.max()) + 1)
        pairs, counts = _distinct(given, view, theirs)
        groups, where, size = np.unique(pairs, return_inverse=True, return_counts=True)
        least, most = np.full(groups.size, counts.max()), np.zeros(groups.size, counts.dtype)
        np.minimum.at(least, where, counts)
        np.maximum.at(most, where, counts)
        return int(((least != most) | (size != fitting[groups >> _bits(view)])).sum())

    def padded(self, other: Side) -> bool:
        return _uniform(self.own + other.own, self.dealt + self.messages)

    @property
    def fresh(self) -> bool:
        return _uniform(self.own, self.shares)


def _bits(numbers: np.ndarray) -> int:
    return int(numbers.max()).bit_length()


def _number(columns: Columns) -> np.ndarray:
    """Combine columns of small integers into one number per case."""
    out, used = np.zeros((), np.int64), 0
    for column in columns:
        out = out | column.astype(np.int64) << used
        used += _bits(column)
    if used > 62:
        raise ValueError(f"{used} bits of a view are too many to count")
    return out


def _distinct(*parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct tuples of numbers, without their last part, as numbers, and the count of each tuple."""
    whole = np.zeros((), np.int64)
    for part in parts:
        whole = whole << _bits(part) | part
    tuples, counts = np.unique(whole, return_counts=True)
    return tuples >> _bits(parts[-1]), counts


def _uniform(given: Columns, columns: Columns) -> bool:
    """Return whether the bits of `columns` that vary take every value equally often, for each value of `given`."""
    if not columns:
        return True
    own, numbers = _number(given), _number(columns)
    varying = int(np.bitwise_or.reduce(numbers) & ~np.bitwise_and.reduce(numbers)).bit_count()
    whole, counts = np.unique(own << _bits(numbers) | numbers, return_counts=True)
    return bool((counts == counts[0]).all()) and whole.size == np.unique(own).size << varying
