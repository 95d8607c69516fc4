"""Computations of two parties on their shares by transfers: products of a bit of one party and words of the other.

A transfer is one correlated oblivious transfer: the chooser inputs a bit c, the sender words w, and both get shares of
c w, each uniform by itself. The functions below are protocols of the offline phase, as generators: they yield lists of
independent transfers, and receive this party's shares. `parallel` joins several. Messages in between are masked
(`MaskedMessage`).

and_each       <b>, <s> -> <b s>, a bit times a string of bits             2 transfers of the string
choose         <b>, [a] -> [b a]; lift: a = 1                              2 transfers of the words (lift: 1)
multiply       [a], [b] -> [a b] modulo 2^k                                2 k transfers, of k, k - 1 .. bits
join           <words of k bits> -> [their integers] modulo 2^k            k transfers of k, k - 1 .. bits

mpc/offline/one_hot_transfers.py makes one-hot vectors and carries from these.

Security       semi-honest, as the transfers: nothing else is sent
Source         products: Gilboa, CRYPTO 1999; bits: Goldreich, Micali and Wigderson, STOC 1987, with the strings of
               Demmler et al. (ABY), NDSS 2015
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np

from mpc.rings import GF2, AnyRing, BitRing, PackedBits, PackedIntegers, Z2k, integers
from mpc.words import U8, Shape, smallest_word

T = TypeVar("T")
_BYTE = 8
# The most words that the messages of one product have: longer ones are made in pieces, one after another.
_MOST = 1 << 25


@dataclass(frozen=True)
class Transfer:
    """`count` transfers of `width` elements: choices uint8[count] at the chooser, words [count, width] at the sender.

    At each party, the other party's input is None.
    """

    chooser: int
    count: int
    width: int
    ring: AnyRing
    choices: np.ndarray | None
    words: np.ndarray | None
    answers: ClassVar[int] = 1


@dataclass(frozen=True)
class MaskedMessage:
    """A masked message in the round of the transfers' words: words [count] at the sender, None at the receiver."""

    sender: int
    count: int
    ring: AnyRing
    words: np.ndarray | None
    answers: ClassVar[int] = 1


@dataclass(frozen=True)
class Correlated:
    """`count` transfers of blocks that differ by the sender's secret delta.

    The sender gets random blocks b, and the chooser b xor c delta, both uint64[count, 2], for its choices c,
    uint8[count]; None at the sender.
    """

    chooser: int
    count: int
    choices: np.ndarray | None
    answers: ClassVar[int] = 1


TransferRequest: TypeAlias = Transfer | MaskedMessage | Correlated
OfflineSteps: TypeAlias = Generator[Sequence[TransferRequest], list[np.ndarray], T]


def send(message: MaskedMessage) -> OfflineSteps[np.ndarray]:
    """Run one message; return its words, also at the sender."""
    (words,) = yield [message]
    return words


def crosswise(rank: int, bits: np.ndarray, words: np.ndarray, ring: AnyRing) -> list[Transfer]:
    """Return two transfers: each party's own bits, [n], times the other's words, [n, m]."""
    count, width = words.shape
    return [
        Transfer(chooser, count, width, ring, bits if rank == chooser else None, None if rank == chooser else words)
        for chooser in (0, 1)
    ]


def private(rank: int, chooser: int, own: np.ndarray, ring: AnyRing, width: int = 1) -> Transfer:
    """Return a transfer: the chooser's bits, [n], times the sender's words, [n, width]; `own` is this party's input."""
    mine = rank == chooser
    return Transfer(chooser, len(own), width, ring, own if mine else None, None if mine else own)


def and_each(
    rank: int, bits: np.ndarray, strings: np.ndarray, ring: BitRing | PackedBits = GF2
) -> OfflineSteps[np.ndarray]:
    """<b>, uint8[n], and <s>, [n, m] in a ring of bits -> <b s>, [n, m]."""
    if not strings.size:
        return strings
    first, second = yield crosswise(rank, bits, strings, ring)
    return bits[:, None].astype(ring.dtype) * strings ^ first ^ second


