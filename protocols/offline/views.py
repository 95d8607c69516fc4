"""The views of a correlation: the dealer's and a party's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.offline.correlation import Half, Recipe, View, in_shape
from mpc.rings import AnyRing
from mpc.words import Shape
from protocols.offline.streams import Rows, Stream

ALIGNMENT = 8


def aligned(size: int) -> int:
    """Return `size` rounded up to whole words, so that the next correction starts at a word."""
    return size + -size % ALIGNMENT


def in_words(array: np.ndarray) -> list[np.ndarray]:
    """Return the bytes of a correction, and the padding to whole words."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    gap = aligned(data.size) - data.size
    return [data, np.zeros(gap, np.uint8)] if gap else [data]


class DealerView(View):
    """Sees the values of one request; collects the corrections for each party."""

    def __init__(self, streams: tuple[Stream, Stream], matrices: dict[int, np.ndarray | Rows]) -> None:
        self._streams, self._matrices = streams, matrices
        self.corrections: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        first, second = (ring.draw(stream, shape) for stream in self._streams)
        return ring.add(first, second)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray:
        return ring.draw(self._streams[owner], shape)

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> Rows:
        return self._streams[owner].rows(shape, ring.dtype)

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        return np.zeros(shape, ring.dtype) if to is None else ring.draw(self._streams[1 - to], shape)

    def made(self, recipe: Recipe, halves: Sequence[Half], to: int | None) -> Sequence[np.ndarray]:
        values = in_shape(recipe(), halves)
        for whole, (ring, half) in zip(values, halves, strict=True):
            for part in ring.pack(ring.subtract(whole, half, out=half)):
                for corrections in self.corrections if to is None else (self.corrections[to],):
                    corrections.extend(in_words(part))
        return values

    def permutation_key(self) -> bytes:
        return self._streams[0].permutation_key

    def keep(self, number: int, mask: np.ndarray | Rows) -> None:
        self._matrices[number] = mask

    def kept(self, number: int) -> np.ndarray | Rows:
        return self._matrices[number]

    def drop(self, number: int) -> None:
        del self._matrices[number]


class NotYet(Exception):
    """A request cannot be expanded before its turn."""


class PartyView(View):
    """Draws one party's halves of one request and reads the corrections sent to it.

    `matrices` holds the masked matrices of the peer; a request that needs or forgets one `ahead` of its turn raises
    NotYet.
    """

    def __init__(
        self,
        rank: int,
        stream: Stream,
        corrections: np.ndarray,
        matrices: dict[int, np.ndarray],
        ahead: bool = False,
    ) -> None:
        self._rank, self._stream, self._corrections, self._read = rank, stream, corrections, 0
        self._matrices, self._ahead = matrices, ahead

    def _correction(self, size: int) -> np.ndarray:
        start, self._read = self._read, self._read + aligned(size)
        if self._read > self._corrections.size:
            raise ProtocolDesync("the dealer sent fewer corrections than the request needs")
        return self._corrections[start : start + size]

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return ring.draw(self._stream, shape)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return self.mask(ring, shape) if owner == self._rank else None

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> Rows | None:
        if owner != self._rank:
            return None
        if self._ahead:
            raise NotYet
        return self._stream.rows(shape, ring.dtype)

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        if to == 1 - self._rank:
            return self.mask(ring, shape)
        return ring.unpack([self._correction(size) for size in ring.sizes(shape)], shape)

    def permutation_key(self) -> bytes:
        return self._stream.permutation_key

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        return recipe() if owner == self._rank else None

    def kept(self, number: int) -> np.ndarray:
        matrix = self._matrices.get(number)
        if matrix is None and self._ahead:
            raise NotYet
        assert matrix is not None, "a matrix must be kept before its vectors are taken"
        return matrix

    def drop(self, number: int) -> None:
        if self._ahead:
            raise NotYet
        self._matrices.pop(number, None)
