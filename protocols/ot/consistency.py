"""A check that correlated transfers are what the protocol says, at the party whose peer may have deviated.

Functionality  sender: delta, blocks q_i; receiver: bits c_i, blocks t_i -> the verifier: whether t = q xor c delta
Messages       the sender may have lied in what makes blocks (Ferret, trees of seeds); the receiver verifies:
                   receiver -> sender: a coin, x = h(c); sender -> receiver: SHA-256 of h(q) + x delta (two rounds)
               the receiver may have lied in what makes bit planes (SoftSpoken); the sender verifies:
                   sender -> receiver: a coin; receiver -> sender: h(t_l) of each plane l              (two rounds)
Cost           56, or 1,040 bytes; 64 transfers, which are not used otherwise; one product over GF(2^64) per word
Security       h is linear over GF(2^64), and its factors are drawn after the messages that it checks, so that two
               vectors that differ have the same hash with probability 2^-63. If what the verifier made depends on its
               secrets, so does its hash, and the liar passes only if it guesses them all. The 64 transfers have fixed
               factors, so that x, or the hash of the bits' plane, is uniform. All else that is sent follows from it and
               what the other party has, except for a digest that can be tested against guesses of the whole delta
How            h over places i = p m + j: factor a_j b_p, with words a, b of SHAKE-128 of the coin. Blocks are hashed as
               two words, and delta times c likewise; planes each by themselves, since a liar in SoftSpoken chooses
               which of delta's bits meet
Source         sums with random factors: Keller, Orsini and Scholl, CRYPTO 2015; over small fields: Roy, CRYPTO 2022; of
               blocks: Yang, Weng, Lan, Zhang and Wang, CCS 2020
"""

from __future__ import annotations

import hashlib
import os

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.words import U8, U64
from protocols.ot.kernels.carryless import fold_bits, fold_blocks, fold_planes, multiply_plainly

# The transfers that a check uses up, and the words of its messages.
TAKEN = 64
COIN, CHALLENGE, ANSWER, PLANES = 2, 3, 4, 128
# Blocks that share a second factor.
_PART = 2048
_POWERS = U64.type(1) << np.arange(TAKEN, dtype=U64)


def batches(count: int, size: int) -> int:
    """Return how many batches of this size make at least `count` transfers besides those that a check uses up."""
    return -(-(count + TAKEN) // size)


def draw_coin() -> np.ndarray:
    """Draw a coin, uint64[2], which is secret until everything that it checks has come."""
    return np.frombuffer(os.urandom(8 * COIN), U64)


class BlockHash:
    """The hash of blocks that come in pieces, and of their bits."""

    def __init__(self, coin: np.ndarray) -> None:
        self._coin, self._pieces = coin, 0
        self._factors = _words(coin, "places", _PART)
        self._blocks, self._bits = np.zeros(2, U64), U64.type(0)

    def add(self, blocks: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Add blocks, uint64[n, 2], and at the receiver their bits, uint8[n]."""
        of_parts = _words(self._coin, f"parts of {self._pieces}", -(-len(blocks) // _PART))
        self._pieces += 1
        self._blocks ^= fold_planes(fold_blocks(blocks, self._factors), of_parts)
        if bits is not None:
            self._bits ^= fold_planes(fold_bits(bits, self._factors)[None], of_parts)[0]

    def add_last(self, blocks: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Add the blocks that are used up, uint64[64, 2], and at the receiver their bits."""
        self._blocks ^= fold_blocks(blocks, _POWERS)[:, 0]
        if bits is not None:
            self._bits ^= fold_bits(bits, _POWERS)[0]

    def challenge(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the receiver's challenge, uint64[3], and the answer of an honest sender, uint64[4]."""
        return np.append(self._coin, self._bits), _digest(self._blocks)

    def answer(self, x: np.uint64, delta: np.ndarray) -> np.ndarray:
        """Return the sender's answer, uint64[4]."""
        return _digest(self._blocks ^ multiply_plainly(delta, np.array([x], U64)))


class PlaneHash:
    """The hash of 128 bit planes that come in batches of the same width; the last word's factor is 1."""

    def __init__(self, coin: np.ndarray, batches: int, width: int) -> None:
        self._factors, self._of_batches = _words(coin, "words", width), _words(coin, "batches", batches)
        self._sums, self._done = np.empty((PLANES, batches), U64), 0

    def add(self, planes: np.ndarray) -> None:
        """Add the next planes, uint64[128, width]."""
        last = self._done == len(self._of_batches) - 1
        factors = np.append(self._factors[:-1], U64.type(0)) if last else self._factors
        self._sums[:, self._done] = fold_planes(planes, factors)
        self._done += 1
        if last:
            self._last = planes[:, -1].copy()

    def value(self) -> np.ndarray:
        """Return the hash of each plane, uint64[128]."""
        return fold_planes(self._sums, self._of_batches) ^ self._last


def agree(told: np.ndarray, own: np.ndarray, delta: np.ndarray) -> bool:
    """Return whether the receiver's hashes of planes, uint64[128], are those of the sender's plus delta's bits times
    that of the bits.
    """
    bits = np.unpackbits(delta.view(U8), bitorder="little").astype(U64)
    return np.array_equal(own ^ bits * told[0], told)


def require(right: bool, step: str) -> None:
    """Raise ProtocolDesync if a check has failed."""
    if not right:
        raise ProtocolDesync(
            f"{step}: the peer's messages contradict each other. It deviates from the protocol, or a machine erred; "
            "start a new session"
        )


def _digest(words: np.ndarray) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(b"sharewood OT, answer" + words.tobytes()).digest(), U64)


def _words(coin: np.ndarray, purpose: str, count: int) -> np.ndarray:
    stream = hashlib.shake_128(b"sharewood OT, check" + coin.tobytes() + purpose.encode())
    return np.frombuffer(stream.digest(8 * count), U64).copy()
