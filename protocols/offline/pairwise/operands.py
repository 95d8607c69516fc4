"""The matrices that a party keeps, and their products with vectors of the other party, made by two parties.

Each party keeps its own part of a matrix; no part of it is opened. The recipes of `mpc.matrix` use transfers and these:

one-hot rows over Z_2^k    of p with words of q: trees of seeds that are kept (seed_histograms.py)
                           shared by both, with shared words: blocks that are kept (one_hot_rows.py)
bits of p                  with bits of q: q's bits choose columns of the matrix (chosen_columns.py)

Security   as for the transfers and trees: nothing else is sent
Source     as for mpc/offline/transfers.py and the files above; products with fixed operands by two parties: ours
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.matrix.known_matrix import BinColumns
from mpc.offline.recipes import OneHotProduct
from mpc.offline.transfers import OfflineSteps
from mpc.rings import Z2k
from protocols.offline.pairwise.chosen_columns import choose_columns
from protocols.offline.pairwise.one_hot_rows import OneHotRows, agree
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
    _rows: dict[int, OneHotRows | None] = field(default_factory=dict)
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
        self._rows.pop(number, None)

    def kept(self, number: int) -> Any:
        return self._own.get(number)

    def histogram(self, own: BinColumns | None, r: np.ndarray | None, of: OneHotProduct) -> OfflineSteps[np.ndarray]:
        if of.number not in self._histograms:
            self._histograms[of.number] = None
            path = None if own is None else own.bins.T.reshape(-1).astype(np.int64)
            trees, depth, key = tree_count(of), depth_of(of.size), self._next_key()
            punctured = yield from puncture(self.rank, of.owner, trees, depth, path, self.delta, key)
            yield from punctured.check(of.owner)
            self._histograms[of.number] = SeedHistograms(punctured)
        # Another request for the same matrix may already be making its trees.
        while (kept := self._histograms[of.number]) is None:
            yield []
        return (yield from kept.apply(r, of))

    def one_hot_rows(
        self, number: int, bits: np.ndarray, rho: np.ndarray, groups: int, ring: Z2k
    ) -> OfflineSteps[np.ndarray]:
        if number not in self._rows:
            self._rows[number] = None
            self._rows[number] = yield from agree(self.rank, bits, self.delta)
        # Another request for the same matrix may already be making its blocks.
        while (kept := self._rows[number]) is None:
            yield []
        return (yield from kept.multiply(rho, groups, ring, self._next_key()))

    def choose_columns(
        self, owner: int, own: np.ndarray | None, columns: int, vectors: int, height: int
    ) -> OfflineSteps[np.ndarray]:
        assert own is not None, "the owner has columns, the other party bits"
        return (yield from choose_columns(self.rank, owner, own, vectors, height, self.delta, self._next_key()))

    def _next_key(self) -> bytes:
        """Return the public key of the next set of trees: both parties make them in the same order."""
        self._keys += 1
        return permutation_key(self.key, f"operand {self._keys}")


def tree_count(of: OneHotProduct) -> int:
    """Return the number of trees of a matrix, one for each row and group of columns."""
    return of.n_in * (of.n_out // of.size)
