"""Position of the largest of many shared integers, by a tournament of pairs.

Functionality  [k_1 .. k_C], 0 <= k < 2^bits -> <position of the first largest>, as ceil(log2 C) shared bits
Messages       a level: one comparison (2 rounds), then the winner's key and position are selected (1 round)
Cost           3 ceil(log2 C) rounds
Security       semi-honest, perfect: composition of perfect protocols
Source         tournament argmax as in Keller and Sun, ICML 2022
"""

from __future__ import annotations

import numpy as np

from mpc.bit_product import conjoin, select
from mpc.comparison import below
from mpc.contract import Cost, protocol
from mpc.party import Party, Steps, together
from mpc.shares import AShare, BShare, concatenate, public_bits


def index_bits(count: int) -> int:
    """Bits of a position among `count`."""
    return max(1, (count - 1).bit_length())


def _cost(keys: AShare, bits: int) -> Cost:
    *batch, count = keys.shape
    rounds = sent = 0
    width = index_bits(count)
    while count > 1:
        matches = np.empty((*batch, count // 2), np.uint64)
        moves = np.empty((*matches.shape, width), np.uint8)
        difference = AShare(matches, 0)
        sent += below.cost(difference, [0], bits + 1).bits[0]
        sent += select.cost(BShare(matches, 0), difference).bits[0] + conjoin.cost(BShare(moves, 0), None).bits[0]
        rounds += 3
        count = -(-count // 2)
    return Cost(rounds, (sent, sent))


@protocol(cost=_cost)
def argmax(party: Party, keys: AShare, bits: int) -> Steps:
    """[keys], shape [.., C] -> <position>, shape [.., ceil(log2 C)], lowest bit first; ties go to the earlier one."""
    count = keys.shape[-1]
    width = index_bits(count)
    places = (np.arange(count)[:, None] >> np.arange(width)) & 1
    index = public_bits(np.broadcast_to(places, (*keys.shape, width)), party.rank)
    while (count := keys.shape[-1]) > 1:
        even = count - count % 2
        first, second, rest = keys[..., 0:even:2], keys[..., 1:even:2], keys[..., even:]
        here, there, stay = index[..., 0:even:2, :], index[..., 1:even:2, :], index[..., even:, :]
        lost = (yield from below.steps(party, first - second, [0], bits + 1))[..., 0]
        spread = lost.map(lambda b: np.repeat(b[..., None], width, axis=-1))
        change, move = yield from together(
            select.steps(party, lost, second - first), conjoin.steps(party, spread, here ^ there)
        )
        keys = concatenate([first + change, rest], axis=-1)
        index = concatenate([here ^ move, stay], axis=-2)
    return index[..., 0, :]
