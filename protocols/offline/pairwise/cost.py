"""The cost of a request that two parties make: transfers, payload and waves, counted without a run.

The transfers depend on public shapes only: each request's recipes are run at party 0 on zeros, with zeros for answers.
Not included: the underlying correlated transfers, and padding to whole bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np

from mpc.offline.correlation import Correlation
from mpc.offline.recipes import OneHotProduct
from mpc.offline.transfers import Correlated, MaskedMessage, OfflineSteps, Transfer, TransferRequest, choose
from mpc.rings import GF2, AnyRing, Z2k
from mpc.words import U64, Shape, packed_size
from protocols.offline.pairwise.chosen_columns import asked_for
from protocols.offline.pairwise.one_hot_rows import asked_for as agreeing
from protocols.offline.pairwise.operands import tree_count
from protocols.offline.pairwise.seed_trees import checking, depth_of, puncturing
from protocols.offline.pairwise.view import PairView, fulfil

# The bits of a wave: choices that party 0, and party 1, sends, then words that party 0, and party 1, sends.
Wave = tuple[int, int, int, int]


@dataclass(frozen=True)
class TransferCost:
    """The cost of requests.

    transfers  in which party 0, and party 1, chooses
    by_wave    the bits of each wave, one after another; a wave is a round of choices, then one of words
    """

    transfers: tuple[int, int] = (0, 0)
    by_wave: tuple[Wave, ...] = ()

    @property
    def waves(self) -> int:
        return len(self.by_wave)

    @property
    def bits(self) -> tuple[int, int]:
        """The bits that party 0, and party 1, sends."""
        return sum(wave[0] + wave[2] for wave in self.by_wave), sum(wave[1] + wave[3] for wave in self.by_wave)

    @property
    def busiest(self) -> int:
        """The bits of the busier direction of every round, in sum."""
        return sum(max(wave[:2]) + max(wave[2:]) for wave in self.by_wave)

    def beside(self, other: TransferCost) -> TransferCost:
        """Return the cost of both in the same waves."""
        pairs = zip_longest(self.by_wave, other.by_wave, fillvalue=(0, 0, 0, 0))
        by_wave = tuple((a + e, b + f, c + g, d + h) for (a, b, c, d), (e, f, g, h) in pairs)
        return TransferCost(self._all_transfers(other), by_wave)

    def after(self, other: TransferCost) -> TransferCost:
        """Return the cost of both, one after the other."""
        return TransferCost(self._all_transfers(other), self.by_wave + other.by_wave)

    def _all_transfers(self, other: TransferCost) -> tuple[int, int]:
        return self.transfers[0] + other.transfers[0], self.transfers[1] + other.transfers[1]


class _Zeros:
    """A stream of zeros."""

    def words(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        return np.zeros(shape, dtype)

    def bits(self, shape: Shape) -> np.ndarray:
        return np.zeros(shape, np.uint8)


@dataclass
class _Counted:
    """Implements `mpc.offline.recipes.Operands` and `Pair` for counting: messages are listed, and nothing is computed.

    trees: by matrix, the cost of the trees that its first histogram needs.
    """

    trees: dict[int, TransferCost] = field(default_factory=dict)
    rank = 0

    @property
    def operands(self) -> _Counted:
        return self

    def common(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return np.zeros(shape, ring.dtype)

    def kept(self, number: int) -> None:
        return None

    def histogram(self, own: object, r: object, of: OneHotProduct) -> OfflineSteps[np.ndarray]:
        depth = depth_of(of.size)
        transfers, hidden = puncturing(of.owner, tree_count(of), depth)
        cost = _cost([transfers])
        for message in (*hidden, *checking(of.owner, depth)):
            cost = cost.after(_cost([message]))
        self.trees[of.number] = cost
        yield [MaskedMessage(1 - of.owner, tree_count(of) * of.count, of.ring, None)]
        return np.zeros((of.count, of.n_out), of.ring.dtype)

    def one_hot_rows(
        self, number: int, bits: np.ndarray, rho: np.ndarray, groups: int, ring: Z2k
    ) -> OfflineSteps[np.ndarray]:
        n, m = bits.shape
        self.trees[number] = _cost(agreeing(n, m))
        _ = yield from choose(self.rank, np.zeros((n, 1), np.uint8), rho, ring)
        yield [MaskedMessage(sender, rho.size, ring, None) for sender in (0, 1)]
        return np.zeros((groups, rho.shape[1], m), ring.dtype)

    def choose_columns(
        self, owner: int, own: object, columns: int, vectors: int, height: int
    ) -> OfflineSteps[np.ndarray]:
        for wave in asked_for(owner, columns, vectors, height):
            _ = yield wave
        return np.zeros((vectors, -(-height // 64)), U64)


def _elements(ring: AnyRing, count: int) -> int:
    """Return the bits on the wire of `count` elements."""
    return count if ring == GF2 else count * packed_size(8, ring.bits)


def _cost(asked: Sequence[TransferRequest]) -> TransferCost:
    """Return the cost of one wave."""
    transfers, words = [0, 0], [0, 0]
    for one in asked:
        if isinstance(one, MaskedMessage):
            words[one.sender] += _elements(one.ring, one.count)
            continue
        transfers[one.chooser] += one.count
        if isinstance(one, Transfer):
            words[1 - one.chooser] += _elements(one.ring, one.count * one.width)
    first, second = transfers
    by_wave = ((first, second, words[0], words[1]),) if any(one.count for one in asked) else ()
    return TransferCost((first, second), by_wave)


def _answer(one: TransferRequest) -> np.ndarray:
    if isinstance(one, Correlated):
        return np.zeros((one.count, 2), U64)
    shape = (one.count,) if isinstance(one, MaskedMessage) else (one.count, one.width)
    return np.zeros(shape, one.ring.dtype)


def request_transfers(request: Correlation[Any]) -> TransferCost:
    """Return the cost of one request, without the trees of a kept matrix. Raises NeedsDealer."""
    return _counted(request)[0]


def trees_of(request: Correlation[Any]) -> dict[int, TransferCost]:
    """Return the additional cost of the first request for a kept one-hot matrix (seed_trees.py), by matrix."""
    return _counted(request)[1]


@lru_cache(maxsize=4096)
def _counted(request: Correlation[Any]) -> tuple[TransferCost, dict[int, TransferCost]]:
    view, pair = PairView(0, _Zeros(), request), _Counted()
    request.deal(view)
    total, making = TransferCost(), fulfil(pair, view.due)
    try:
        asked = next(making)
        while True:
            total = total.after(_cost(asked))
            asked = making.send([_answer(one) for one in asked])
    except StopIteration:
        return total, pair.trees


def transfers_of(requests: Iterable[Correlation[Any]], kept: set[int] | None = None) -> TransferCost:
    """Return the cost of requests in the same waves. Raises NeedsDealer.

    `kept` holds the matrices whose trees were made before; those of `requests` are added to it.
    """
    total, kept = TransferCost(), set() if kept is None else kept
    for request in requests:
        cost, trees = _counted(request)
        for number, of_trees in trees.items():
            if number not in kept:
                kept.add(number)
                cost = of_trees.after(cost)
        total = total.beside(cost)
    return total
