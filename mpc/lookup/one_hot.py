"""One-hot vector of a shared index, or only its last entry.

one_hot        <i> as b bits -> <1{k = i}> for k = 0 .. 2^b - 1
all_of         <i> as b bits -> <1{i = 2^b - 1}>: whether all of the bits are 1

Messages       i xor r                                                       (one round)
Cost           b bits per index each way; offline: r, and 2^b bits per index from the dealer
Security       semi-honest, perfect: the message is a one-time pad
Source         one-time truth tables: Ishai et al., TCC 2013
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import OneHot, number
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, bit
from mpc.rings import GF2
from mpc.rounds import Steps, open_shares
from mpc.shares import BShare
from mpc.words import packed_size


@correlation
class OneHotMasks:
    """<r>, b bits for each of `count` indices, and <1{k = r}>."""

    count: int
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        r = view.mask(GF2, (self.count, self.bits))
        return r, view.derived(GF2, (self.count, 1 << self.bits), OneHot(r))


@protocol(cost=lambda index: Cost(1, both(8 * packed_size(index.size, 1))))
def one_hot(party: Endpoint, index: BShare) -> Steps[BShare]:
    """<i>, shape [n, b], lowest bit first -> <one-hot i>, shape [n, 2^b]."""
    shift, table = yield from _open(party, index)
    places = np.arange(table.shape[1]) ^ shift[:, None]
    return BShare(np.take_along_axis(table, places, axis=1), party.rank)


@protocol(cost=one_hot.cost)
def all_of(party: Endpoint, bits: BShare) -> Steps[BShare]:
    """<bits>, shape [n, b] -> <all bits of a row are 1>, shape [n]."""
    shift, table = yield from _open(party, bits)
    return BShare(table[np.arange(len(table)), table.shape[1] - 1 - shift], party.rank)


def _open(party: Endpoint, index: BShare) -> Steps[tuple[np.ndarray, np.ndarray]]:
    """Return i xor r as integers, and the shares of 1{k = r}."""
    r, table = party.randomness.take(OneHotMasks(*index.shape))
    (shift,) = yield from open_shares(index.map(lambda w: w ^ r))
    return number(shift), table


describe(
    one_hot,
    samples=calls(lambda i, n: [i.bits(n, 5)]),
    priced=calls(lambda i, n: [i.bits(n, 5)], element="index of 5 bits"),
    evidence=[
        Enumerated(f"one of {2**b}", (bit(b),), lambda i: np.arange(2 ** i.shape[-1]) == number(i)[:, None])
        for b in (1, 2, 3)
    ],
)
describe(
    all_of,
    samples=calls(lambda i, n: [i.bits(n, 5)]),
    priced=calls(lambda i, n: [i.bits(n, 5)], element="5 bits"),
    evidence=[Enumerated(f"{b} bits", (bit(b),), lambda i: i.all(axis=1)) for b in (1, 2, 3)],
)
