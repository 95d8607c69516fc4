"""The cost of a request that two parties make: transfers, payload and waves, counted without a run.

The transfers depend on public shapes only: each request's recipes are run at party 0 on zeros, with zeros for answers.
Not included: the underlying correlated transfers, and padding to whole bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np

from mpc.matrix.linear_map import MatrixVectors
from mpc.offline.correlation import Correlation
from mpc.offline.recipes import Applied
from mpc.offline.transfers import Correlated, MaskedMessage, OfflineSteps, Transfer, TransferRequest
from mpc.rings import GF2, AnyRing, Z2k
from mpc.words import U64, Shape, packed_size
from protocols.offline.pairwise.chosen_columns import asked_for
from protocols.offline.pairwise.operands import Operands
from protocols.offline.pairwise.seed_trees import depth_of, puncturing
from protocols.offline.pairwise.view import PairView, fulfil

_KEY = bytes(16)


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


class _Pair:
    """Implements `mpc.offline.recipes.Pair` for counting: products with one party's matrix are listed, not computed."""

    rank = 0

    def common(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return np.zeros(shape, ring.dtype)

    def applied(self, recipe: Applied) -> OfflineSteps[np.ndarray]:
        request = recipe.request
        if isinstance(request, MatrixVectors) and (request.ring == GF2 or request.size):
            return _of_one_party(request)
        return Operands(self.rank, _KEY, np.zeros(2, U64)).applied(recipe)


def _of_one_party(request: MatrixVectors) -> OfflineSteps[np.ndarray]:
    if request.ring == GF2:
        waves = asked_for(request.owner, request.n_in, request.count, request.n_out)
    else:
        waves = [[MaskedMessage(1 - request.owner, _trees(request) * request.count, request.ring, None)]]
    for wave in waves:
        _ = yield wave
    return np.zeros((request.count, request.n_out), request.ring.dtype)


def _trees(request: MatrixVectors) -> int:
    return request.n_in * (request.n_out // request.size)


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


@lru_cache(maxsize=4096)
def request_transfers(request: Correlation[Any]) -> TransferCost:
    """Return the cost of one request, without the trees of a kept matrix. Raises NeedsDealer."""
    view = PairView(0, _Zeros(), request)
    request.deal(view)
    total, making = TransferCost(), fulfil(_Pair(), view.due)
    try:
        asked = next(making)
        while True:
            total = total.after(_cost(asked))
            asked = making.send([_answer(one) for one in asked])
    except StopIteration:
        return total


def trees_of(request: Correlation[Any]) -> TransferCost:
    """Return the additional cost of the first request for a kept one-hot matrix (punctured_trees.py)."""
    if not (isinstance(request, MatrixVectors) and isinstance(request.ring, Z2k) and request.size):
        return TransferCost()
    first, second = puncturing(request.owner, _trees(request), depth_of(request.size))
    return _cost([first]).after(_cost([second]))


def transfers_of(requests: Iterable[Correlation[Any]], kept: set[int] | None = None) -> TransferCost:
    """Return the cost of requests in the same waves. Raises NeedsDealer.

    `kept` holds the matrices for which requests were made before; those of `requests` are added to it.
    """
    total, kept = TransferCost(), set() if kept is None else kept
    for request in requests:
        cost = request_transfers(request)
        if isinstance(request, MatrixVectors) and request.number not in kept:
            kept.add(request.number)
            cost = trees_of(request).after(cost)
        total = total.beside(cost)
    return total
