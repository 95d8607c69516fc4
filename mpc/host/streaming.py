"""Matrices that are made, sent, received and used piece by piece: no process holds a whole one in memory."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Self

import numpy as np

from mpc.errors import DataError

# Bytes per piece: a piece fits in the cache of a core.
PIECE = 1 << 19
# A received matrix of at least this many bytes is kept in a file.
IN_A_FILE = 1 << 25


def pieces(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of about PIECE bytes over `rows` rows of `width` bytes each."""
    count = max(1, PIECE // max(1, width))
    return (slice(start, start + count) for start in range(0, rows, count))


@dataclass(frozen=True)
class Pieces:
    """A message of `rows` rows of `width` bytes, of which the sender holds a slice at a time: `make` returns it."""

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


class RowsInFile:
    """A matrix that is received (or kept) and read in slices of rows, in a file in the system's temporary folder.

    The file has no name, so it disappears with the process, however that ends. To receive the matrix, iterate and fill
    the buffers. Raises DataError if the folder has no room.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self._dtype = shape, dtype
        self.width = math.prod(shape[1:]) * dtype.itemsize
        self.size = shape[0] * self.width
        self._file: IO[bytes] | None = None

    def __iter__(self) -> Iterator[memoryview]:
        with self._room():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115, it stays
        for rows in pieces(self.shape[0], self.width):
            buffer = np.empty((min(rows.stop, self.shape[0]) - rows.start) * self.width, np.uint8)
            yield buffer.data
            with self._room():
                self._file.write(buffer.data)
                self._file.flush()

    @classmethod
    def of(cls, matrix: np.ndarray) -> Self:
        """Keep a matrix that is in memory."""
        file = cls(matrix.shape, matrix.dtype)
        for buffer, rows in zip(file, pieces(matrix.shape[0], file.width), strict=True):
            buffer[:] = np.ascontiguousarray(matrix[rows]).reshape(-1).view(np.uint8).data
        return file

    def __getitem__(self, rows: slice) -> np.ndarray:
        assert self._file is not None, "rows are received before they are read"
        start, stop, _ = rows.indices(self.shape[0])
        out = np.empty((stop - start, *self.shape[1:]), self._dtype)
        read = os.preadv(self._file.fileno(), [out.reshape(-1).view(np.uint8).data], start * self.width)
        assert read == out.nbytes, "the whole matrix was received"
        return out

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"{tempfile.gettempdir()} has no room for {self.size / 1e9:.1f} GB of masked rows ({error.strerror}): "
                "set the environment variable TMPDIR to another folder"
            ) from error