@dataclass(frozen=True)
class _Spread:
    """Bits and elements of shapes that broadcast, rearranged as rows: for each bit, the elements that it multiplies."""

    bits: Shape
    elements: Shape

    @property
    def shape(self) -> Shape:
        return np.broadcast_shapes(self.bits, self.elements)

    @property
    def _axes(self) -> list[int]:
        """The axes along which the bits vary, then the others."""
        shape = self.shape
        bits = (1,) * (len(shape) - len(self.bits)) + self.bits
        return sorted(range(len(shape)), key=lambda axis: (bits[axis] != shape[axis], axis))

    def rows(self, elements: np.ndarray) -> np.ndarray:
        """[n, m] for n bits."""
        count = math.prod(self.bits)
        moved = np.broadcast_to(elements, self.shape).transpose(self._axes)
        return moved.reshape(count, -1) if count else np.zeros((0, 1), elements.dtype)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Inverse of `rows`, in the common shape."""
        axes, shape = self._axes, self.shape
        if not math.prod(shape):
            return np.zeros(shape, rows.dtype)
        return rows.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))


def choose(rank: int, bits: np.ndarray, a: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """<b>, [a] -> [b a]; the shapes broadcast.

    With b_0, b_1 the shares of a bit, b a = sum_i b_i a_i + b_i (1 - 2 b_j) a_j, j the other party.
    """
    spread = _Spread(bits.shape, a.shape)
    signed, rows = bits.reshape(-1, 1).astype(ring.dtype), spread.rows(a)
    first, second = yield crosswise(rank, bits.reshape(-1), (ring.dtype.type(1) - signed - signed) * rows, ring)
    return spread.back(signed * rows + first + second)


def choose_packed(rank: int, bits: np.ndarray, a: np.ndarray, ring: PackedIntegers) -> OfflineSteps[np.ndarray]:
    """<b>, uint8[n], and [a], uint8[n, m], modulo 2^k -> [b a], packed in bytes on the wire."""
    signed = bits[:, None]
    first, second = yield crosswise(rank, bits, ring.join((U8.type(1) - signed - signed) * a), ring)
    return signed * a + ring.split(ring.add(first, second), a.shape[1])


def lift(rank: int, bits: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """<b> -> [b]."""
    signed = bits.astype(ring.dtype)
    own = bits.reshape(-1) if rank == 1 else (ring.dtype.type(1) - signed - signed).reshape(-1, 1)
    (share,) = yield [private(rank, 1, own, ring)]
    return share.reshape(bits.shape) + (signed if rank == 0 else ring.dtype.type(0))


def _cross(
    rank: int, chooser: int | None, bits_of: np.ndarray, words: np.ndarray, ring: Z2k
) -> OfflineSteps[np.ndarray]:
    """Return sums over the bits i of b, [n], of 2^i times words [n, m].

    With a chooser, b is its own and the words are the other's; without one, both parties' b and words are multiplied
    crosswise.
    """
    count, width = words.shape
    out, step = np.empty((count, width), ring.dtype), max(1, _MOST // (ring.bits * max(1, width)))
    for start in range(0, count, step):
        piece = slice(start, start + step)
        out[piece] = yield from _cross_piece(rank, chooser, bits_of[piece], words[piece], ring)
    return out


def _cross_piece(
    rank: int, chooser: int | None, bits_of: np.ndarray, words: np.ndarray, ring: Z2k
) -> OfflineSteps[np.ndarray]:
    """Compute `_cross`; groups of eight bits have messages of one width."""
    transfers, per = [], 2 if chooser is None else 1
    count, width = words.shape
    for low in range(0, ring.bits, _BYTE):
        places = np.arange(min(_BYTE, ring.bits - low))
        narrow = integers(smallest_word(ring.bits - low), ring.bits - low)
        bits = (bits_of[:, None] >> (low + places).astype(bits_of.dtype) & bits_of.dtype.type(1)).astype(U8).reshape(-1)
        moved = words[:, None].astype(narrow.dtype) << places.astype(narrow.dtype)[:, None]
        moved = moved.reshape(count * places.size, width)
        if chooser is None:
            transfers += crosswise(rank, bits, moved, narrow)
        else:
            transfers.append(private(rank, chooser, bits if rank == chooser else moved, narrow, width))
    answers = yield transfers
    total = np.zeros((count, width), ring.dtype)
    for index, share in enumerate(answers):
        low = _BYTE * (index // per)
        total += share.reshape(count, min(_BYTE, ring.bits - low), width).sum(
            axis=1, dtype=ring.dtype
        ) << ring.dtype.type(low)
    return total


def multiply(rank: int, a: np.ndarray, b: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """[a], [b] -> [a b]; the shapes broadcast. The bits of the operand with fewer elements are the choices."""
    if b.size > a.size:
        a, b = b, a
    spread = _Spread(b.shape, a.shape)
    flat, rows = b.reshape(-1), spread.rows(a)
    cross = yield from _cross(rank, None, flat, rows, ring)
    return spread.back(flat[:, None] * rows + cross)


def multiply_private(rank: int, chooser: int, own: np.ndarray, width: int, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """b, known to the chooser, [n], times words known to the other, [n, width]; `own` is this party's input."""
    mine = rank == chooser
    bits_of = own if mine else np.zeros(len(own), ring.dtype)
    words = np.zeros((len(own), width), ring.dtype) if mine else own
    return (yield from _cross(rank, chooser, bits_of, words, ring))


