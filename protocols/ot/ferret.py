"""Ferret OT extension: correlated OT at less than one bit each, from sparse noise and linear codes.

Functionality  sender: delta, q_i; receiver: random bits c_i and t_i = q_i xor c_i delta; blocks of 128 bits
Messages       sender -> receiver: one block per tree and level, except the first level; then a check
               (consistency.py)                                                                       (three rounds)
Cost           128 t (log2(n / t) - 1) bits for n - k - t log2(n / t) COTs: 0.71 bits each; n ten-row sums
Security       malicious: LPN with regular noise over GF(2), 2^129 operations by lpn_estimate.py; pi = AES under a
               public key is an ideal permutation, so x -> pi(s(x)) xor s(x) is circular correlation robust; each group
               of trees has its own. A sender whose block of level l of a tree is wrong spoils the subtree beside
               the noise's path: it passes only if it guesses l sides of the path at least, as the functionality of
               Yang et al. allows. The receiver sends nothing but the check. For the lowest bits see softspoken.py
Source         Yang, Weng, Lan, Zhang and Wang, CCS 2020; half-tree: Guo et al., EUROCRYPT 2023

The last k + t log2(n / t) of each iteration's n COTs are kept for the next iteration. k of them are the secret of the
LPN instance, which the code maps to n blocks. The others puncture t trees of n / t leaves: both parties have the same
leaves, except for one leaf per tree, the noise, where the receiver has the sender's leaf xor delta.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mpc.rounds import Round, Steps
from protocols.ot.consistency import ANSWER, CHALLENGE, TAKEN, BlockHash, batches, draw_coin, require
from protocols.ot.kernels import aes_blocks
from protocols.ot.kernels.lpn import add_rows
from protocols.ot.softspoken import SoftSpokenReceiver, SoftSpokenSender
from protocols.ot.trees import Double, grow, grow_punctured, half_tree, permutation_key

# t trees of 2^11 leaves, a secret of k rows, d = 10 rows per sum. lpn_estimate.py computes what attacks cost; bring it
# up to date before every release. This is set "b11" of emp-ot v1.0.0-alpha.1 (July 2026) with k = 2^18 instead of 2^17,
# since sums are sparse, an attack needs few columns, and at 2^17 it costs at most 2^95; and with 1184 trees instead of
# 1170, a multiple of 32.
TREES, DEPTH, SECRET = 1184, 11, 1 << 18
OUTPUTS = TREES << DEPTH
KEPT = SECRET + TREES * DEPTH
FRESH = OUTPUTS - KEPT
MESSAGE_BITS = (DEPTH - 1) * TREES * 128
# Bits of the check of an extension: of the sender, and of the receiver.
CHECK_BITS = 64 * ANSWER, 64 * CHALLENGE
# Trees that are grown together: their leaves fit into the second-level cache.
_GROUP = 32
_NAME, _CHECK = "ot.ferret", "ot.ferret.check"
_LOWEST = np.uint64(1)


class FerretSender:
    """The sender of correlated OTs; its delta is that of the SoftSpoken sender that it starts from."""

    def __init__(self, session: bytes, delta: np.ndarray, kept: np.ndarray) -> None:
        """kept: the first q uint64[KEPT, 2], for the first iteration."""
        self.delta = delta
        self._state = _State(session, kept)

    def extend(self, count: int) -> Steps[np.ndarray]:
        """Make the next q, uint64[n, 2]: those of whole iterations, less those that the check uses up."""
        room, iterations = _room(count)
        messages = np.empty((len(iterations), DEPTH - 1, TREES, 2), np.uint64)
        for message, out in zip(messages, iterations, strict=True):
            self._iterate(message, out)
        yield Round([messages.reshape(-1).view(np.uint8)], [], _NAME)
        (challenge,) = yield Round([], [8 * CHALLENGE], _CHECK)
        *coin, x = challenge.view(np.uint64)
        hashed = _hashed(np.array(coin), room)
        yield Round([hashed.answer(x, self.delta).view(np.uint8)], [], _CHECK)
        return room[: -KEPT - TAKEN]

    def _iterate(self, message: np.ndarray, out: np.ndarray) -> None:
        q = self._state.q_or_t
        # The lowest bits of q are 0.
        for trees, leaves, double in self._state.groups(out, np.empty(OUTPUTS, np.uint8)):
            # The first level needs no message: its nodes are q and q xor delta, and the receiver has one of them.
            leaves[0], leaves[1] = q[0, trees], q[0, trees] ^ self.delta
            message[:, trees] = grow(leaves, DEPTH - 1, double)[:, 0] ^ q[1:, trees]
        self._state.keep(out)


class FerretReceiver:
    """The receiver of correlated OTs: its choices in the kept COTs are the paths to the noise in the trees."""

    def __init__(self, session: bytes, kept: np.ndarray) -> None:
        """kept: the first t uint64[KEPT, 2], for the first iteration."""
        self._state = _State(session, kept)

    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Make the next random bits uint8[n] and t, uint64[n, 2], as many as the sender makes.

        Raises ProtocolDesync if the sender deviated.
        """
        room, iterations = _room(count)
        (data,) = yield Round([], [len(iterations) * (DEPTH - 1) * TREES * 16], _NAME)
        messages = data.view(np.uint64).reshape(len(iterations), DEPTH - 1, TREES, 2)
        choices = np.empty(len(room), np.uint8)
        for i, (message, out) in enumerate(zip(messages, iterations, strict=True)):
            self._iterate(message, out, choices[i * FRESH :][:OUTPUTS])
        challenge, answer = _hashed(draw_coin(), room, choices).challenge()
        yield Round([challenge.view(np.uint8)], [], _CHECK)
        (told,) = yield Round([], [8 * ANSWER], _CHECK)
        require(np.array_equal(told.view(np.uint64), answer), _CHECK)
        return choices[: -KEPT - TAKEN], room[: -KEPT - TAKEN]

    def _iterate(self, message: np.ndarray, out: np.ndarray, choices: np.ndarray) -> None:
        t, noise = self._state.q_or_t, []
        # It knows the side of its choice bit at each level, so the path to the missing leaf takes the other side.
        sides, every = (t[:, :, 0] & _LOWEST).astype(np.int64), np.arange(_GROUP)
        for trees, leaves, double in self._state.groups(out, choices):
            side = sides[:, trees]
            first = side[0]
            leaves[first, every], leaves[1 - first, every] = t[0, trees], 0
            sums = message[:, trees] ^ t[1:, trees]
            # The leaves of a tree sum to delta, so the known ones sum to q xor delta of the missing one.
            missing, known = grow_punctured(leaves, 1 - first, side[1:], sums, double)
            leaves[missing, every] = known
            noise.append(trees.start << DEPTH | missing * _GROUP + every)
        places = np.concatenate(noise)
        out[places, 0] ^= _LOWEST
        choices[places] ^= 1
        self._state.keep(out)


