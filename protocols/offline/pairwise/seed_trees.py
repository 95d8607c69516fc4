"""Trees of seeds: one party knows all leaves of each tree, the other all but one.

Functionality  n trees of 2^d leaves; p names a leaf of each -> q knows all leaves, p all but that one
Messages       one correlated transfer per level, in which p chooses the side off its path. The first gives the nodes
               of the first level; each other one masks q's message, the sum of the left nodes of its level
               (choice bits one way, then blocks back). Then p checks all leaves (protocols/ot/consistency.py):
               challenge, answer
Cost           d correlated transfers, and d - 1 further blocks of 128 bits, per tree; 64 transfers and 56 bytes
Security       malicious. The nodes of each level sum to q's delta, so p lacks exactly delta: its missing leaf is a
               block that it knows xor delta. So the leaves are correlated transfers whose bit is 1 at the path only: if
               q's sum of level l is wrong, p finds it unless q has guessed l sides of the path at least. The path is
               p's input. The hash of the missing leaf is pseudorandom if AES under a public key is an
               ideal permutation: x -> pi(s(x) xor i) xor s(x) is circular correlation robust. A leaf is used under
               this hash only. Each group of trees has its own permutations, for its nodes and for its leaves
Source         half-tree: Guo, Yang, Wang, Zhang, Xie, Liu and Zhao, EUROCRYPT 2023
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mpc.offline.transfers import Correlated, MaskedMessage, OfflineSteps
from mpc.rings import packed_bits
from mpc.words import U8, U64
from protocols.ot.consistency import ANSWER, CHALLENGE, TAKEN, BlockHash, draw_coin, require
from protocols.ot.kernels import aes_blocks
from protocols.ot.trees import grow, grow_punctured, half_tree, permutation_key

BLOCK = packed_bits(U64)
# Blocks of the leaves of trees that are grown together, which fit into the second-level cache; and the fewest trees.
_GROUP_LEAVES, _GROUP = 1 << 14, 256


def group_of(depth: int) -> int:
    """Return the number of trees that are grown together."""
    return max(_GROUP, _GROUP_LEAVES >> depth)


def depth_of(leaves: int) -> int:
    """Return the number of levels below the root."""
    return max(1, (leaves - 1).bit_length())


def puncturing(owner: int, trees: int, depth: int) -> tuple[Correlated, list[MaskedMessage]]:
    """Return the requests of `puncture`, one after the other, as seen by a party without input."""
    if depth == 1:
        return Correlated(owner, trees, None), []
    told = MaskedMessage(1 - owner, 2 * (depth - 1) * trees, BLOCK, None)
    return Correlated(owner, depth * trees + TAKEN, None), [told]


def checking(owner: int, depth: int) -> list[MaskedMessage]:
    """Return the requests of `check`, one after the other, as seen by a party without input."""
    if depth == 1:
        return []
    return [MaskedMessage(owner, CHALLENGE, BLOCK, None), MaskedMessage(1 - owner, ANSWER, BLOCK, None)]


@dataclass(frozen=True)
class Group:
    """A group of trees: their numbers, and leaves uint64[2^d, T, 2]."""

    trees: slice
    leaves: np.ndarray
    key: bytes

    def schedule(self, period: int = 0) -> np.ndarray:
        """Return the key schedule of a permutation to hash the leaves with, one per period."""
        key = permutation_key(self.key, f"leaves from {self.trees.start}, {period}")
        (schedule,) = aes_blocks.schedules(np.frombuffer(key, U64)[None])
        return schedule


@dataclass(frozen=True)
class SeedTrees:
    """One party's part of n trees.

    `first` uint64[n, 2]: the first node of the first level, or, of a punctured tree, the node off the path.
    `sums` uint64[d - 1, n, 2]: of each other level, the sum of the nodes on the side off the path.
    `path` int64[n]: the missing leaf; its bit i is the side of the path at level i.
    `last` uint64[64, 2] and `last_bits` uint8[64]: the transfers that the check uses up; none for trees of one level.
    The party that knows all leaves has `delta` instead of `sums`, `path` and `last_bits`.
    """

    key: bytes
    depth: int
    first: np.ndarray
    sums: np.ndarray
    path: np.ndarray | None
    delta: np.ndarray | None
    last: np.ndarray
    last_bits: np.ndarray | None = None

    def groups(self) -> Iterator[Group]:
        """Yield all trees, group by group; a missing leaf is 0."""
        for trees in self._slices():
            leaves, _ = self._grown(trees)
            yield Group(trees, leaves, self.key)

    def check(self, owner: int) -> OfflineSteps[None]:
        """Check all leaves at `owner`, which has the path. Raises ProtocolDesync there if the other party deviated."""
        if self.depth == 1:
            return
        challenge, answer = checking(owner, self.depth)
        if self.path is None:
            assert self.delta is not None
            (told,) = yield [challenge]
            *coin, x = told
            yield [replace(answer, words=self._hashed(np.array(coin)).answer(x, self.delta))]
            return
        own, expected = self._hashed(draw_coin()).challenge()
        yield [replace(challenge, words=own)]
        (told,) = yield [answer]
        require(np.array_equal(told, expected), "trees of seeds")

    def _hashed(self, coin: np.ndarray) -> BlockHash:
        hashed = BlockHash(coin)
        for group in self.groups():
            leaves, bits = group.leaves, None
            if self.path is not None:
                # The leaves of a tree sum to delta, so that the others sum to the missing one xor delta.
                places = self.path[group.trees], np.arange(leaves.shape[1])
                leaves[places] = np.bitwise_xor.reduce(leaves, axis=0)
                bits = np.zeros(leaves.shape[:2], U8)
                bits[places] = 1
            hashed.add(leaves.reshape(-1, 2), None if bits is None else bits.reshape(-1))
        hashed.add_last(self.last, self.last_bits)
        return hashed

    def left_sums(self) -> np.ndarray:
        """Sum the left nodes of every level but the first: uint64[d - 1, n, 2]. Needs all leaves."""
        sums = np.empty((self.depth - 1, len(self.first), 2), U64)
        for trees in self._slices():
            sums[:, trees] = self._grown(trees)[1]
        return sums

    def _slices(self) -> Iterator[slice]:
        """Yield the numbers of the trees of each group."""
        step, count = group_of(self.depth), len(self.first)
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def _grown(self, trees: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the leaves and, if all are known, the sums of the left nodes."""
        first, levels = self.first[trees], self.depth - 1
        double = half_tree(permutation_key(self.key, f"seeds from {trees.start}"))
        leaves = np.empty((1 << self.depth, len(first), 2), U64)
        if self.delta is not None:
            leaves[0], leaves[1] = first, first ^ self.delta
            return leaves, grow(leaves, levels, double)[:, 0]
        assert self.path is not None
        sides = (self.path[trees] >> np.arange(self.depth)[:, None] & 1).astype(U8)
        every = np.arange(len(first))
        leaves[1 - sides[0], every], leaves[sides[0], every] = first, 0
        grow_punctured(leaves, sides[0].astype(np.int64), 1 - sides[1:], self.sums[:, trees], double)
        return leaves, None


