"""Sums of columns of one party's matrix of bits, chosen by bits of the other party, for several vectors of bits.

Functionality  p: columns m_j; q: bits r_vj, v = 1 .. V -> shares by xor of the sum over j of r_vj m_j, for every v
Messages       for each column and k vectors, a tree of 2^k seeds (seed_trees.py), punctured at the leaf that k
               bits of q name; beside the trees' check, p -> q: m_j xor the sum of the words of all leaves
Cost           ceil(V / k) trees per column, and as many strings of one bit per row; k = 1 is a transfer of the string
Security       as for the trees, so q's bits stay hidden; what p sends is its own input, and may differ from call to
               call. The hash of a leaf is a key for AES in counter mode, used once
How            a VOLE over GF(2^k): with words r_x of leaf x, p adds up u = sum r_x and v = sum x r_x; q, who lacks leaf
               d, adds up (x xor d) r_x = v xor d u, and knows u xor m
Source         subspace VOLE of SoftSpoken: Roy, CRYPTO 2022
"""

from __future__ import annotations

import numpy as np

from mpc.offline.transfers import MaskedMessage, OfflineSteps, Transfer, TransferRequest, send
from mpc.rings import packed_bits
from mpc.rounds import parallel
from mpc.words import U8, U64
from protocols.offline.pairwise.seed_trees import SeedTrees, checking, puncture, puncturing
from protocols.ot.kernels import aes_blocks
from protocols.ot.kernels.fold import fold_streams

WORDS = packed_bits(U64)
# The most bits per tree: with these, each word of a column takes 32 pseudorandom words.
_MOST = 5
# The number of leaf words that are folded at a time: they fit into the second-level cache.
_CACHED = 1 << 16


def depth_for(vectors: int, height: int) -> int:
    """Return the bits per tree that minimise the bits on the wire."""

    def bits(depth: int) -> int:
        return -(-vectors // depth) * (height + (129 * depth - 128 if depth > 1 else 1))

    return min(range(1, _MOST + 1), key=bits)


def asked_for(owner: int, columns: int, vectors: int, height: int) -> list[list[TransferRequest]]:
    """Return the requests, wave by wave, as seen by a party without input."""
    depth, width = depth_for(vectors, height), -(-height // 64)
    if depth == 1:
        return [[Transfer(1 - owner, vectors * columns, width, WORDS, None, None)]]
    trees = -(-vectors // depth) * columns
    told = MaskedMessage(owner, trees * width, WORDS, None)
    transfers, hidden = puncturing(1 - owner, trees, depth)
    challenge, answer = checking(1 - owner, depth)
    return [[transfers], list(hidden), [challenge, told], [answer]]


def choose_columns(
    rank: int, owner: int, own: np.ndarray, vectors: int, height: int, delta: np.ndarray, key: bytes
) -> OfflineSteps[np.ndarray]:
    """`own`: columns uint64[n, height / 64] at the owner, bits uint8[vectors, n] at the other -> shares of the sums,
    uint64[vectors, height / 64]. `delta` and `key` are those of `puncture`.
    """
    depth, width, mine = depth_for(vectors, height), -(-height // 64), rank == owner
    n = len(own) if mine else own.shape[1]
    if depth == 1:
        choices = None if mine else own.reshape(-1)
        words = np.tile(own, (vectors, 1)) if mine else None
        (share,) = yield [Transfer(1 - owner, vectors * n, width, WORDS, choices, words)]
        return np.bitwise_xor.reduce(share.reshape(vectors, n, width), axis=1)
    groups = -(-vectors // depth)
    if mine:
        trees = yield from puncture(rank, 1 - owner, groups * n, depth, None, delta, key)
        products, sums = _folded(trees, n, width)
        sums.reshape(groups, n, width)[:] ^= own
        yield from parallel(trees.check(1 - owner), send(MaskedMessage(owner, sums.size, WORDS, sums.reshape(-1))))
        return products.reshape(-1, width)[:vectors]
    bits = np.zeros((groups * depth, n), U8)
    bits[:vectors] = own
    path = (bits.reshape(groups, depth, n) << np.arange(depth)[:, None]).sum(axis=1).reshape(-1)
    trees = yield from puncture(rank, 1 - owner, groups * n, depth, path, delta, key)
    products, _ = _folded(trees, n, width)
    _, told = yield from parallel(trees.check(1 - owner), send(MaskedMessage(owner, groups * n * width, WORDS, None)))
    shares = products.reshape(-1, width)
    for v in range(vectors):
        chosen = told.reshape(groups, n, width)[v // depth][own[v] == 1]
        shares[v] ^= np.bitwise_xor.reduce(chosen, axis=0)
    return shares[:vectors]


def _folded(trees: SeedTrees, columns: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Trees numbered by group, then by column -> two arrays.

    uint64[groups, k, width]: the sum of v, or of v xor d u, over the columns of each group.
    uint64[trees, width]: u of each tree, if all leaves are known.
    """
    count, size, even = len(trees.first), 1 << trees.depth, width + width % 2
    products = np.zeros((count // columns, trees.depth, width), U64)
    sums = np.empty((count if trees.path is None else 0, width), U64)
    step = max(1, _CACHED // (size * even))
    blocks = np.empty((size, even // 2, 2), U64)
    planes, total = np.empty((step, trees.depth, even), U64), np.empty((step, even), U64)
    for group in trees.groups():
        schedules = _schedules(group.leaves, group.schedule(), None if trees.path is None else trees.path[group.trees])
        for start in range(group.trees.start, group.trees.stop, step):
            some = min(step, group.trees.stop - start)
            first = start - group.trees.start
            of_leaves = schedules[first * size : (first + some) * size]
            fold_streams(of_leaves, 0, blocks, total[:some], planes[:some].reshape(-1, even))
            if trees.path is None:
                sums[start : start + some] = total[:some, :width]
            for g in range(start // columns, -(-(start + some) // columns)):
                inside = slice(max(g * columns, start) - start, min((g + 1) * columns, start + some) - start)
                products[g] ^= np.bitwise_xor.reduce(planes[inside], axis=0)[:, :width]
    return products, sums


def _schedules(leaves: np.ndarray, schedule: np.ndarray, path: np.ndarray | None) -> np.ndarray:
    """Return the key schedules of the leaves, tree by tree; with a path, by their xor with the missing leaf."""
    size, count, _ = leaves.shape
    keys = aes_blocks.tweaked_hashes(leaves.reshape(-1, 2), 0, 2, schedule).reshape(leaves.shape)
    order = np.arange(size)[:, None] ^ (np.zeros(count, np.int64) if path is None else path)
    by_tree = keys[order, np.arange(count)].swapaxes(0, 1)
    return aes_blocks.schedules(np.ascontiguousarray(by_tree).reshape(-1, 2))
