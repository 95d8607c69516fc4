"""Position and value of the largest of many shared integers, by a tournament.

Functionality  [k_1 .. k_C], 0 <= k < 2^bits -> <position of the first largest>, as ceil(log2 C) shared bits, and [it]
Variants       "bits", radix at most 2, 4 or 8: all pairs of a group of keys are compared together (2 rounds), a key
               wins where all its comparisons say so (1, none for radix 2), its value and position are selected (1)
               "keys", radix 2: one round a level with mpc.comparison_keys, positions one round behind
Cost           rounds a level: 3 for radix 2, 4 for radix 4 and 8; with keys 1, and 1 in the end
Security       composition: perfect for "bits", as mpc/comparison_keys.py for "keys"
Source         tournaments of any radix as in Keller and Sun, ICML 2022
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np

from mpc.bit_product import and_bits, select
from mpc.catalogue import calls, describe
from mpc.comparison import below
from mpc.comparison_keys import larger_by_keys
from mpc.contract import protocol
from mpc.endpoint import Endpoint, Variant
from mpc.errors import ConfigError
from mpc.evidence import composed
from mpc.one_hot import all_of
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, S, concatenate, stack

RADIX = 8


def index_bits(count: int) -> int:
    """Bits of a position among `count`."""
    return max(1, (count - 1).bit_length())


def _levels(count: int, radix: int) -> list[int]:
    """The radix of every level, none above `radix`: as few levels as there can be, then as few comparisons."""
    bits, most = index_bits(count), radix.bit_length() - 1
    plans = combinations_with_replacement(range(1, most + 1), -(-bits // most))
    digits = min((plan for plan in plans if sum(plan) == bits), key=lambda plan: _comparisons(count, plan))
    return [1 << width for width in digits] if count > 1 else []


def _comparisons(count: int, digits: Sequence[int]) -> int:
    pairs = 0
    for width in digits:
        count = -(-count >> width)
        pairs += count * (1 << width) * ((1 << width) - 1) // 2
    return pairs


@protocol()
def argmax(
    party: Endpoint, keys: AShare, bits: int, radix: int = RADIX, by: Variant | None = None
) -> Steps[tuple[BShare, AShare]]:
    """[keys], [.., C] -> <position>, [.., ceil(log2 C)], lowest bit first, and [largest], [..]; the first of ties."""
    if radix not in (2, 4, 8):
        raise ConfigError(f"the radix of an argmax is 2, 4 or 8, not {radix}")
    count, batch = keys.shape[-1], keys.shape[:-1]
    index = BShare(np.zeros((*batch, count, 0), np.uint8), party.rank)
    play = _by_keys(party, keys, index, bits) if (by or party.comparison) == "keys" else None
    keys, index = yield from play or _by_bits(party, keys, index, bits, radix)
    place = index[..., 0, :] if count > 1 else BShare(np.zeros((*batch, 1), np.uint8), party.rank)
    return place, keys[..., 0]


def _by_bits(party: Endpoint, keys: AShare, index: BShare, bits: int, radix: int) -> Steps[tuple[AShare, BShare]]:
    for r in _levels(keys.shape[-1], radix):
        keys, index = _in_groups(keys, r, axis=-1), _in_groups(index, r, axis=-2)
        won = yield from _winners(party, keys, bits)
        gap = keys.map(lambda w: w[..., 1:] - w[..., :1])
        change, index = yield from parallel(select.steps(party, won, gap), _move(party, won, index))
        keys = keys[..., 0] + change.sum(axis=-1)
    return keys, index


def _by_keys(party: Endpoint, keys: AShare, index: BShare, bits: int) -> Steps[tuple[AShare, BShare]]:
    moving = _done(index)
    for _ in _levels(keys.shape[-1], 2):
        keys = _in_groups(keys, 2, axis=-1)
        match = larger_by_keys.steps(party, keys[..., 0], keys[..., 1], bits + 1)
        (keys, lost), index = yield from parallel(match, moving)
        moving = _move(party, lost.map(lambda b: b[..., None]), _in_groups(index, 2, axis=-2))
    return keys, (yield from moving)


def _done(index: BShare) -> Steps[BShare]:
    return index
    yield


def _in_groups(share: S, radix: int, axis: int) -> S:
    """Split an axis into groups of `radix`; what is missing in the last one is zero, which never wins."""
    count = share.shape[axis]
    pad = [(0, 0)] * share.ndim
    pad[axis] = (0, -count % radix)
    axis %= share.ndim

    def split(words: np.ndarray) -> np.ndarray:
        padded = np.pad(words, pad)
        return padded.reshape(*padded.shape[:axis], padded.shape[axis] // radix, radix, *padded.shape[axis + 1 :])

    return share.map(split)


def _winners(party: Endpoint, keys: AShare, bits: int) -> Steps[BShare]:
    """[keys] in groups, [.., r] -> for each but the first: <it is the first largest of its group>, [.., r - 1]."""
    r = keys.shape[-1]
    pairs = list(combinations(range(r), 2))
    first, second = ([p[i] for p in pairs] for i in (0, 1))
    less = (yield from below.steps(party, keys[..., first] - keys[..., second], [0], bits + 1, "bits"))[..., 0]
    if r == 2:
        return less
    beats = [
        stack(
            [less[..., pairs.index((j, i))] for j in range(i)]
            + [~less[..., pairs.index((i, j))] for j in range(i + 1, r)],
            axis=-1,
        )
        for i in range(1, r)
    ]
    against_each = stack(beats, axis=-2)
    won = yield from all_of.steps(party, against_each.reshape(-1, r - 1))
    return won.reshape(*against_each.shape[:-1])


def _move(party: Endpoint, won: BShare, index: BShare) -> Steps[BShare]:
    """<won>, [.., r - 1], and positions within the group's members, [.., r, width] -> the winner's position, longer."""
    r, width = index.shape[-2:]
    number = (np.arange(1, r)[:, None] >> np.arange((r - 1).bit_length())).astype(np.uint8) & np.uint8(1)
    digit = won.map(lambda b: b @ number & np.uint8(1))
    if width == 0:
        return digit
    first = index[..., :1, :]
    other = index[..., 1:, :] ^ first.map(lambda b: np.repeat(b, r - 1, axis=-2))
    moved = yield from and_bits.steps(party, won.map(lambda b: np.repeat(b[..., None], width, axis=-1)), other)
    return concatenate([first[..., 0, :] ^ moved.parity(axis=-2), digit], axis=-1)


describe(
    argmax,
    samples=calls(lambda i, n: [i.words(0, 99, n, 11), 8], *({"radix": r, "by": "bits"} for r in (2, 4, 8)))
    + calls(lambda i, n: [i.words(0, 99, n, 11), 8], {"radix": 2, "by": "keys"}),
    priced=calls(
        lambda i, n: [i.words(0, 1, n, 32), 20],
        *({"radix": r, "by": "bits"} for r in (2, 4, 8)),
        {"by": "keys"},
        element="row of 32, 20 bits",
    ),
    evidence=composed(below, all_of, select, and_bits, larger_by_keys),
)