def puncture(
    rank: int, owner: int, trees: int, depth: int, path: np.ndarray | None, delta: np.ndarray, key: bytes
) -> OfflineSteps[SeedTrees]:
    """The owner's path, int64[trees], None at the other party -> SeedTrees; the owner's lack the named leaves.

    Nothing may depend on them until `check` has passed. `delta` is this party's; `key` is public and used for these
    trees only.
    """
    asked, told = puncturing(owner, trees, depth)
    none, used = np.zeros((0, 0, 2), U64), depth * trees
    if path is None:
        (made,) = yield [asked]
        blocks = made[:used].reshape(depth, trees, 2)
        known = SeedTrees(key, depth, blocks[0].copy(), none, None, delta, made[used:])
        for one in told:
            hidden = known.left_sums()
            hidden ^= blocks[1:]
            yield [replace(one, words=hidden.reshape(-1))]
        return known
    choices = (~path >> np.arange(depth)[:, None] & 1).astype(U8).reshape(-1)
    last_bits = np.frombuffer(os.urandom(asked.count - used), U8) & U8.type(1)
    (made,) = yield [replace(asked, choices=np.append(choices, last_bits))]
    blocks, sums = made[:used].reshape(depth, trees, 2), none
    for one in told:
        (hidden,) = yield [one]
        sums = hidden.reshape(depth - 1, trees, 2) ^ blocks[1:]
    return SeedTrees(key, depth, blocks[0].copy(), sums, path, None, made[used:], last_bits)
