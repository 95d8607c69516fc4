"""What two parties compute on their shares by transfers: products of a bit of one party and words of the other.

A transfer is one correlated oblivious transfer: the chooser puts in a bit c, the sender words w, and both get shares of
c w that look uniform to either. The functions below are protocols of the offline phase, as generators: they yield lists
of transfers that need not wait for one another, and are sent this party's shares. `together` joins several. What is
told in between (`Told`) is masked.

and_each       <b>, <s> -> <b s>, a bit times a string of bits             2 transfers of the string
choose         <b>, [a] -> [b a]; lift: a = 1                              2 transfers of the words (lift: 1)
multiply       [a], [b] -> [a b] modulo 2^k                                2 k transfers, of k, k - 1 .. bits
one_hot        <i> of b bits -> <1{j = i}>, 2^b bits                       2 b - 2 transfers, of 2, 4 .. 2^(b - 1) bits
one_hots       [x] modulo 2^k -> one-hots of its windows, carries          k transfers of up to 32 bits, some a window
subset_products  <k bits> -> <the product over each subset>                2 k transfers of up to 2^(k - 1) bits

Security       semi-honest, as the transfers: nothing else is sent
Source         products: Gilboa, CRYPTO 1999; bits: Goldreich, Micali and Wigderson, STOC 1987, with the strings of
               Demmler et al. (ABY), NDSS 2015; carries: Sklansky, IRE Transactions 1960
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mpc.ring import U8, Shape, low_bits, smallest_word
from mpc.rings import GF2, AnyRing, BitRing, PackedBits, PackedIntegers, Z2k, integers, packed_bits

T = TypeVar("T")
_BYTE = 8
# Windows of which one-hots, or carries only, are made by shifts.
_HOT_BITS, _CARRY_BITS = 4, 3


@dataclass(frozen=True)
class Transfer:
    """`count` transfers of `width` elements each: choices uint8[count] at the chooser, words [count, width] at the
    other; None stands for what this party does not put in.
    """

    chooser: int
    count: int
    width: int
    ring: AnyRing
    choices: np.ndarray | None
    words: np.ndarray | None


@dataclass(frozen=True)
class Told:
    """What one party tells the other in the round of the transfers' words: words [count], masked; None at the other."""

    sender: int
    count: int
    ring: AnyRing
    words: np.ndarray | None


Asked: TypeAlias = Transfer | Told
Making: TypeAlias = Generator[Sequence[Asked], list[np.ndarray], T]


def together(*makings: Making[Any]) -> Making[list[Any]]:
    """Several at once: each list of transfers has those of all that are not done; their results in order."""
    results: list[Any] = [None] * len(makings)
    asked: dict[int, Sequence[Asked]] = {}

    def advance(index: int, answer: list[np.ndarray] | None) -> None:
        try:
            asked[index] = next(makings[index]) if answer is None else makings[index].send(answer)
        except StopIteration as done:
            results[index] = done.value

    for index in range(len(makings)):
        advance(index, None)
    while asked:
        now, asked = asked, {}
        answers = yield [one for several in now.values() for one in several]
        start = 0
        for index, several in now.items():
            advance(index, answers[start : start + len(several)])
            start += len(several)
    return results


def crosswise(rank: int, bits: np.ndarray, words: np.ndarray, ring: AnyRing) -> list[Transfer]:
    """Each party's own bits, [n], times the other's words, [n, m]: two transfers."""
    count, width = words.shape
    return [
        Transfer(chooser, count, width, ring, bits if rank == chooser else None, None if rank == chooser else words)
        for chooser in (0, 1)
    ]


def private(rank: int, chooser: int, own: np.ndarray, ring: AnyRing, width: int = 1) -> Transfer:
    """Bits that the chooser knows, [n], times words that the other knows, [n, width]; `own` is what this party has."""
    mine = rank == chooser
    return Transfer(chooser, len(own), width, ring, own if mine else None, None if mine else own)


def and_each(rank: int, bits: np.ndarray, strings: np.ndarray, ring: BitRing | PackedBits = GF2) -> Making[np.ndarray]:
    """<b>, uint8[n], and <s>, [n, m] in a ring of bits -> <b s>, [n, m]."""
    if not strings.size:
        return strings
    first, second = yield crosswise(rank, bits, strings, ring)
    return bits[:, None].astype(ring.dtype) * strings ^ first ^ second


