"""Matrices of rows that are made, used and sent piece by piece: their maker never has all of one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

# Bytes of a piece, which stay in the cache of a core.
PIECE = 1 << 19


def pieces(rows: int, width: int) -> Iterator[slice]:
    """So many rows of `width` bytes each, in slices of about PIECE bytes."""
    count = max(1, PIECE // max(1, width))
    return (slice(start, start + count) for start in range(0, rows, count))


@dataclass(frozen=True)
class Pieces:
    """A message of so many rows of `width` bytes, of which the sender never has all: `make` gives some as an array."""

    rows: int
    width: int
    make: Callable[[slice], np.ndarray]

    @property
    def size(self) -> int:
        return self.rows * self.width

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[memoryview]:
        for rows in pieces(self.rows, self.width):
            yield np.ascontiguousarray(self.make(rows)).reshape(-1).view(np.uint8).data

    def tobytes(self) -> bytes:
        return b"".join(self)
