"""SoftSpoken OT extension: correlated OT from 128 base OTs, by VOLE over a small field GF(2^k).

Functionality  sender: delta, q_i; receiver: random bits c_i and t_i = q_i xor c_i delta; blocks of 128 bits
Messages       once: the base OTs, then 2 blocks per level of 128 / k trees from receiver to sender
               receiver -> sender: u_j xor u_0 for every tree j > 0                                     (one round)
Cost           128 / k - 1 bits per COT, and 2^k / k blocks of AES
Security       semi-honest, without a consistency check; relies on the base OTs, and AES as a pseudorandom function.
               The lowest bit of q is 0 and that of delta is 1, so c is the lowest bit of t
Source         Roy, CRYPTO 2022; trees of seeds: Boyle et al., CCS 2019
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpc.rounds import Round, Steps
from protocols.ot.base import receive_base, send_base
from protocols.ot.kernels import aes_blocks
from protocols.ot.kernels.fold import fold_streams
from protocols.ot.kernels.transpose import transpose
from protocols.ot.trees import Double, ggm, grow, grow_punctured, permutation_key

# Bits of the field: 4 gives 31 bits per COT on the wire; 8 gives 15, for four times the AES
# (docs/oblivious_transfer.md).
FIELD_BITS = 4
TREES = 128 // FIELD_BITS
# COTs are made in batches, whose pseudorandom words fit into the second-level cache.
BATCH = 1 << 13
_WORDS = BATCH // 64
MESSAGE_BITS = (TREES - 1) * BATCH
_NAME = "ot.softspoken"


class SoftSpokenSender:
    """The sender of correlated OTs: its delta, k bits per tree, names the missing leaves."""

    def __init__(self, delta: np.ndarray, leaves: np.ndarray) -> None:
        """delta uint64[2]; leaves uint64[2^k, T, 2], numbered by their xor with the missing leaf's number."""
        self.delta = delta
        self._streams = _Streams(leaves)
        # By tree and bit of delta: a word of ones if the bit is set, else of zeros.
        self._chosen = (-_bits(delta).astype(np.int64)).view(np.uint64).reshape(TREES, FIELD_BITS, 1)

    def extend(self, count: int) -> Steps[np.ndarray]:
        """Make the next q, uint64[n, 2], with n = `count` rounded up to whole batches."""
        batches = -(-count // BATCH)
        (data,) = yield Round([], [batches * (TREES - 1) * BATCH // 8], _NAME)
        corrections = data.view(np.uint64).reshape(batches, TREES - 1, 1, _WORDS)
        out = np.empty((batches, BATCH, 2), np.uint64)
        planes, ignored = np.zeros((TREES, FIELD_BITS, _WORDS), np.uint64), np.empty((TREES, _WORDS), np.uint64)
        for correction, blocks in zip(corrections, out, strict=True):
            planes[0] = 0
            np.bitwise_and(correction, self._chosen[1:], out=planes[1:])
            self._streams.fold(ignored, planes.reshape(128, -1))
            planes[0, 0] = 0
            transpose(planes.reshape(128, -1), blocks)
        return out.reshape(-1, 2)


class SoftSpokenReceiver:
    """The receiver of correlated OTs: it knows every leaf."""

    def __init__(self, leaves: np.ndarray) -> None:
        """leaves uint64[2^k, T, 2]."""
        self._streams = _Streams(leaves)

    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Make the next random bits uint8[n] and t, uint64[n, 2], with n = `count` rounded up to whole batches."""
        batches = -(-count // BATCH)
        corrections = np.empty((batches, TREES - 1, _WORDS), np.uint64)
        out, choices = np.empty((batches, BATCH, 2), np.uint64), np.empty((batches, BATCH), np.uint8)
        planes, sums = np.empty((128, _WORDS), np.uint64), np.empty((TREES, _WORDS), np.uint64)
        for correction, blocks, bits in zip(corrections, out, choices, strict=True):
            planes[:] = 0
            self._streams.fold(sums, planes)
            np.bitwise_xor(sums[1:], sums[0], out=correction)
            planes[0] = sums[0]
            transpose(planes, blocks)
            bits[:] = np.unpackbits(planes[0].view(np.uint8), bitorder="little")
        yield Round([corrections.reshape(-1).view(np.uint8)], [], _NAME)
        return choices.reshape(-1), out.reshape(-1, 2)


class _Streams:
    """The pseudorandom words of leaves: AES in counter mode, whose counter never decreases."""

    def __init__(self, leaves: np.ndarray) -> None:
        self._schedules = aes_blocks.schedules(np.ascontiguousarray(leaves.swapaxes(0, 1)).reshape(-1, 2))
        self._blocks = np.empty((leaves.shape[0], _WORDS // 2, 2), np.uint64)
        self._counter = 0

    def fold(self, sums: np.ndarray, planes: np.ndarray) -> None:
        """Draw the next batch of words and fold it (see `kernels/fold.py`)."""
        assert self._counter < 1 << 63, "the counter must not wrap around, or a pad would repeat"
        fold_streams(self._schedules, self._counter, self._blocks, sums, planes)
        self._counter += self._blocks.shape[1]


def set_up_sender(session: bytes, draw: Callable[[int], bytes]) -> Steps[SoftSpokenSender]:
    """Set up a sender with a fresh delta; `session` must be fresh and of this direction only."""
    delta = np.frombuffer(draw(16), np.uint64) | np.array([1, 0], np.uint64)
    # By tree and level: the side of the path to the missing leaf.
    path = _bits(delta).reshape(TREES, FIELD_BITS)
    keys = yield from receive_base(1 - path.reshape(-1), session)
    (data,) = yield Round([], [128 * 2 * 16], _NAME)
    masked = data.view(np.uint64).reshape(128, 2, 2)[np.arange(128), 1 - path.reshape(-1)]
    sums = (masked ^ keys).reshape(TREES, FIELD_BITS, 2).swapaxes(0, 1)
    leaves = np.zeros((1 << FIELD_BITS, TREES, 2), np.uint64)
    missing, _ = grow_punctured(leaves, np.zeros(TREES, np.int64), 1 - path.T, sums, _double(session))
    by_difference = np.arange(1 << FIELD_BITS)[:, None] ^ missing
    return SoftSpokenSender(delta, leaves[by_difference, np.arange(TREES)])


def set_up_receiver(session: bytes, draw: Callable[[int], bytes]) -> Steps[SoftSpokenReceiver]:
    """Set up the receiver of `set_up_sender`."""
    leaves = np.empty((1 << FIELD_BITS, TREES, 2), np.uint64)
    leaves[0] = np.frombuffer(draw(16 * TREES), np.uint64).reshape(TREES, 2)
    sums = grow(leaves, FIELD_BITS, _double(session))
    keys = yield from send_base(128, session)
    masked = sums.transpose(2, 0, 1, 3).reshape(128, 2, 2) ^ keys
    yield Round([masked.reshape(-1).view(np.uint8)], [], _NAME)
    return SoftSpokenReceiver(leaves)


def _double(session: bytes) -> Double:
    return ggm(permutation_key(session, "seeds"))


def _bits(block: np.ndarray) -> np.ndarray:
    return np.unpackbits(block.view(np.uint8), bitorder="little")
