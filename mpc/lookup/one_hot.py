"""One-hot vector of a shared index, as bits or words, or only its last entry.

one_hot        <i> as b bits -> <1{k = i}> for k = 0 .. 2^b - 1
one_hot_words  <i> as b bits -> [1{k = i}] for k = 0 .. 2^b - 1, in Z_2^w
all_of         <i> as b bits -> <1{i = 2^b - 1}>: whether all of the bits are 1

Messages       i xor r                                                       (one round)
Cost           b bits per index each way; offline: r, and 2^b bits or words per index from the dealer
Security       semi-honest, perfect: the message is a one-time pad
Source         one-time truth tables: Ishai et al., TCC 2013
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import OneHot, OneHotWords, number
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit
from mpc.rings import GF2, Z64, Ring, Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare
from mpc.words import U64, packed_size


@correlation
class OneHotMasks:
    """<r>, b bits for each of `count` indices, and <1{k = r}>, or [1{k = r}] in `ring`."""

    count: int
    bits: int
    ring: Ring = GF2

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        r = view.mask(GF2, (self.count, self.bits))
        recipe = OneHotWords(r, self.ring) if isinstance(self.ring, Z2k) else OneHot(r)
        return r, view.derived(self.ring, (self.count, 1 << self.bits), recipe)


@protocol(cost=lambda index: Cost(1, both(8 * packed_size(index.size, 1))))
def one_hot(party: Endpoint, index: BShare) -> Steps[BShare]:
    """<i>, shape [n, b], lowest bit first -> <one-hot i>, shape [n, 2^b]."""
    return BShare((yield from _turned(party, index)), party.rank)


@protocol(cost=lambda index, ring=Z64: one_hot.cost(index))
def one_hot_words(party: Endpoint, index: BShare, ring: Z2k = Z64) -> Steps[AShare]:
    """<i>, shape [n, b], lowest bit first -> [one-hot i] in `ring`, shape [n, 2^b]."""
    return AShare((yield from _turned(party, index, ring)), party.rank)


@protocol(cost=one_hot.cost)
def all_of(party: Endpoint, bits: BShare) -> Steps[BShare]:
    """<bits>, shape [n, b] -> <all bits of a row are 1>, shape [n]."""
    shift, table = yield from _open(party, bits)
    return BShare(table[np.arange(len(table)), table.shape[1] - 1 - shift], party.rank)


def _turned(party: Endpoint, index: BShare, ring: Ring = GF2) -> Steps[np.ndarray]:
    """Return the shares of 1{k = i}."""
    shift, table = yield from _open(party, index, ring)
    places = np.arange(table.shape[1]) ^ shift[:, None]
    return np.take_along_axis(table, places, axis=1)


def _open(party: Endpoint, index: BShare, ring: Ring = GF2) -> Steps[tuple[np.ndarray, np.ndarray]]:
    """Return i xor r as integers, and the shares of 1{k = r}."""
    count, bits = index.shape
    r, table = party.randomness.take(OneHotMasks(count, bits, ring))
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
    one_hot_words,
    samples=calls(lambda i, n: [i.bits(n, 5)]) + calls(lambda i, n: [i.bits(n, 4), Z2k(U64, 40)]),
    priced=calls(lambda i, n: [i.bits(n, 5)], element="index of 5 bits into words of 64 bits"),
    evidence=[
        Enumerated(
            f"one of {2**b}", (bit(b),), lambda i: np.arange(2 ** i.shape[-1]) == number(i)[:, None], ring=Bits(2)
        )
        for b in (1, 2)
    ],
)
describe(
    all_of,
    samples=calls(lambda i, n: [i.bits(n, 5)]),
    priced=calls(lambda i, n: [i.bits(n, 5)], element="5 bits"),
    evidence=[Enumerated(f"{b} bits", (bit(b),), lambda i: i.all(axis=1)) for b in (1, 2, 3)],
)
