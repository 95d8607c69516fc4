"""Keys of the distributed comparison function f(x) = beta 1{x < alpha}, level by level over many keys at once.

A key of L levels is the party's root seed and, for every level, values that both parties hold: a correction of the
seed, uint64[2], control bits (bit 0 left, bit 1 right, bit 2 the correction of a one-bit payload), and, for a payload
of ring words, their correction. Arrays are [L, n, ..], so that one level of all keys is contiguous.

Source     Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar and Rathee, EUROCRYPT 2021, figure 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from mpc.kernels import aes

SEEDS = (0, 1)
SEEDS_AND_VALUES = (0, 1, 2, 3)
CONTROL, VALUE = np.uint64(1), np.uint64(2)


@dataclass(frozen=True)
class Keys:
    """The part of n keys that both parties hold: seeds [L, n, 2], control [L, n], values [L, n, w], last [n, w].

    w = 0 stands for a payload of the bit 1, shared by xor: its corrections are in `control`, the last one in [L].
    """

    seeds: np.ndarray
    control: np.ndarray
    values: np.ndarray
    last: np.ndarray


@numba.njit(cache=True, nogil=True)
def _generate_level(
    first: np.ndarray,
    second: np.ndarray,
    seeds: np.ndarray,
    bits: np.ndarray,
    alpha: np.ndarray,
    total: np.ndarray,
    beta: np.ndarray,
    correction: np.ndarray,
    control: np.ndarray,
    values: np.ndarray,
    one_bit: bool,
) -> None:
    """Descend one level. first, second: children [n, 2 or 4, 2]; seeds [2, n, 2] and bits [2, n] are overwritten.

    Written are correction [n, 2], control [n] and values [n, w].
    """
    n, width = alpha.size, beta.shape[1]
    one = np.uint64(1)
    clear = ~(CONTROL | VALUE)
    for i in range(n):
        keep = int(alpha[i])
        lose = 1 - keep
        correction[i, 0] = (first[i, lose, 0] ^ second[i, lose, 0]) & clear
        correction[i, 1] = first[i, lose, 1] ^ second[i, lose, 1]
        left = (first[i, 0, 0] ^ second[i, 0, 0] ^ alpha[i] ^ one) & one
        right = (first[i, 1, 0] ^ second[i, 1, 0] ^ alpha[i]) & one
        word = left | right << one
        if one_bit:
            lost = (first[i, lose, 0] ^ second[i, lose, 0]) >> one & one
            kept = (first[i, keep, 0] ^ second[i, keep, 0]) >> one & one
            value = lost ^ total[i, 0] ^ np.uint64(keep)
            total[i, 0] ^= kept ^ value
            word |= value << np.uint64(2)
        control[i] = word
        for w in range(width):
            value = second[i, 2 + lose, w] - first[i, 2 + lose, w] - total[i, w]
            if keep == 1:
                value += beta[i, w]
            if bits[1, i] == 1:
                value = -value
            values[i, w] = value
            total[i, w] += first[i, 2 + keep, w] - second[i, 2 + keep, w]
            total[i, w] += -value if bits[1, i] == 1 else value
        kept_control = left if keep == 0 else right
        for p in range(2):
            child = first[i, keep] if p == 0 else second[i, keep]
            on = bits[p, i] == 1
            bits[p, i] = (child[0] & one) ^ (kept_control if on else np.uint64(0))
            seeds[p, i, 0] = (child[0] & clear) ^ (correction[i, 0] if on else np.uint64(0))
            seeds[p, i, 1] = child[1] ^ (correction[i, 1] if on else np.uint64(0))


@numba.njit(cache=True, nogil=True)
def _evaluate_level(
    children: np.ndarray,
    seeds: np.ndarray,
    bits: np.ndarray,
    x: np.ndarray,
    total: np.ndarray,
    correction: np.ndarray,
    control: np.ndarray,
    values: np.ndarray,
    owner: int,
    one_bit: bool,
) -> None:
    """Descend one level at the public bits x [n, t]; seeds [n, t, 2], bits [n, t], total [n, t, w] are overwritten."""
    n, count = x.shape
    one = np.uint64(1)
    clear = ~(CONTROL | VALUE)
    for i in range(n):
        for j in range(count):
            k = i * count + j
            side = int(x[i, j])
            on = bits[i, j] == 1
            low = children[k, side, 0]
            word = np.uint64(control[i])
            if one_bit:
                bit = low >> one & one
                if on:
                    bit ^= word >> np.uint64(2) & one
                total[i, j, 0] ^= bit
            for w in range(values.shape[1]):
                value = children[k, 2 + side, w]
                if on:
                    value += values[i, w]
                total[i, j, w] += value if owner == 0 else -value
            seeds[i, j, 0] = (low & clear) ^ (correction[i, 0] if on else np.uint64(0))
            seeds[i, j, 1] = children[k, side, 1] ^ (correction[i, 1] if on else np.uint64(0))
            bits[i, j] = (low & one) ^ (word >> np.uint64(side) & one if on else np.uint64(0))


@numba.njit(cache=True, nogil=True)
def _generate_levels(
    seeds: np.ndarray,
    on: np.ndarray,
    alpha: np.ndarray,
    total: np.ndarray,
    beta: np.ndarray,
    tweaks: np.ndarray,
    schedule: np.ndarray,
    corrections: np.ndarray,
    control: np.ndarray,
    values: np.ndarray,
) -> None:
    """Descend all levels: corrections [L, n, 2], control [L, n] and values [L, n, w] are written."""
    bits = control.shape[0]
    for level in range(bits):
        first = aes.hash_all(seeds[0], tweaks, schedule)
        second = aes.hash_all(seeds[1], tweaks, schedule)
        digit = alpha >> np.uint64(bits - 1 - level) & np.uint64(1)
        written = corrections[level], control[level], values[level]
        _generate_level(first, second, seeds, on, digit, total, beta, *written, values.shape[2] == 0)


@numba.njit(cache=True, nogil=True)
def _evaluate_levels(
    seeds: np.ndarray,
    on: np.ndarray,
    x: np.ndarray,
    total: np.ndarray,
    tweaks: np.ndarray,
    schedule: np.ndarray,
    corrections: np.ndarray,
    control: np.ndarray,
    values: np.ndarray,
    owner: int,
) -> None:
    """Descend all levels at the public words x [n, t]; arguments are otherwise those of `_evaluate_level`."""
    bits = control.shape[0]
    for level in range(bits):
        children = aes.hash_all(seeds.reshape(-1, 2), tweaks, schedule)
        digit = x >> np.uint64(bits - 1 - level) & np.uint64(1)
        _evaluate_level(
            children,
            seeds,
            on,
            digit,
            total,
            corrections[level],
            control[level],
            values[level],
            owner,
            values.shape[2] == 0,
        )


def _last_bit(seeds: np.ndarray) -> np.ndarray:
    """Return the last seed as a one-bit payload."""
    return seeds[..., :1] >> np.uint64(2) & np.uint64(1)


def _last_words(seeds: np.ndarray, width: int) -> np.ndarray:
    """Return the last seed as payload words, two at most."""
    return seeds[..., :width]


def generate(roots: np.ndarray, alpha: np.ndarray, beta: np.ndarray, bits: int, key: bytes) -> Keys:
    """roots uint64[2, n, 2], alpha uint64[n] below 2^bits, beta uint64[n, w] (w = 0: the bit 1) -> Keys."""
    n, width = beta.shape
    one_bit = width == 0
    seeds = roots.copy()
    seeds[:, :, 0] &= ~(CONTROL | VALUE)
    on = np.stack([np.zeros(n, np.uint64), np.ones(n, np.uint64)])
    total = np.zeros((n, max(1, width)), np.uint64)
    tweaks = SEEDS if one_bit else SEEDS_AND_VALUES
    corrections, control = np.empty((bits, n, 2), np.uint64), np.empty((bits, n), np.uint8)
    values = np.empty((bits, n, width), np.uint64)
    if aes.HAS_AES_NI:
        given = np.array(tweaks, np.uint64), aes.round_keys(key)
        _generate_levels(seeds, on, alpha, total, beta, *given, corrections, control, values)
    else:
        for level in range(bits):
            children = [aes.expand(seeds[p], tweaks, key) for p in (0, 1)]
            digit = alpha >> np.uint64(bits - 1 - level) & np.uint64(1)
            written = corrections[level], control[level], values[level]
            _generate_level(children[0], children[1], seeds, on, digit, total, beta, *written, one_bit)
    if one_bit:
        last = (_last_bit(seeds[0]) ^ _last_bit(seeds[1])) ^ total
    else:
        last = _last_words(seeds[1], width) - _last_words(seeds[0], width) - total
        last = np.where(on[1][:, None] == 1, np.uint64(0) - last, last)
    return Keys(corrections, control, values, last)


def evaluate(owner: int, root: np.ndarray, keys: Keys, x: np.ndarray, key: bytes) -> np.ndarray:
    """root uint64[n, 2], x uint64[n, t] -> shares of f(x): words uint64[n, t, w], or for w = 0 bits uint64[n, t, 1]."""
    bits, n = keys.control.shape
    width = keys.values.shape[2]
    count = x.shape[1]
    one_bit = width == 0
    seeds = np.repeat(root[:, None, :], count, axis=1)
    seeds[:, :, 0] &= ~(CONTROL | VALUE)
    on = np.full((n, count), owner, np.uint64)
    total = np.zeros((n, count, max(1, width)), np.uint64)
    tweaks = SEEDS if one_bit else SEEDS_AND_VALUES
    if aes.HAS_AES_NI:
        given = np.array(tweaks, np.uint64), aes.round_keys(key)
        _evaluate_levels(seeds, on, x, total, *given, keys.seeds, keys.control, keys.values, owner)
    else:
        for level in range(bits):
            children = aes.expand(seeds.reshape(-1, 2), tweaks, key)
            digit = x >> np.uint64(bits - 1 - level) & np.uint64(1)
            corrections = keys.seeds[level], keys.control[level], keys.values[level]
            _evaluate_level(children, seeds, on, digit, total, *corrections, owner, one_bit)
    if one_bit:
        return total ^ _last_bit(seeds) ^ (on[:, :, None] & keys.last[:, None])
    end = _last_words(seeds, width) + np.where(on[:, :, None] == 1, keys.last[:, None], np.uint64(0))
    return total + end if owner == 0 else total - end
