"""The views of a correlation: the dealer's and a party's."""

from __future__ import annotations

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.offline.correlation import Recipe
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


class DealerView:
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

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        whole = np.asarray(recipe(), ring.dtype).reshape(shape)
        half = ring.draw(self._streams[1 - to], shape)
        for part in ring.pack(ring.subtract(whole, half, out=half)):
            self.corrections[to].extend(in_words(part))
        return whole

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        whole = np.ascontiguousarray(recipe(), ring.dtype).reshape(shape)
        for to in (0, 1):
            self.corrections[to].extend(in_words(whole))
        return whole

    def permutation_key(self) -> bytes:
        return self._streams[0].permutation_key

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> None:
        return None

    def keep(self, number: int, mask: np.ndarray | Rows) -> None:
        self._matrices[number] = mask

    def kept(self, number: int) -> np.ndarray | Rows:
        return self._matrices[number]

    def drop(self, number: int) -> None:
        del self._matrices[number]


class NotYet(Exception):
    """A request cannot be expanded before its turn."""


class PartyView:
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

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        if self._rank != to:
            return self.mask(ring, shape)
        return ring.unpack([self._correction(size) for size in ring.sizes(shape)], shape)

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        return self.derived(ring, shape, recipe, to=self._rank)

    def permutation_key(self) -> bytes:
        return self._stream.permutation_key

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        return recipe() if owner == self._rank else None

    def keep(self, number: int, mask: np.ndarray | None) -> None:
        pass

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
