"""SoftSpoken OT extension: correlated OT from 128 base OTs, by VOLE over a small field GF(2^k).

Functionality  sender: delta, q_i; receiver: random bits c_i and t_i = q_i xor c_i delta; blocks of 128 bits
Messages       once: the base OTs, then from receiver to sender 2 blocks per level of 128 / k trees, 2 blocks per tree,
               and a digest
               receiver -> sender: u_j xor u_0 for every tree j > 0, then a check (consistency.py)    (three rounds)
Cost           128 / k - 1 bits per COT, and 2^k / k blocks of AES
Security       malicious; relies on the base OTs, AES as a pseudorandom function, and hashes of leaves. A receiver whose
               trees or corrections are wrong passes only if it guesses the bits of delta that they touch: k bits per
               tree, or one per wrong sum at set-up. The sender sends nothing but coins. Leaves are hashed to what is
               used and two blocks that bind them: their sum over each tree and the digest of all of them are sent.
               The lowest bit of q is 0 and that of delta is 1, so c is the lowest bit of t
Source         Roy, CRYPTO 2022; trees of seeds, and their check: Boyle et al., CCS 2019
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from mpc.rounds import Round, Steps
from protocols.ot.base import receive_base, send_base
from protocols.ot.consistency import COIN, PLANES, TAKEN, PlaneHash, agree, batches, draw_coin, require
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
# Bits of the check of an extension: of the sender, and of the receiver.
CHECK_BITS = 64 * COIN, 64 * PLANES
_NAME, _CHECK = "ot.softspoken", "ot.softspoken.check"
# Words of a leaf's hash: a leaf that is used, and two blocks that bind it.
_HASHED = 6


class SoftSpokenSender:
    """The sender of correlated OTs: its delta, k bits per tree, names the missing leaves."""

    def __init__(self, delta: np.ndarray, leaves: np.ndarray) -> None:
        """delta uint64[2]; leaves uint64[2^k, T, 2], numbered by their xor with the missing leaf's number."""
        self.delta = delta
        self._streams = _Streams(leaves)
        # By tree and bit of delta: a word of ones if the bit is set, else of zeros.
        self._chosen = (-_bits(delta).astype(np.int64)).view(np.uint64).reshape(TREES, FIELD_BITS)

    def extend(self, count: int) -> Steps[np.ndarray]:
        """Make the next q, uint64[n, 2]: those of whole batches, less those that the check uses up.

        Raises ProtocolDesync if the receiver deviated.
        """
        number = batches(count, BATCH)
        (data,) = yield Round([], [number * (TREES - 1) * BATCH // 8], _NAME)
        corrections = data.view(np.uint64).reshape(number, TREES - 1, _WORDS)
        out = np.empty((number, BATCH, 2), np.uint64)
        planes, ignored = np.empty((128, _WORDS), np.uint64), np.empty((TREES, _WORDS), np.uint64)
        given = np.zeros((TREES, _WORDS), np.uint64)
        coin = draw_coin()
        hashed = PlaneHash(coin, number, _WORDS)
        for correction, blocks in zip(corrections, out, strict=True):
            given[1:] = correction
            self._streams.fold(ignored, planes, given, self._chosen)
            planes[0] = 0
            hashed.add(planes)
            transpose(planes, blocks)
        yield Round([coin.view(np.uint8)], [], _CHECK)
        (told,) = yield Round([], [8 * PLANES], _CHECK)
        require(agree(told.view(np.uint64), hashed.value(), self.delta), _CHECK)
        return out.reshape(-1, 2)[:-TAKEN]


class SoftSpokenReceiver:
    """The receiver of correlated OTs: it knows every leaf."""

    def __init__(self, leaves: np.ndarray) -> None:
        """leaves uint64[2^k, T, 2]."""
        self._streams = _Streams(leaves)

    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Make the next random bits uint8[n] and t, uint64[n, 2], as many as the sender makes."""
        number = batches(count, BATCH)
        corrections, sums = np.empty((number, TREES - 1, _WORDS), np.uint64), np.empty((TREES, _WORDS), np.uint64)
        # The planes of a batch take the room of its blocks.
        room = np.empty((number, 128, _WORDS), np.uint64)
        for correction, planes in zip(corrections, room, strict=True):
            self._streams.fold(sums, planes)
            np.bitwise_xor(sums[1:], sums[0], out=correction)
            planes[0] = sums[0]
        yield Round([corrections.reshape(-1).view(np.uint8)], [], _NAME)
        (coin,) = yield Round([], [8 * COIN], _CHECK)
        hashed = PlaneHash(coin.view(np.uint64), number, _WORDS)
        choices, copied = np.empty((number, BATCH), np.uint8), np.empty((128, _WORDS), np.uint64)
        for planes, bits in zip(room, choices, strict=True):
            copied[:] = planes
            hashed.add(copied)
            bits[:] = np.unpackbits(copied[0].view(np.uint8), bitorder="little")
            transpose(copied, planes.reshape(BATCH, 2))
        yield Round([hashed.value().view(np.uint8)], [], _CHECK)
        return choices.reshape(-1)[:-TAKEN], room.reshape(-1, 2)[:-TAKEN]


class _Streams:
    """The pseudorandom words of leaves: AES in counter mode, whose counter never decreases."""

    def __init__(self, leaves: np.ndarray) -> None:
        self._schedules = aes_blocks.schedules(np.ascontiguousarray(leaves.swapaxes(0, 1)).reshape(-1, 2))
        self._blocks = np.empty((leaves.shape[0], _WORDS // 2, 2), np.uint64)
        self._counter = 0

    def fold(self, sums: np.ndarray, planes: np.ndarray, *given: np.ndarray) -> None:
        """Draw the next batch of words and fold it (see `kernels/fold.py`)."""
        assert self._counter < 1 << 63, "the counter must not wrap around, or a pad would repeat"
        fold_streams(self._schedules, self._counter, self._blocks, sums, planes, *given)
        self._counter += self._blocks.shape[1]


def set_up_sender(session: bytes, draw: Callable[[int], bytes]) -> Steps[SoftSpokenSender]:
    """Set up a sender with a fresh delta; `session` must be fresh and of this direction only."""
    delta = np.frombuffer(draw(16), np.uint64) | np.array([1, 0], np.uint64)
    # By tree and level: the side of the path to the missing leaf.
    path = _bits(delta).reshape(TREES, FIELD_BITS)
    keys = yield from receive_base(1 - path.reshape(-1), session)
    data, sums_told, digest = yield Round([], [128 * 2 * 16, TREES * (_HASHED - 2) * 8, 32], _NAME)
    masked = data.view(np.uint64).reshape(128, 2, 2)[np.arange(128), 1 - path.reshape(-1)]
    sums = (masked ^ keys).reshape(TREES, FIELD_BITS, 2).swapaxes(0, 1)
    leaves = np.zeros((1 << FIELD_BITS, TREES, 2), np.uint64)
    missing, _ = grow_punctured(leaves, np.zeros(TREES, np.int64), 1 - path.T, sums, _double(session))
    used, binding = _bound(leaves, session)
    every = np.arange(TREES)
    binding[missing, every] = 0
    binding[missing, every] = sums_told.view(np.uint64).reshape(TREES, -1) ^ np.bitwise_xor.reduce(binding, axis=0)
    require(digest.tobytes() == _digest(binding), _CHECK)
    by_difference = np.arange(1 << FIELD_BITS)[:, None] ^ missing
    used[missing, every] = 0
    return SoftSpokenSender(delta, used[by_difference, every])


def set_up_receiver(session: bytes, draw: Callable[[int], bytes]) -> Steps[SoftSpokenReceiver]:
    """Set up the receiver of `set_up_sender`."""
    leaves = np.empty((1 << FIELD_BITS, TREES, 2), np.uint64)
    leaves[0] = np.frombuffer(draw(16 * TREES), np.uint64).reshape(TREES, 2)
    sums = grow(leaves, FIELD_BITS, _double(session))
    keys = yield from send_base(128, session)
    masked = sums.transpose(2, 0, 1, 3).reshape(128, 2, 2) ^ keys
    used, binding = _bound(leaves, session)
    told = masked, np.bitwise_xor.reduce(binding, axis=0), np.frombuffer(_digest(binding), np.uint64)
    yield Round([part.reshape(-1).view(np.uint8) for part in told], [], _NAME)
    return SoftSpokenReceiver(used)


def _bound(leaves: np.ndarray, session: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Hash leaves to those that are used, uint64[2^k, T, 2], and to what binds them, uint64[2^k, T, 4]."""
    key = np.frombuffer(permutation_key(session, "leaves"), np.uint64)
    (schedule,) = aes_blocks.schedules(key[None])
    hashed = aes_blocks.tweaked_hashes(leaves.reshape(-1, 2), 0, _HASHED, schedule).reshape(*leaves.shape[:2], _HASHED)
    return np.ascontiguousarray(hashed[..., :2]), hashed[..., 2:].copy()


def _digest(binding: np.ndarray) -> bytes:
    return hashlib.sha256(b"sharewood OT, leaves" + binding.tobytes()).digest()


def _double(session: bytes) -> Double:
    return ggm(permutation_key(session, "seeds"))


def _bits(block: np.ndarray) -> np.ndarray:
    return np.unpackbits(block.view(np.uint8), bitorder="little")
