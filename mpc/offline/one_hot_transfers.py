"""One-hot vectors and carries of values that two parties share, by transfers (mpc/offline/transfers.py).

one_hot        <i> of b bits -> <1{j = i}>, 2^b bits                       2 b - 2 transfers, of 2, 4 .. 2^(b - 1) bits
one_hots       [x] modulo 2^k -> one-hots of its windows, carries          k transfers of up to 32 bits, some per window
subset_products  <k bits> -> <the product over each subset>                2 k transfers of up to 2^(k - 1) bits

Security       semi-honest, as the transfers: nothing else is sent
Source         strings of bits: Demmler et al. (ABY), NDSS 2015; carries: Sklansky, IRE Transactions 1960
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.offline.transfers import OfflineSteps, and_each, bits_of_words, private, unpack
from mpc.rings import GF2, BitRing, PackedBits, packed_bits
from mpc.rounds import parallel
from mpc.words import U8, low_bits, smallest_word

_BYTE = 8
# Widest windows whose one-hots, or only whose carries, are made by shifts.
_HOT_BITS, _CARRY_BITS = 4, 3


def one_hot(rank: int, index: np.ndarray, bits: int) -> OfflineSteps[np.ndarray]:
    """<i>, the low bits of words [n] -> <1{j = i}>, bit j of consecutive words, [n, w].

    Words are the narrowest that hold 2^bits bits, or have 64 bits; unused bits are 0.
    """
    return (yield from _doubled(rank, np.full((len(index), 1), rank == 0, U8), bits_of_words(index, bits)))


def _doubled(rank: int, hot: np.ndarray, bits: np.ndarray) -> OfflineSteps[np.ndarray]:
    """One-hot of an index's lower bits, uint8[n, 2^b], and <the bits above>, uint8[n, k] -> one-hot of the index.

    Each bit doubles the string: its first half is the string where the bit is 0, its second half where it is 1.
    """
    ring: BitRing | PackedBits = GF2
    for place in range(bits.shape[1]):
        if ring == GF2 and hot.shape[1] >= _BYTE:
            hot, ring = np.packbits(hot, axis=1, bitorder="little"), packed_bits(U8)
        # The very first bit needs no transfer: the string is 1.
        upper = (
            bits[:, :1] if hot.shape[1] == 1 and ring == GF2 else (yield from and_each(rank, bits[:, place], hot, ring))
        )
        hot = np.concatenate([hot ^ upper, upper], axis=1)
    words = np.packbits(hot, axis=1, bitorder="little") if ring == GF2 else hot
    return np.ascontiguousarray(words).view(smallest_word(min(_BYTE * words.shape[1], 64)))


def _hot_sums(rank: int, windows: np.ndarray, bits: int) -> OfflineSteps[np.ndarray]:
    """The low bits of each party's words, [n, m] -> <1{k = their sum}> for k < 2^(bits + 1), in one word each.

    Party 0 starts with the one-hot of its own value; each bit of party 1's value shifts it or leaves it in place.
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


def _carries(rank: int, made: np.ndarray, passed: np.ndarray, wanted: set[int]) -> OfflineSteps[np.ndarray]:
    """<generates a carry>, <propagates a carry> of windows from the lowest up, uint8[n, m] -> <carries out of them>.

    Only the wanted carries are right.
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
        sums, pairs = yield from parallel(
            and_each(rank, passed[:, ends].reshape(-1), made[:, _before(ends, level)].reshape(-1, 1)),
            and_each(rank, passed[:, inner].reshape(-1), both.reshape(-1, 2)),
        )
        made[:, ends] ^= sums.reshape(count, ends.size)
        pairs = pairs.reshape(count, inner.size, 2)
        made[:, inner] ^= pairs[..., 0]
        passed[:, inner] = pairs[..., 1]
    return made


def _before(places: np.ndarray, level: int) -> np.ndarray:
    """Return, for each window, the last window of the block of 2^level windows before its own."""
    return (places >> level << level) - 1


def _parts(width: int, most: int) -> list[int]:
    """Split a window of `width` bits into parts of at most `most` bits, lowest first."""
    count = -(-width // most)
    return [(width + i) // count for i in reversed(range(count))]


def _joined(rank: int, hots: list[np.ndarray], widths: list[int]) -> OfflineSteps[np.ndarray]:
    """The one-hots of a window's parts, [n, 1] -> the one-hot of the window."""
    if len(hots) == 1:
        return hots[0]
    bits = [_bits_of_hot(hot[:, 0], width) for hot, width in zip(hots[1:], widths[1:], strict=True)]
    return (yield from _doubled(rank, unpack(hots[0], 1 << widths[0]), np.concatenate(bits, axis=1)))


