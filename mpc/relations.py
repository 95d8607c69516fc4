"""Relations between dealt values, which a party and a dealer check to see that the values are right.

A recipe states relations between the shares of its value and fields: sums that are zero, and products. They hold if and
only if the value is what the recipe specifies. A party collects them on its shares; the dealer does so for both
parties, and adds up. A bit that is shared by xor is held in a byte; words shared in Z_2^k are multiplied by 2^(64 - k),
and taken modulo 2^64.

    zero          sums that are zero: both parties compare digests of their parts
    conjunctions  u v = w for bits
    products      u_1 v_1 + .. + u_m v_m = w modulo 2^64
    one_hots      rows of bits with exactly one 1

Consider the sum of two numbers, each known to one party: each carry follows from the previous one by one conjunction.
So numbers in Z_2^k can be compared with bits that are shared by xor: a carry is the xor of three bits, one of the sum
and one of each number.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from mpc.ring import U8, U64
from mpc.rings import AnyRing, Z2k

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def bits_of(words: np.ndarray, count: int) -> np.ndarray:
    """The low bits of words, lowest first along a new last axis, uint8."""
    return (words[..., None] >> np.arange(count).astype(words.dtype)).astype(U8) & U8.type(1)


def unpacked(words: np.ndarray) -> np.ndarray:
    """Packed words, [.., k] -> their bits, lowest first, uint8[.., k times the width of a word]."""
    data = np.ascontiguousarray(words).view(U8)
    return np.unpackbits(data, axis=-1, bitorder="little")


@dataclass
class Relations:
    """The relations of one party's shares, over many requests."""

    rank: int
    conjunctions: list[Triple] = field(default_factory=list)
    products: list[Triple] = field(default_factory=list)
    one_hots: list[np.ndarray] = field(default_factory=list)
    zeros: int = 0

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256()

    @property
    def first(self) -> bool:
        """Whether this party adds public values."""
        return self.rank == 0

    def digest(self) -> bytes:
        """Return the digest of this party's part of the zeros; both parties' digests agree if the sums are zero."""
        return self._digest.digest()

    def zero(self, words: np.ndarray, ring: AnyRing) -> None:
        """Require that shares sum to zero."""
        if isinstance(ring, Z2k):
            words = (words if self.first else np.zeros_like(words) - words).astype(U64) << U64.type(64 - ring.bits)
        self.zeros += words.size
        self._digest.update(repr(words.shape).encode())
        self._digest.update(np.ascontiguousarray(words).tobytes())

    def zero_bits(self, bits: np.ndarray) -> None:
        """Require that bits, uint8, are zero."""
        self.zeros += bits.size
        self._digest.update(repr(bits.shape).encode())
        self._digest.update(np.packbits(bits).tobytes())

    def conjunction(self, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> None:
        """Require u and v = w, for bits, uint8, that broadcast."""
        shape = w.shape
        self.conjunctions.append(tuple(np.broadcast_to(x, shape).reshape(-1) for x in (u, v, w)))  # type: ignore[arg-type]

    def product(self, ring: Z2k, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> None:
        """Require that u v, summed along the last axis, is w, modulo 2^k; u and v broadcast."""
        up = U64.type(64 - ring.bits)
        u, v = np.broadcast_arrays(u, v)
        u, v = (x.reshape(-1, x.shape[-1]).astype(U64) for x in (u, v))
        self.products.append((u << up, v, w.reshape(-1).astype(U64) << up))

    def one_hot(self, hot: np.ndarray) -> np.ndarray:
        """Require that each row of [n, 2^b] bits has exactly one 1; return the bits of its place, [n, b]."""
        self.zero_bits(hot.sum(axis=1, dtype=U8) & U8.type(1) ^ U8.type(self.first))
        self.one_hots.append(hot)
        places = bits_of(np.arange(hot.shape[1]), hot.shape[1].bit_length() - 1)
        return np.stack([hot[:, place == 1].sum(axis=1, dtype=U8) & U8.type(1) for place in places.T], axis=1)

    def number(self, words: np.ndarray, bits: np.ndarray) -> None:
        """Require that numbers shared in Z_2^k, [n], have these k bits, [n, k]."""
        own = bits_of(words, bits.shape[1])
        carries = bits ^ own
        self.zero_bits(carries[:, 0])
        before, mine = carries[:, :-1], carries[:, :-1] ^ own[:, :-1]
        self.conjunction(*((mine, before) if self.first else (before, mine)), before ^ carries[:, 1:])

    def bit(self, ring: Z2k, words: np.ndarray, bits: np.ndarray) -> None:
        """Require that words shared in a ring are these bits."""
        padded = np.zeros((bits.size, ring.bits), U8)
        padded[:, 0] = bits.reshape(-1)
        self.number(words.reshape(-1), padded)