def matmul_private(rank: int, left: int, a: np.ndarray, b: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """a [n, k], known to party `left`, times b [k, m], known to the other; each passes zeros for the other's matrix.

    The bits of the matrix with fewer elements are the choices.
    """
    (n, k), m = a.shape, b.shape[1]
    if n > m:
        return (yield from matmul_private(rank, 1 - left, b.T, a.T, ring)).T
    out, step = np.empty((n, m), ring.dtype), max(1, _MOST // (ring.bits * max(1, k * m)))
    for start in range(0, n, step):
        rows = a[start : start + step]
        own = rows.reshape(-1) if rank == left else np.tile(b, (len(rows), 1))
        products = yield from multiply_private(rank, left, own, m, ring)
        out[start : start + step] = products.reshape(len(rows), k, m).sum(axis=1, dtype=ring.dtype)
    return out


def multiply_bits(rank: int, own: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """uint8[n] bits, one known to each party -> [their product]."""
    (share,) = yield [private(rank, 1, own if rank == 1 else own.astype(ring.dtype)[:, None], ring)]
    return share[:, 0]


def join(rank: int, words: np.ndarray, ring: Z2k) -> OfflineSteps[np.ndarray]:
    """<words of bits>, [n] -> [the integers that they stand for], modulo 2^k.

    With w_0, w_1 the shares of a word, w = w_0 + sum_i 2^i b_1 (1 - 2 b_0) over their bits. Groups of eight bits have
    messages of one width.
    """
    bits, transfers = bits_of_words(words, ring.bits), []
    for low in range(0, ring.bits, _BYTE):
        own = bits[:, low : low + _BYTE]
        narrow = integers(smallest_word(ring.bits - low), ring.bits - low)
        if rank == 0:
            signed = own.astype(narrow.dtype)
            own = narrow.dtype.type(1) - signed - signed << np.arange(own.shape[1]).astype(narrow.dtype)
        transfers.append(private(rank, 1, own.reshape(-1) if rank == 1 else own.reshape(-1, 1), narrow))
    total = words.astype(ring.dtype) if rank == 0 else np.zeros(len(words), ring.dtype)
    for low, share in zip(range(0, ring.bits, _BYTE), (yield transfers), strict=True):
        total = total + (
            share.reshape(len(words), min(_BYTE, ring.bits - low)).sum(axis=1, dtype=ring.dtype) << ring.dtype.type(low)
        )
    return total


def bits_of_words(words: np.ndarray, count: int) -> np.ndarray:
    """The low bits of words, lowest first along a new last axis, uint8."""
    return (words[..., None] >> np.arange(count).astype(words.dtype) & words.dtype.type(1)).astype(U8)


def unpack(words: np.ndarray, count: int) -> np.ndarray:
    """Bits packed in consecutive words, [n, w] -> uint8[n, count]."""
    data = np.ascontiguousarray(words).view(U8)
    return np.unpackbits(data, axis=1, count=count, bitorder="little")


def and_bits(rank: int, x: np.ndarray, y: np.ndarray, ring: BitRing | PackedBits) -> OfflineSteps[np.ndarray]:
    """<x>, <y> in a ring of bits -> <x and y>; the shapes broadcast. If one bit multiplies many, they form a string."""
    if isinstance(ring, PackedBits):
        bits = [np.unpackbits(np.ascontiguousarray(w).view(U8).reshape(-1), bitorder="little") for w in (x, y)]
        product = yield from and_each(rank, bits[0], bits[1][:, None])
        return np.packbits(product.reshape(-1), bitorder="little").view(x.dtype).reshape(x.shape)
    if x.size > y.size:
        x, y = y, x
    spread = _Spread(x.shape, y.shape)
    return spread.back((yield from and_each(rank, x.reshape(-1), spread.rows(y))))
