"""Products of kept matrices with fresh masks, made by two parties: the values U r and rho A that a dealer would deal.

Each party keeps its own part of a matrix; no part of it is opened. There are four kinds, the product of

one-hot rows over Z_2^k    of p with words of q: trees of seeds that are kept (seed_histograms.py)
any words of p             with words of q: the bits of q's words choose rows of the matrix
bits of p                  with bits of q: q's bits choose columns of the matrix (chosen_columns.py)
shared matrices            with shared rows: bits choose rows (GF(2)), or the bits of the matrix choose words (Z_2^k)

Security   semi-honest, as for the transfers and trees: nothing else is sent
Source     as for mpc/offline/transfers.py and the files above; products with fixed operands by two parties: ours
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.matrix.fixed_operand import OperandProduct, OperandShare
from mpc.matrix.known_matrix import BinColumns, BinRows, DenseBits, DenseWords, packed_rows
from mpc.matrix.linear_map import MatrixVectors
from mpc.offline import transfers
from mpc.offline.recipes import Applied
from mpc.offline.transfers import OfflineSteps
from mpc.rings import Z2k
from mpc.words import U8
from protocols.offline.pairwise.chosen_columns import WORDS, choose_columns
from protocols.offline.pairwise.seed_histograms import SeedHistograms
from protocols.offline.pairwise.seed_trees import depth_of, puncture
from protocols.ot.trees import permutation_key


@dataclass
class Operands:
    """The matrices that this party keeps, by number.

    `key`, 16 bytes, is known to both parties; `delta` is that of the correlated transfers in which this party is the
    sender. The program's thread keeps matrices, and another thread applies them.
    """

    rank: int
    key: bytes
    delta: np.ndarray
    _own: dict[int, Any] = field(default_factory=dict)
    _histograms: dict[int, SeedHistograms | None] = field(default_factory=dict)
    _keys: int = 0
    _changed: Condition = field(default_factory=Condition)
    _given_up: bool = False

    def keep(self, number: int, matrix: Any) -> None:
        """Keep this party's part of a matrix, or None."""
        with self._changed:
            self._own[number] = matrix
            self._changed.notify_all()

    def wait_for(self, number: int) -> None:
        """Wait until a matrix is kept. Raises ProtocolDesync if the program has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._given_up or number in self._own)
            if self._given_up:
                raise ProtocolDesync(f"matrix {number} was not kept")

    def give_up(self) -> None:
        """End every wait: no more matrices will be kept."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def forget(self, number: int) -> None:
        """Drop a matrix, which is not used again."""
        self._own.pop(number, None)
        self._histograms.pop(number, None)

    def applied(self, recipe: Applied) -> OfflineSteps[np.ndarray]:
        """Make a share of matrix times vectors, for a request of `mpc.matrix`."""
        request, own = recipe.request, self._own.get(recipe.number)
        match request:
            case OperandProduct():
                return _of_shared(self.rank, own, recipe.vectors, request)
            case MatrixVectors(ring=Z2k(), size=size) if size:
                return self._histogram(own, recipe.vectors, request)
            case MatrixVectors(ring=Z2k()):
                return _of_words(self.rank, own, recipe.vectors, request)
            case MatrixVectors():
                mine = _columns(own) if own is not None else transfers.unpack(recipe.vectors, request.n_in)
                return self._routed(mine, request)
        raise TypeError(f"no such product: {request}")

    def _histogram(
        self, own: BinColumns | None, r: np.ndarray | None, request: MatrixVectors
    ) -> OfflineSteps[np.ndarray]:
        if request.number not in self._histograms:
            self._histograms[request.number] = None
            trees = request.n_in * (request.n_out // request.size)
            path = None if own is None else own.bins.T.reshape(-1).astype(np.int64)
            depth, key = depth_of(request.size), self._next_key()
            punctured = yield from puncture(self.rank, request.owner, trees, depth, path, self.delta, key)
            self._histograms[request.number] = SeedHistograms(punctured)
        # Another request for the same matrix may already be making its trees.
        while (kept := self._histograms[request.number]) is None:
            yield []
        return (yield from kept.apply(r, request))

    def _routed(self, own: np.ndarray, request: MatrixVectors) -> OfflineSteps[np.ndarray]:
        """Columns of p, bits of q -> uint8[count, n_out]."""
        sums = yield from choose_columns(
            self.rank, request.owner, own, request.count, request.n_out, self.delta, self._next_key()
        )
        return transfers.unpack(sums, request.n_out)

    def _next_key(self) -> bytes:
        """Return the public key of the next set of trees: both parties make them in the same order."""
        self._keys += 1
        return permutation_key(self.key, f"operand {self._keys}")


def _of_words(
    rank: int, own: DenseWords | None, r: np.ndarray | None, request: MatrixVectors
) -> OfflineSteps[np.ndarray]:
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


def _columns(matrix: BinRows | DenseBits) -> np.ndarray:
    """Return the columns of a matrix of bits, uint64[n_in, n_out / 64]."""
    if isinstance(matrix, DenseBits):
        return packed_rows(matrix.bits.T)
    d = matrix.bins.shape[1]
    return np.concatenate([packed_rows(np.arange(matrix.size)[:, None] == matrix.bins[:, f]) for f in range(d)])


def _of_shared(
    rank: int, own: OperandShare | None, rho: np.ndarray, request: OperandProduct
) -> OfflineSteps[np.ndarray]:
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
