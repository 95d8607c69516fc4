"""The hands that read a kind's description: the dealer's, a party's, the planner's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.ring import U64, Shape, low_bits, pack_bits, pack_words, packed_size, packed_sizes, unpack_bits, unpack_words
from protocols.randomness.prg import Stream

ALIGNMENT = 8


def aligned(size: int) -> int:
    """Bytes that a correction of `size` bytes takes up, so that the next one starts at a word."""
    return size + -size % ALIGNMENT


class DealerHand:
    """Sees the values of one request; collects the corrections for either party."""

    def __init__(self, streams: tuple[Stream, Stream], matrices: dict[int, np.ndarray]) -> None:
        self._streams, self._matrices = streams, matrices
        self.corrections: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def mask(self, shape: Shape, dtype: np.dtype = U64, xor: bool = False) -> np.ndarray:
        halves = [stream.words(shape, dtype) for stream in self._streams]
        return halves[0] ^ halves[1] if xor else halves[0] + halves[1]

    def mask_bits(self, shape: Shape) -> np.ndarray:
        return self._streams[0].bits(shape) ^ self._streams[1].bits(shape)

    def private(self, owner: int, shape: Shape, dtype: np.dtype = U64) -> np.ndarray:
        return self._streams[owner].words(shape, dtype)

    def derived(
        self,
        value: Callable[[], np.ndarray],
        shape: Shape,
        dtype: np.dtype = U64,
        xor: bool = False,
        to: int = 1,
        bits: int | None = None,
    ) -> np.ndarray:
        whole = np.asarray(value(), dtype).reshape(shape)
        half = self._streams[1 - to].words(shape, dtype)
        correction = (np.bitwise_xor if xor else np.subtract)(whole, half, out=half)
        width = bits or 8 * dtype.itemsize
        for part in pack_words(low_bits(correction, width), width):
            self._correct(to, part)
        return whole

    def derived_bits(self, value: Callable[[], np.ndarray], shape: Shape, to: int = 1) -> np.ndarray:
        whole = np.asarray(value(), np.uint8).reshape(shape)
        self._correct(to, pack_bits(whole ^ self._streams[1 - to].bits(shape)))
        return whole

    def both(self, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray:
        whole = np.ascontiguousarray(value(), dtype).reshape(shape)
        for to in (0, 1):
            self._correct(to, whole)
        return whole

    def _correct(self, to: int, correction: np.ndarray) -> None:
        data = np.ascontiguousarray(correction).reshape(-1).view(np.uint8)
        self.corrections[to].append(data)
        if gap := aligned(data.size) - data.size:
            self.corrections[to].append(np.zeros(gap, np.uint8))

    def permutation_key(self) -> bytes:
        return self._streams[0].permutation_key

    def computed(self, owner: int, value: Any, shape: Shape, dtype: np.dtype) -> None:
        return None

    def keep(self, number: int, mask: np.ndarray) -> None:
        self._matrices[number] = mask

    def kept(self, number: int) -> np.ndarray:
        return self._matrices[number]

    def drop(self, number: int) -> None:
        del self._matrices[number]


class NotYet(Exception):
    """A request that cannot be expanded before its turn."""


class PartyHand:
    """Draws one party's halves of one request and reads the corrections sent to it.

    What a party makes by itself, in order, is its `own`: a whole look at the request hands it to a later one.
    A look before the corrections are here (None) has anything in their place. `matrices` holds the masked matrices of
    the peer; `ahead` of its turn, a request that needs or forgets one may raise NotYet.
    """

    def __init__(
        self,
        rank: int,
        stream: Stream,
        corrections: np.ndarray | None,
        matrices: dict[int, np.ndarray],
        ahead: bool = False,
        own: Sequence[np.ndarray] | None = None,
        computed: np.ndarray | None = None,
    ) -> None:
        self._rank, self._stream, self._corrections, self._read = rank, stream, corrections, 0
        self._matrices, self._ahead, self.computed_result = matrices, ahead, computed
        self._before, self.own = own, list[np.ndarray]()

    @property
    def held(self) -> int:
        """Bytes of all that this party made or read."""
        return sum(array.nbytes for array in self.own) + self._read

    def _once(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        # Either all is drawn or all is known: what is known has not moved the stream.
        self.own.append(make() if self._before is None else self._before[len(self.own)])
        return self.own[-1]

    def _correction(self, size: int) -> np.ndarray:
        start, self._read = self._read, self._read + aligned(size)
        if self._corrections is None:
            return np.empty(size, np.uint8)
        if self._read > self._corrections.size:
            raise ProtocolDesync("the dealer sent fewer corrections than the request needs")
        return self._corrections[start : start + size]

    def _words(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        return self._once(lambda: self._stream.words(shape, dtype))

    def mask(self, shape: Shape, dtype: np.dtype = U64, xor: bool = False) -> np.ndarray:
        return self._words(shape, dtype)

    def mask_bits(self, shape: Shape) -> np.ndarray:
        return self._once(lambda: self._stream.bits(shape))

    def private(self, owner: int, shape: Shape, dtype: np.dtype = U64) -> np.ndarray | None:
        return self._words(shape, dtype) if owner == self._rank else None

    def derived(
        self,
        value: Any,
        shape: Shape,
        dtype: np.dtype = U64,
        xor: bool = False,
        to: int = 1,
        bits: int | None = None,
    ) -> np.ndarray:
        if self._rank != to:
            return self._words(shape, dtype)
        width = bits or 8 * dtype.itemsize
        sizes = packed_sizes(math.prod(shape), width)
        return unpack_words([self._correction(size) for size in sizes], shape, dtype, width)

    def both(self, value: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
        return self.derived(value, shape, dtype, to=self._rank)

    def permutation_key(self) -> bytes:
        return self._stream.permutation_key

    def derived_bits(self, value: Any, shape: Shape, to: int = 1) -> np.ndarray:
        if self._rank != to:
            return self.mask_bits(shape)
        count = math.prod(shape)
        return unpack_bits(self._correction(packed_size(count, 1)), shape)

    def computed(self, owner: int, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray | None:
        if self._rank != owner:
            return None
        if self.computed_result is None:
            self.computed_result = self._once(value)
        return self.computed_result

    def keep(self, number: int, mask: np.ndarray | None) -> None:
        pass

    def kept(self, number: int) -> np.ndarray:
        if self._ahead and number not in self._matrices:
            raise NotYet
        return self._matrices[number]

    def drop(self, number: int) -> None:
        if self._ahead:
            raise NotYet
        self._matrices.pop(number, None)
