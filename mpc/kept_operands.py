"""Products of matrices that stay with fresh masks, made by two parties: what a dealer gives out as U r and rho A.

Each party keeps its own part of a matrix; nothing of it is opened. Of four kinds, the product of

one-hot rows over Z_2^k    of p with words of q: trees of seeds (mpc/punctured_trees.py), punctured by p at its places
                           once; then q tells p, for each place and vector, r plus the words of all leaves, a word
any words of p             with words of q: the bits of q's words choose rows of the matrix
bits of p                  with bits of q: q's bits choose columns of the matrix, strings as long as it has rows
shared matrices            with shared rows: bits choose rows (GF(2)), or the bits of the matrix choose words (Z_2^k)

Security   semi-honest, as the transfers and trees. A leaf is the key of a pseudorandom function whose argument, the
           number of a vector, is used once
Source     as mpc/transfers.py and mpc/punctured_trees.py; vector products with fixed operands by both: ours
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import numpy as np

from mpc import transfers
from mpc.errors import ProtocolDesync
from mpc.fixed_operand import OperandProduct, OperandShare
from mpc.kernels import aes
from mpc.known_matrix import BinColumns, BinRows, DenseBits, DenseWords, packed_rows
from mpc.linear_map import MatrixVectors
from mpc.punctured_trees import known_levels, levels, puncture
from mpc.recipes import Applied
from mpc.ring import U8, U64
from mpc.rings import Z2k, packed_bits
from mpc.transfers import Making, Told, private

WORDS = packed_bits(U64)
# Trees that are expanded at a time.
_TREES = 4096


@dataclass
class _Seeds:
    """Roots, or siblings, of the trees of one matrix, and the number of the next vector."""

    seeds: np.ndarray
    vectors: int = 0


@dataclass
class Operands:
    """What this party keeps, by the numbers of the matrices. `key` is known to both parties, 16 bytes. `draw` as of
    `mpc.endpoint.Endpoint`. A program keeps what another thread applies.
    """

    rank: int
    key: bytes
    draw: Callable[[int], bytes] = os.urandom
    _own: dict[int, Any] = field(default_factory=dict)
    _trees: dict[int, _Seeds] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)
    _given_up: bool = False

    def keep(self, number: int, matrix: Any) -> None:
        """This party's part, or None."""
        with self._changed:
            self._own[number] = matrix
            self._changed.notify_all()

    def wait_for(self, number: int) -> None:
        """Until it has been kept. Raises ProtocolDesync where the program has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._given_up or number in self._own)
            if self._given_up:
                raise ProtocolDesync(f"matrix {number} was not kept")

    def give_up(self) -> None:
        """No more is kept."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def forget(self, number: int) -> None:
        """It is not used again."""
        self._own.pop(number, None)
        self._trees.pop(number, None)

    def applied(self, recipe: Applied) -> Making[np.ndarray]:
        """A share of matrix times vectors, for a request of mpc/linear_map.py or mpc/fixed_operand.py."""
        request, own = recipe.request, self._own.get(recipe.number)
        match request:
            case OperandProduct():
                return _of_shared(self.rank, own, recipe.vectors, request)
            case MatrixVectors(ring=Z2k(), size=size) if size:
                return self._histogram(own, recipe.vectors, request)
            case MatrixVectors(ring=Z2k()):
                return _of_words(self.rank, own, recipe.vectors, request)
            case MatrixVectors():
                return _of_bits(self.rank, own, recipe.vectors, request)
        raise TypeError(f"no such product: {request}")

    def _histogram(self, own: BinColumns | None, r: np.ndarray | None, request: MatrixVectors) -> Making[np.ndarray]:
        """[count, n_in] of q times one-hot rows of p -> [count, n_out]."""
        n, size, count = request.n_in, request.size, request.count
        features = request.n_out // size
        path = np.zeros(n * features, np.int64) if own is None else own.bins.astype(np.int64).reshape(-1)
        trees = self._trees.get(request.number)
        if trees is None:
            roots = np.frombuffer(self.draw(16 * n * features), U64).reshape(-1, 2)
            seeds = yield from puncture(self.rank, request.owner, roots, path, size, self.key)
            trees = self._trees[request.number] = _Seeds(seeds)
        first, trees.vectors = trees.vectors, trees.vectors + count
        mine = self.rank == request.owner
        dtype = request.ring.dtype
        out = np.zeros((features, size, count), dtype)
        sums = np.empty((n * features, count), dtype)
        parts = max(1, _TREES // features) * features
        for start in range(0, n * features, parts):
            these = slice(start, min(start + parts, n * features))
            words = self._leaf_words(trees.seeds[these], path[these], size, first, count, dtype, mine)
            if mine:
                words[np.arange(len(words)), path[these]] = 0
            sums[these] = words.sum(axis=1, dtype=dtype)
            out += words.reshape(-1, features, size, count).sum(axis=0, dtype=dtype)
        if not mine:
            masked = sums.reshape(n, features, count)
            masked += (np.zeros((count, n), dtype) if r is None else r).T[:, None]
            yield [Told(1 - request.owner, masked.size, request.ring, masked.reshape(-1))]
            return -out.reshape(-1, count).T
        (told,) = yield [Told(1 - request.owner, sums.size, request.ring, None)]
        own_place = told.reshape(sums.shape) - sums
        places = np.tile(np.arange(features), n) * size + path
        flat = out.reshape(-1, count)
        np.add.at(flat, places, own_place)
        return flat.T

    def _leaf_words(
        self, seeds: np.ndarray, path: np.ndarray, size: int, first: int, count: int, dtype: np.dtype, mine: bool
    ) -> np.ndarray:
        """The words of vectors first .. first + count - 1 of every leaf, [trees, size, count]."""
        nodes = known_levels(seeds, path, size, self.key) if mine else levels(seeds, size, self.key)
        *_, leaves = nodes
        per = 16 // dtype.itemsize
        blocks = range(first // per, -(-(first + count) // per))
        # Numbers 0 and 1 are those of a node's children.
        words = aes.expand(leaves.reshape(-1, 2), tuple(2 + b for b in blocks), self.key)
        words = words.view(dtype).reshape(*leaves.shape[:2], -1)
        return words[..., first - blocks.start * per :][..., :count].copy()


def _of_words(rank: int, own: DenseWords | None, r: np.ndarray | None, request: MatrixVectors) -> Making[np.ndarray]:
    """[count, n_in] of q times any matrix of p, by the bits of q's words."""
    assert isinstance(request.ring, Z2k)
    count, n, width, dtype = request.count, request.n_in, request.n_out, request.ring.dtype
    if rank == request.owner:
        matrix = np.zeros((n, width), dtype) if own is None else own.words
        mine = np.tile(matrix, (count, 1))
    else:
        mine = np.zeros(count * n, dtype) if r is None else r.reshape(-1)
    chooser = 1 - request.owner
    share = yield from transfers.multiply_private(rank, chooser, mine, width, request.ring)
    return share.reshape(count, n, width).sum(axis=1, dtype=dtype)


def _of_bits(rank: int, own: Any, r: np.ndarray | None, request: MatrixVectors) -> Making[np.ndarray]:
    """Bits of q, packed [count, n_in / 64], times a matrix of bits of p -> uint8[count, n_out]."""
    count, n, height = request.count, request.n_in, request.n_out
    width = -(-height // 64)
    if rank == request.owner:
        columns = np.zeros((n, width), U64) if own is None else _columns(own)
        mine = np.tile(columns, (count, 1))
    else:
        packed = np.zeros((count, 0), U64) if r is None else r
        mine = transfers.unpack(packed, n).reshape(-1) if r is not None else np.zeros(count * n, U8)
    (share,) = yield [private(rank, 1 - request.owner, mine, WORDS, width)]
    sums = np.bitwise_xor.reduce(share.reshape(count, n, width), axis=1)
    return transfers.unpack(sums, height)


def _columns(matrix: BinRows | DenseBits) -> np.ndarray:
    """The columns of a matrix of bits, uint64[n_in, n_out / 64]."""
    if isinstance(matrix, DenseBits):
        return packed_rows(matrix.bits.T)
    d = matrix.bins.shape[1]
    return np.concatenate([packed_rows(np.arange(matrix.size)[:, None] == matrix.bins[:, f]) for f in range(d)])


def _of_shared(rank: int, own: OperandShare | None, rho: np.ndarray, request: OperandProduct) -> Making[np.ndarray]:
    """<rho> or [rho], [b, v, k], times the shared matrix, [b, k, m]."""
    b, v, k = request.shape
    m = request.columns
    if isinstance(request.ring, Z2k):
        ring, rows = request.ring, rho.transpose(0, 2, 1)[:, :, None]
        if own is not None and own.bits is None:
            products = yield from transfers.multiply(rank, own.words[..., None], rows, ring)
        else:
            bits = np.zeros((b, k, m), U8) if own is None or own.bits is None else own.bits
            products = yield from transfers.choose(rank, bits[..., None], rows, ring)
        return products.sum(axis=1, dtype=ring.dtype).transpose(0, 2, 1)
    matrix = np.zeros((b, k, m), U8) if own is None else own.words
    packed = packed_rows(matrix.reshape(b * k, m)).reshape(b, 1, k, -1)
    rows = np.broadcast_to(packed, (b, v, *packed.shape[2:])).reshape(b * v * k, -1)
    products = yield from transfers.and_each(rank, rho.reshape(-1), rows, WORDS)
    sums = np.bitwise_xor.reduce(products.reshape(b * v, k, -1), axis=1)
    return transfers.unpack(sums, m).reshape(b, v, m)