def set_up_sender(session: bytes, start: SoftSpokenSender) -> Steps[FerretSender]:
    """Set up a sender from SoftSpoken's COTs; `session` must be fresh and of this direction only."""
    q = yield from start.extend(KEPT)
    return FerretSender(session, start.delta, q[:KEPT])


def set_up_receiver(session: bytes, start: SoftSpokenReceiver) -> Steps[FerretReceiver]:
    """Set up the receiver of `set_up_sender`."""
    _, t = yield from start.extend(KEPT)
    return FerretReceiver(session, t[:KEPT])


class _State:
    """The state between iterations: the kept COTs, and the number of iterations so far."""

    def __init__(self, session: bytes, kept: np.ndarray) -> None:
        self._session, self._kept, self._iteration = session, kept, 0

    @property
    def q_or_t(self) -> np.ndarray:
        """The kept blocks for the trees, by level and tree: uint64[DEPTH, TREES, 2]."""
        return self._kept[SECRET:].reshape(DEPTH, TREES, 2)

    def groups(self, out: np.ndarray, lowest: np.ndarray) -> Iterator[tuple[slice, np.ndarray, Double]]:
        """Yield groups of trees: room for their leaves, uint64[2^DEPTH, _GROUP, 2], and how their nodes double.

        Outputs are the leaves, whose lowest bits are cleared, plus the image of the secret under a public random code.
        The lowest bits of the outputs are written to `lowest`.
        """
        key = np.frombuffer(permutation_key(self._session, f"code {self._iteration}"), np.uint64)
        schedules, leaves = aes_blocks.schedules(key[None]), np.empty((1 << DEPTH, _GROUP, 2), np.uint64)
        for first in range(0, TREES, _GROUP):
            double = half_tree(permutation_key(self._session, f"trees {self._iteration} {first}"))
            yield slice(first, first + _GROUP), leaves, double
            start, stop = first << DEPTH, first + _GROUP << DEPTH
            of_group = leaves.reshape(-1, 2)
            add_rows(out[start:stop], of_group, self._kept[:SECRET], schedules, start, lowest[start:stop])

    def keep(self, out: np.ndarray) -> None:
        """End the iteration: keep the last COTs for the next one."""
        self._kept, self._iteration = out[FRESH:].copy(), self._iteration + 1


def _room(count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Allocate room for the blocks of whole iterations and the last kept ones; return it and each iteration's outputs.

    An iteration overwrites what the iteration before it kept, since that has been copied.
    """
    starts = range(0, FRESH * batches(count, FRESH), FRESH)
    room = np.empty((len(starts) * FRESH + KEPT, 2), np.uint64)
    return room, [room[start : start + OUTPUTS] for start in starts]


def _hashed(coin: np.ndarray, room: np.ndarray, bits: np.ndarray | None = None) -> BlockHash:
    """Hash what an extension has made, with the COTs that are kept; the last fresh ones are used up."""
    hashed, fresh = BlockHash(coin), len(room) - KEPT - TAKEN
    for of in (slice(0, fresh), slice(fresh + TAKEN, len(room))):
        hashed.add(room[of], None if bits is None else bits[of])
    last = slice(fresh, fresh + TAKEN)
    hashed.add_last(room[last], None if bits is None else bits[last])
    return hashed