@dataclass(frozen=True)
class _Spread:
    """Bits and elements of shapes that broadcast, as rows: for each bit the elements that it multiplies."""

    bits: Shape
    elements: Shape

    @property
    def shape(self) -> Shape:
        return np.broadcast_shapes(self.bits, self.elements)

    @property
    def _axes(self) -> list[int]:
        """The axes along which the bits differ, then the others."""
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


def choose(rank: int, bits: np.ndarray, a: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """<b>, [a] -> [b a]; the shapes broadcast.

    With b_0, b_1 the shares of a bit, b a = sum_i b_i a_i + b_i (1 - 2 b_j) a_j, j the other party.
    """
    spread = _Spread(bits.shape, a.shape)
    signed = bits.astype(ring.dtype)
    own = signed * a
    theirs = spread.rows((ring.dtype.type(1) - signed - signed) * a)
    first, second = yield crosswise(rank, bits.reshape(-1), theirs, ring)
    return own + spread.back(first + second)


def choose_packed(rank: int, bits: np.ndarray, a: np.ndarray, ring: PackedIntegers) -> Making[np.ndarray]:
    """<b>, uint8[n], and [a], uint8[n, m], modulo 2^k -> [b a]; several are sent in a byte."""
    signed = bits[:, None]
    first, second = yield crosswise(rank, bits, ring.join((U8.type(1) - signed - signed) * a), ring)
    return signed * a + ring.split(ring.add(first, second), a.shape[1])


def lift(rank: int, bits: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """<b> -> [b]."""
    signed = bits.astype(ring.dtype)
    own = bits.reshape(-1) if rank == 1 else (ring.dtype.type(1) - signed - signed).reshape(-1, 1)
    (share,) = yield [private(rank, 1, own, ring)]
    return share.reshape(bits.shape) + (signed if rank == 0 else ring.dtype.type(0))


def _cross(rank: int, chooser: int | None, bits_of: np.ndarray, words: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """Sums over the bits i of b, [n], of 2^i times words [n, m]: with a chooser, b is its own and the words the
    other's; without, both parties' b and words, crosswise. Eight bits have messages of one width.
    """
    asked, per = [], 2 if chooser is None else 1
    count, width = words.shape
    for low in range(0, ring.bits, _BYTE):
        places = np.arange(min(_BYTE, ring.bits - low))
        narrow = integers(smallest_word(ring.bits - low), ring.bits - low)
        bits = (bits_of[:, None] >> (low + places).astype(bits_of.dtype) & bits_of.dtype.type(1)).astype(U8).reshape(-1)
        moved = words[:, None].astype(narrow.dtype) << places.astype(narrow.dtype)[:, None]
        moved = moved.reshape(count * places.size, width)
        if chooser is None:
            asked += crosswise(rank, bits, moved, narrow)
        else:
            asked.append(private(rank, chooser, bits if rank == chooser else moved, narrow, width))
    answers = yield asked
    total = np.zeros((count, width), ring.dtype)
    for index, share in enumerate(answers):
        low = _BYTE * (index // per)
        total += share.reshape(count, min(_BYTE, ring.bits - low), width).sum(
            axis=1, dtype=ring.dtype
        ) << ring.dtype.type(low)
    return total


def multiply(rank: int, a: np.ndarray, b: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """[a], [b] -> [a b]; the shapes broadcast. The bits of the smaller operand are the choices."""
    if b.size > a.size:
        a, b = b, a
    spread = _Spread(b.shape, a.shape)
    cross = yield from _cross(rank, None, b.reshape(-1), spread.rows(a), ring)
    return a * b + spread.back(cross)


def multiply_private(rank: int, chooser: int, own: np.ndarray, width: int, ring: Z2k) -> Making[np.ndarray]:
    """b that the chooser knows, [n], times words that the other knows, [n, width]; `own` is what this party has."""
    mine = rank == chooser
    bits_of = own if mine else np.zeros(len(own), ring.dtype)
    words = np.zeros((len(own), width), ring.dtype) if mine else own
    return (yield from _cross(rank, chooser, bits_of, words, ring))


def matmul_private(rank: int, left: int, a: np.ndarray, b: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """a [n, k] that party `left` knows, times b [k, m] that the other knows; each passes zeros for the other's matrix.
    The bits of the smaller one are the choices.
    """
    (n, k), m = a.shape, b.shape[1]
    if n > m:
        return (yield from matmul_private(rank, 1 - left, b.T, a.T, ring)).T
    own = a.reshape(-1) if rank == left else np.tile(b, (n, 1))
    products = yield from multiply_private(rank, left, own, m, ring)
    return products.reshape(n, k, m).sum(axis=1, dtype=ring.dtype)


def multiply_bits(rank: int, own: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """A bit of either party, uint8[n], that only it knows -> [their product]."""
    (share,) = yield [private(rank, 1, own if rank == 1 else own.astype(ring.dtype)[:, None], ring)]
    return share[:, 0]


def join(rank: int, words: np.ndarray, ring: Z2k) -> Making[np.ndarray]:
    """<words of bits>, [n] -> [the integers that they stand for], modulo 2^k.

    With w_0, w_1 the shares of a word, w = w_0 + sum_i 2^i b_1 (1 - 2 b_0) over their bits. Eight bits have messages of
    one width.
    """
    bits, asked = bits_of_words(words, ring.bits), []
    for low in range(0, ring.bits, _BYTE):
        own = bits[:, low : low + _BYTE]
        narrow = integers(smallest_word(ring.bits - low), ring.bits - low)
        if rank == 0:
            signed = own.astype(narrow.dtype)
            own = narrow.dtype.type(1) - signed - signed << np.arange(own.shape[1]).astype(narrow.dtype)
        asked.append(private(rank, 1, own.reshape(-1) if rank == 1 else own.reshape(-1, 1), narrow))
    total = words.astype(ring.dtype) if rank == 0 else np.zeros(len(words), ring.dtype)
    for low, share in zip(range(0, ring.bits, _BYTE), (yield asked), strict=True):
        total = total + (
            share.reshape(len(words), min(_BYTE, ring.bits - low)).sum(axis=1, dtype=ring.dtype) << ring.dtype.type(low)
        )
    return total


def bits_of_words(words: np.ndarray, count: int) -> np.ndarray:
    """The low bits of words, lowest first along a new last axis, uint8."""
    return (words[..., None] >> np.arange(count).astype(words.dtype) & words.dtype.type(1)).astype(U8)


def unpack(words: np.ndarray, count: int) -> np.ndarray:
    """Bits that lie in consecutive words, [n, w] -> uint8[n, count]."""
    data = np.ascontiguousarray(words).view(U8)
    return np.unpackbits(data, axis=1, count=count, bitorder="little")


def one_hot(rank: int, index: np.ndarray, bits: int) -> Making[np.ndarray]:
    """<i>, words [n] of which the low bits count -> <1{j = i}>, bit j of consecutive words, [n, w].

    Words are the narrowest that have room for 2^bits, or of 64 bits; what is above those bits is 0.
    """
    return (yield from _doubled(rank, np.full((len(index), 1), rank == 0, U8), bits_of_words(index, bits)))


def _doubled(rank: int, hot: np.ndarray, bits: np.ndarray) -> Making[np.ndarray]:
    """The one-hot of the lower bits of an index, uint8[n, 2^b], and <the bits above>, uint8[n, k] -> that of the index,
    as `one_hot` gives it: for each bit the string, if it is 0, followed by the string, if it is 1.
    """
    ring: BitRing | PackedBits = GF2
    for place in range(bits.shape[1]):
        if ring == GF2 and hot.shape[1] >= _BYTE:
            hot, ring = np.packbits(hot, axis=1, bitorder="little"), packed_bits(U8)
        # Nothing is sent for the first bit of all: the string is 1.
        upper = (
            bits[:, :1] if hot.shape[1] == 1 and ring == GF2 else (yield from and_each(rank, bits[:, place], hot, ring))
        )
        hot = np.concatenate([hot ^ upper, upper], axis=1)
    words = np.packbits(hot, axis=1, bitorder="little") if ring == GF2 else hot
    return np.ascontiguousarray(words).view(smallest_word(min(_BYTE * words.shape[1], 64)))


def _hot_sums(rank: int, windows: np.ndarray, bits: int) -> Making[np.ndarray]:
    """The low bits of each party's words, [n, m] -> <1{k = their sum}> for k < 2^(bits + 1), the bits of a word each.

    Party 0 begins with the one-hot of its own; every bit of party 1's shifts it or does not.
    """
    word = smallest_word(2 << bits)
    own = low_bits(windows, bits).astype(word).reshape(-1)
    hot = word.type(1) << own if rank == 0 else np.zeros_like(own)
    for place in range(bits):
        moved = hot ^ hot << word.type(1 << place)
        chosen = own >> word.type(place) & word.type(1)
        mine = moved[:, None] if rank == 0 else chosen.astype(U8)
        (share,) = yield [private(rank, 1, mine, packed_bits(word))]
        hot = hot ^ share[:, 0] if rank == 0 else hot ^ chosen * moved ^ share[:, 0]
    return hot.reshape(windows.shape)


def _carries(rank: int, made: np.ndarray, passed: np.ndarray, wanted: set[int]) -> Making[np.ndarray]:
    """Of windows from the lowest up, <it makes a carry>, <it passes one on>, uint8[n, m] -> <carry out of each>, right
    for those wanted.
    """
    count, windows = made.shape
    made, passed = made.copy(), passed.copy()
    levels = []
    for level in reversed(range((windows - 1).bit_length())):
        upper = np.array(sorted(place for place in wanted if place >> level & 1), int)
        levels.append((level, upper))
        wanted = wanted | set(_before(upper, level).tolist())
    for level, upper in reversed(levels):
        ends, inner = upper[upper >> level == 1], upper[upper >> level > 1]
        before = _before(inner, level)
        both = np.stack([made[:, before], passed[:, before]], axis=-1)
        sums, pairs = yield from together(
            and_each(rank, passed[:, ends].reshape(-1), made[:, _before(ends, level)].reshape(-1, 1)),
            and_each(rank, passed[:, inner].reshape(-1), both.reshape(-1, 2)),
        )
        made[:, ends] ^= sums.reshape(count, ends.size)
        pairs = pairs.reshape(count, inner.size, 2)
        made[:, inner] ^= pairs[..., 0]
        passed[:, inner] = pairs[..., 1]
    return made


def _before(places: np.ndarray, level: int) -> np.ndarray:
    """The last window of the block of 2^level windows that comes before each one's."""
    return (places >> level << level) - 1


def _parts(width: int, most: int) -> list[int]:
    """A window of so many bits as parts of at most so many, lowest first."""
    count = -(-width // most)
    return [(width + i) // count for i in reversed(range(count))]


def _joined(rank: int, hots: list[np.ndarray], widths: list[int]) -> Making[np.ndarray]:
    """The one-hots of a window's parts, [n, 1] -> that of the window."""
    if len(hots) == 1:
        return hots[0]
    bits = [_bits_of_hot(hot[:, 0], width) for hot, width in zip(hots[1:], widths[1:], strict=True)]
    return (yield from _doubled(rank, unpack(hots[0], 1 << widths[0]), np.concatenate(bits, axis=1)))


def _bits_of_hot(hots: np.ndarray, width: int) -> np.ndarray:
    """<1{k = i}> in words [n] -> <the bits of i>, uint8[n, width]. Local."""
    ones = [sum(1 << k for k in range(1 << width) if k >> place & 1) for place in range(width)]
    return np.stack([parity(hots & hots.dtype.type(mask)) for mask in ones], axis=1)


def one_hots(rank: int, x: np.ndarray, widths: Sequence[int], hot: int) -> Making[tuple[list[np.ndarray], np.ndarray]]:
    """[x], words [n], cut into windows of these widths from bit 0 up -> the one-hots of the first `hot` of them, as
    `one_hot` gives them, and <the carries of the shares' sum out of all of them>, uint8[n, windows].
    """
    parts = [_parts(width, _HOT_BITS if j < hot else _CARRY_BITS) for j, width in enumerate(widths)]
    flat = np.array([width for several in parts for width in several])
    ends = np.cumsum([len(several) for several in parts])
    cut = x[:, None] >> (np.cumsum(flat) - flat).astype(x.dtype)
    columns = {width: np.flatnonzero(flat == width) for width in np.unique(flat).tolist()}
    every = yield from together(*(_hot_sums(rank, cut[:, these], width) for width, these in columns.items()))
    made, passed = (np.empty(cut.shape, U8) for _ in range(2))
    for (width, these), sums in zip(columns.items(), every, strict=True):
        made[:, these] = parity(sums >> sums.dtype.type(1 << width))
        passed[:, these] = sums >> sums.dtype.type((1 << width) - 1) & sums.dtype.type(1)
    last = int(ends[hot - 1]) if hot else 0
    carries = yield from _carries(rank, made, passed, {*range(last - 1), *(ends - 1).tolist()})
    found: dict[int, np.ndarray] = {}
    turning = []
    for (width, these), sums in zip(columns.items(), every, strict=True):
        hots = _folded(sums, width)
        found |= {column: hots[:, [i]] for i, column in enumerate(these.tolist())}
        # The lowest window gets no carry.
        above_first = (these > 0) & (these < last)
        turning.append((width, these[above_first], hots[:, above_first]))
    turned = yield from together(*(_with_carry(rank, hots, carries[:, of - 1], width) for width, of, hots in turning))
    for (_, these, _), hots in zip(turning, turned, strict=True):
        found |= {column: hots[:, [i]] for i, column in enumerate(these.tolist())}
    joined = yield from together(
        *(
            _joined(rank, [found[column] for column in range(end - len(several), end)], several)
            for end, several in zip(ends[:hot], parts[:hot], strict=True)
        )
    )
    return joined, carries[:, ends - 1]


def _folded(sums: np.ndarray, width: int) -> np.ndarray:
    """<1{k = sum}> for k < 2^(width + 1) -> <1{k = sum modulo 2^width}>. Local."""
    word, size = smallest_word(1 << width), 1 << width
    return low_bits((sums ^ sums >> sums.dtype.type(size)).astype(word), size)


def _with_carry(rank: int, hots: np.ndarray, carries: np.ndarray, width: int) -> Making[np.ndarray]:
    """<1{k = window}> and <carries>, [n, m] -> <1{k = window and carry, modulo 2^width}>."""
    word, size = hots.dtype, 1 << width
    moved = hots ^ low_bits(hots << word.type(1) | hots >> word.type(size - 1), size)
    change = yield from and_each(rank, carries.reshape(-1), moved.reshape(-1, 1), packed_bits(word))
    return hots ^ change.reshape(hots.shape)


def parity(words: np.ndarray) -> np.ndarray:
    """Whether an odd number of bits is 1, uint8."""
    shift = 4 * words.dtype.itemsize
    while shift:
        words = words ^ words >> words.dtype.type(shift)
        shift //= 2
    return (words & words.dtype.type(1)).astype(U8)


def above(hot: np.ndarray) -> np.ndarray:
    """<1{j = i}> -> <1{i > j}>, both bits j of consecutive words, [n, w]. Local."""
    sums, shift = hot, 1
    while shift < 8 * hot.itemsize:
        sums = sums ^ sums >> hot.dtype.type(shift)
        shift *= 2
    parities = sums & hot.dtype.type(1)
    higher = np.bitwise_xor.accumulate(parities[:, ::-1], axis=1)[:, ::-1] ^ parities
    return sums ^ hot ^ np.zeros_like(higher) - higher


def subset_products(rank: int, bits: np.ndarray) -> Making[np.ndarray]:
    """<bits>, uint8[n, k] -> <their product over each subset>, uint8[n, 2^k], numbered by its bits."""
    products = np.full((len(bits), 1), rank == 0, U8)
    for place in range(bits.shape[1]):
        also = bits[:, :1]
        if place:
            also = yield from and_each(rank, bits[:, place], products)
        products = np.concatenate([products, also], axis=1)
    return products


def and_bits(rank: int, x: np.ndarray, y: np.ndarray, ring: BitRing | PackedBits) -> Making[np.ndarray]:
    """<x>, <y> in a ring of bits -> <x and y>; the shapes broadcast. Where each bit of x meets many of y, or the other
    way round, these are one string.
    """
    if isinstance(ring, PackedBits):
        bits = [np.unpackbits(np.ascontiguousarray(w).view(U8).reshape(-1), bitorder="little") for w in (x, y)]
        product = yield from and_each(rank, bits[0], bits[1][:, None])
        return np.packbits(product.reshape(-1), bitorder="little").view(x.dtype).reshape(x.shape)
    if x.size > y.size:
        x, y = y, x
    spread = _Spread(x.shape, y.shape)
    return spread.back((yield from and_each(rank, x.reshape(-1), spread.rows(y))))
