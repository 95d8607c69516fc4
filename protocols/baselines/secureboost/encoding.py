"""g and h as fixed-point integers, and integers as plaintexts: one pair per plaintext, or several.

A pair (G, H) is the signed integer G 2^s + H with |G|, |H| < 2^(s-1). A packed sum has pair j at bit 2 s j. s is a
whole number of bytes and depends only on the number of rows, and on whether sums have noise.

Source  Chen et al., SecureBoost+, arXiv 2110.10927 (2021): GH packing and cipher compressing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.errors import RangeError

FRACTION_BITS = 24
# The largest standard deviation of noise, in units of a row's largest g or h (noise.py); noise is at most 16 of them.
LARGEST_DEVIATION = 2.0**16
NOISE_ROWS = 1 << 20


@dataclass(frozen=True)
class Derivatives:
    """One tree's g and h, int64[n] each, in units of 1/g_scale and 1/h_scale; at most 2^24 in magnitude."""

    g: np.ndarray
    h: np.ndarray
    g_scale: float
    h_scale: float


def fixed_point(g: np.ndarray, h: np.ndarray) -> Derivatives:
    """float64[n] each, h >= 0 -> Derivatives, rounded to nearest: the error per row is 2^-25 of the largest value.

    Each is scaled by the power of two that brings its largest absolute value between 1/2 and 1.
    """
    g_scale, h_scale = (2.0 ** (FRACTION_BITS - _exponent(np.abs(part).max())) for part in (g, h))
    return Derivatives(np.rint(g * g_scale).astype(np.int64), np.rint(h * h_scale).astype(np.int64), g_scale, h_scale)


def _exponent(largest: float) -> int:
    """Return the least e >= -64 with largest <= 2^e."""
    return max(-64, int(np.ceil(np.log2(largest)))) if largest else 0


@dataclass(frozen=True)
class CiphertextLayout:
    """The bytes s/8 of a number, and the number of pairs per ciphertext of sums."""

    number_bytes: int
    pairs: int

    @classmethod
    def plan(cls, rows: int, plaintext_bits: int, noisy: bool = False) -> CiphertextLayout:
        """Plan for sums over `rows` rows and noise of LARGEST_DEVIATION. Raises RangeError if they might not fit."""
        bits = FRACTION_BITS + (rows + NOISE_ROWS * noisy).bit_length() + 1
        if bits > 56:
            raise RangeError(f"{rows} rows are too many for sums of 56 bits")
        number_bytes = -(-bits // 8)
        # One bit is for the sign of the plaintext.
        return cls(number_bytes, (plaintext_bits - 1) // (16 * number_bytes))

    @property
    def pair_bits(self) -> int:
        return 16 * self.number_bytes

    def join(self, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        """int64[n] each -> plaintexts, Python integers in an object[n]."""
        return (g.astype(object) << (8 * self.number_bytes)) + h

    def split(self, plaintexts: np.ndarray) -> np.ndarray:
        """Packed sums, object[m] -> int64[pairs, m, 2], the pairs' G and H."""
        half = 1 << (8 * self.number_bytes - 1)
        # Add `half` to each number, so that none is negative and none borrows from the next.
        offset = sum(half << (j * 8 * self.number_bytes) for j in range(2 * self.pairs))
        size = self.pairs * self.pair_bits // 8
        try:
            raw = b"".join((int(value) + offset).to_bytes(size, "little") for value in plaintexts)
        except OverflowError:
            raise RangeError("a decrypted sum is out of its range") from None
        digits = np.frombuffer(raw, np.uint8).reshape(len(plaintexts), self.pairs, 2, self.number_bytes)
        words = np.zeros((*digits.shape[:3], 8), np.uint8)
        words[..., : self.number_bytes] = digits
        sums = words.view("<i8")[..., 0].transpose(1, 0, 2)[..., ::-1].copy()
        return sums - half