def _bits_of_hot(hots: np.ndarray, width: int) -> np.ndarray:
    """<1{k = i}> in words [n] -> <the bits of i>, uint8[n, width]. Local."""
    ones = [sum(1 << k for k in range(1 << width) if k >> place & 1) for place in range(width)]
    return np.stack([parity(hots & hots.dtype.type(mask)) for mask in ones], axis=1)


def one_hots(
    rank: int, x: np.ndarray, widths: Sequence[int], hot: int
) -> OfflineSteps[tuple[list[np.ndarray], np.ndarray]]:
    """[x], words [n], cut into windows of these widths from bit 0 up -> one-hots of the first `hot`, and <carries>.

    The one-hots are as `one_hot` returns them; the carries are those of the shares' sum out of every window, uint8[n,
    windows].
    """
    parts = [_parts(width, _HOT_BITS if j < hot else _CARRY_BITS) for j, width in enumerate(widths)]
    flat = np.array([width for several in parts for width in several])
    ends = np.cumsum([len(several) for several in parts])
    cut = x[:, None] >> (np.cumsum(flat) - flat).astype(x.dtype)
    columns = {width: np.flatnonzero(flat == width) for width in np.unique(flat).tolist()}
    every = yield from parallel(*(_hot_sums(rank, cut[:, these], width) for width, these in columns.items()))
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
        # The lowest window has no carry in.
        above_first = (these > 0) & (these < last)
        turning.append((width, these[above_first], hots[:, above_first]))
    turned = yield from parallel(*(_with_carry(rank, hots, carries[:, of - 1], width) for width, of, hots in turning))
    for (_, these, _), hots in zip(turning, turned, strict=True):
        found |= {column: hots[:, [i]] for i, column in enumerate(these.tolist())}
    joined = yield from parallel(
        *(
            _joined(rank, [found[column] for column in range(end - len(several), end)], several)
            for end, several in zip(ends[:hot], parts[:hot], strict=True)
        )
    )
    return list(joined), carries[:, ends - 1]


def _folded(sums: np.ndarray, width: int) -> np.ndarray:
    """<1{k = sum}> for k < 2^(width + 1) -> <1{k = sum modulo 2^width}>. Local."""
    word, size = smallest_word(1 << width), 1 << width
    return low_bits((sums ^ sums >> sums.dtype.type(size)).astype(word), size)


def _with_carry(rank: int, hots: np.ndarray, carries: np.ndarray, width: int) -> OfflineSteps[np.ndarray]:
    """<1{k = window}> and <carries>, [n, m] -> <1{k = window and carry, modulo 2^width}>."""
    word, size = hots.dtype, 1 << width
    moved = hots ^ low_bits(hots << word.type(1) | hots >> word.type(size - 1), size)
    change = yield from and_each(rank, carries.reshape(-1), moved.reshape(-1, 1), packed_bits(word))
    return hots ^ change.reshape(hots.shape)


def parity(words: np.ndarray) -> np.ndarray:
    """Return 1 if an odd number of bits is 1, else 0, uint8."""
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


def subset_products(rank: int, bits: np.ndarray) -> OfflineSteps[np.ndarray]:
    """<bits>, uint8[n, k] -> <their product over each subset>, uint8[n, 2^k], numbered by its bits."""
    products = np.full((len(bits), 1), rank == 0, U8)
    for place in range(bits.shape[1]):
        also = bits[:, :1]
        if place:
            also = yield from and_each(rank, bits[:, place], products)
        products = np.concatenate([products, also], axis=1)
    return products
