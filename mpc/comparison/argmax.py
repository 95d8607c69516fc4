"""One-hot vector and value of the first maximum of many shared integers, by a tournament.

Functionality  [k_1 .. k_C], 0 <= k < 2^B -> <1{k_i is the first maximum}> for all i, and [the maximum]
Messages       per layer: mpc/comparison/all_pairs.py on groups of r keys, 3 rounds. The one-hot within each group is
               <and>ed with its members' one-hots beside the next layer (mpc/arithmetic/bits.py), in the last layer
               within its look-up
Cost           3 rounds per layer. The number of layers is the smallest that compares at most MOST_PAIRS pairs per key:
               two for 12 to about 200 keys, three up to 10,000 and more; or fewer where rounds are worth more than the
               bytes of more pairs. The radices minimise the bytes, online and offline. A single key costs nothing
Security       composition: perfect
Source         tournaments of any radix as in Keller and Sun, ICML 2022
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from mpc.arithmetic.bits import and_each
from mpc.comparison.all_pairs import MOST_KEYS, GroupMasks, compare_pairs, pick_winner
from mpc.endpoint import Endpoint
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import composed
from mpc.rings import Z16, Z2k
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, S, public_bits

# Pairs per key that the layers may compare where rounds have no price: one more layer costs 3 more rounds.
MOST_PAIRS = 5
ROUNDS = 3


@functools.lru_cache
def radices(count: int, bits: int, ring: Z2k, rows: int = 1, price: int = 0) -> tuple[int, ...]:
    """Return the sizes of the groups, layer by layer, for `rows` rows of `count` keys.

    price: what a round is worth in bytes. Fewer layers are taken where they cost less.
    """
    cheapest: list[tuple[int, ...]] = []
    for layers in range(1, count):
        few = list(_plans(count, layers, MOST_PAIRS * count))
        plans = few or (list(_plans(count, layers, count * count)) if price else [])
        if plans:
            cheapest.append(min(plans, key=lambda plan: _bytes(plan, count, bits, ring)))
        if few:
            break
    return min(
        cheapest, key=lambda plan: rows * _bytes(plan, count, bits, ring) + ROUNDS * len(plan) * price, default=()
    )


def _plans(count: int, layers: int, pairs: int) -> Iterator[tuple[int, ...]]:
    """Yield the radices of `layers` layers that compare at most `pairs` pairs."""
    if layers == 1:
        if count <= MOST_KEYS and count * (count - 1) // 2 <= pairs:
            yield (count,)
        return
    for radix in range(2, min(count, MOST_KEYS + 1)):
        groups = -(-count // radix)
        left = pairs - groups * (radix * (radix - 1) // 2)
        if left < 0:
            return
        yield from ((radix, *rest) for rest in _plans(groups, layers - 1, left))


def _bytes(plan: tuple[int, ...], count: int, bits: int, ring: Z2k) -> float:
    """Return the bytes of a tournament, online in both directions and offline, without the <and>s."""
    total = 0.0
    for layer, radix in enumerate(plan):
        last = 0 < layer == len(plan) - 1
        members = math.prod(plan[:layer]) if last else 0
        count = -(-count // radix)
        groups = GroupMasks(count, radix, bits, ring, members)
        total += (groups.comparison_bits() + groups.choice_bits()) / 4 + groups.dealt_bytes()
    return total


@protocol(exact=True)
def argmax(party: Endpoint, keys: AShare, bits: int) -> Steps[tuple[BShare, AShare]]:
    """[keys], [.., C] -> <one-hot of the first maximum>, [.., C], and [the maximum], [..].

    The maximum has the scale and the ring of the keys. 0 <= key < 2^bits, and `bits` is less than the width of a word.
    """
    *batch, count = keys.shape
    if count == 1:
        return public_bits(np.ones(keys.shape, np.uint8), party.rank), keys[..., 0]
    rows = math.prod(batch)
    best, hot = keys.reshape(rows, count), None
    waiting: Steps[BShare | None] = _done(None)
    price = party.round_price if party.randomness.has_dealer else 0
    plan = radices(count, bits, keys.ring, rows, price)
    members = 1
    for layer, radix in enumerate(plan):
        last = 0 < layer == len(plan) - 1
        left, groups = best.shape[1], -(-best.shape[1] // radix)
        best = _in_groups(best, radix).reshape(rows * groups, radix)
        comparing = compare_pairs.steps(party, best, bits, members if last else 0)
        compared, hot = yield from parallel(comparing, waiting)
        own = None
        if hot is not None:
            own = _in_groups(hot.reshape(rows, left, members), radix).reshape(rows * groups, radix, members)
        won, best = yield from pick_winner.steps(party, compared, own if last else None)
        best = best.reshape(rows, groups)
        waiting = _done(won) if last or own is None else and_each.steps(party, won, own)
        members *= radix
    hot = yield from waiting
    assert hot is not None
    hot = hot.reshape(rows, members)[:, :count]
    return hot.map(lambda b: b.reshape(keys.shape)), best.map(lambda w: w.reshape(batch)).at_scale(keys.scale)


def _done(value: BShare | None) -> Steps[BShare | None]:
    """Return `value` without a round."""
    return value
    yield


def _in_groups(share: S, radix: int) -> S:
    """[n, C, ..] -> [n, ceil(C / radix), radix, ..]; the last group is padded with zeros, which never win."""
    rows, count, *rest = share.shape

    def split(words: np.ndarray) -> np.ndarray:
        padded = np.pad(words, [(0, 0), (0, -count % radix)] + [(0, 0)] * len(rest))
        return padded.reshape(rows, -(-count // radix), radix, *rest)

    return share.map(split)


describe(
    argmax,
    samples=calls(lambda i, n: [i.words(0, 99, n, 3, ring=Z16), 8]) + calls(lambda i, n: [i.words(0, 99, n, 14), 20]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 32, ring=Z16), 15], element="row of 32, 15 bits")
    + calls(lambda i, n: [i.words(0, 1, n, 1241, ring=Z16), 15], element="row of 1,241, 15 bits"),
    evidence=composed(compare_pairs, pick_winner, and_each),
)
