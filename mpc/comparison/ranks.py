"""Which of many shared integers is the r-th largest, for the first few ranks.

Functionality  [s_1 .. s_d], of either sign, public k -> for r = 1 .. k: <s_i is the r-th largest, and above 0>; of
               equal ones, the first counts as larger
Messages       a comparison of every pair (mpc/comparison/all_pairs.py); a look-up of every number of wins; for many
               integers first in blocks, then of the k largest of every block, which a selection takes along, and a
               conjunction of both results
Cost           3 rounds for a block, 5 more for each further pass over blocks. With a dealer, few pairs are compared in
               one pass: a row of 100 numbers takes 0.6 MB more from it, and 5 rounds fewer
Security       composition: perfect
How            the r-th largest wins against all but r - 1 of the others. In the last pass k zeros precede the integers:
               an integer that is not above 0 loses to all of them, so it has none of the first k ranks
Source         rank by all comparisons, as in mpc/comparison/all_pairs.py
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import and_each, select
from mpc.comparison.all_pairs import MOST_KEYS, compare_pairs, groups_of
from mpc.errors import RangeError
from mpc.lookup.equality import equals_zero
from mpc.protocol import Z32, AShare, BShare, Endpoint, Steps, calls, composed, concatenate, describe, protocol
from mpc.rings import integers
from mpc.words import U8, low_bits

# Pairs that are compared at once.
PORTION = 1 << 19
MOST_RANKS = 64
# Integers per rank in a block, the most that are one block, and the most pairs that are compared in one pass instead.
PER_RANK, ONE_BLOCK, ONE_PASS = 5, 24, 1 << 13


@protocol()
def ranks(party: Endpoint, scores: AShare, count: int, bits: int) -> Steps[BShare]:
    """[s], [n, d] -> <s is the r-th largest of its row, and above 0>, [n, count, d], count <= 64.

    s is known modulo 2^(bits + 1); it and the differences are below 2^bits. `bits` is less than the width of a word.
    Raises RangeError.
    """
    if not 1 <= count <= MOST_RANKS:
        raise RangeError(f"ranks must be 1 .. {MOST_RANKS}, got {count}")
    n, d = scores.shape
    size = min(PER_RANK * count, MOST_KEYS - count)
    if d <= max(size, ONE_BLOCK) or _at_once(party, n, d, count):
        return (yield from _of_blocks(party, scores, count, bits, zeros=count))
    blocks = -(-d // size)
    size = -(-d // blocks)
    padded = scores.map(lambda w: np.pad(w, [(0, 0), (0, blocks * size - d)])).reshape(n * blocks, size)
    # Numbers that are not above 0 have ranks here, and lose them in the last pass.
    within = yield from _of_blocks(party, padded, count, bits, zeros=0)
    known = integers(scores.dtype, bits + 1)
    best = yield from select.steps(party, within, padded.map(lambda w: low_bits(w[:, None], known.bits)), known)
    among = yield from ranks.steps(party, best.sum(axis=-1).reshape(n, blocks * count), count, bits)
    places = among.reshape(n, count, blocks, count)
    spread = within.map(
        lambda b: np.broadcast_to(b.reshape(n, 1, blocks, count, size), (n, count, blocks, count, size))
    )
    found = yield from and_each.steps(party, places, spread)
    return found.parity(axis=3).reshape(n, count, blocks * size)[..., :d]


def _at_once(party: Endpoint, n: int, d: int, count: int) -> bool:
    """Whether there is a dealer, and so few numbers, [n, d], that rounds count for more than bytes."""
    return party.randomness.has_dealer and d + count <= MOST_KEYS and n * _pairs(d + count) <= ONE_PASS


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _of_blocks(party: Endpoint, scores: AShare, count: int, bits: int, zeros: int) -> Steps[BShare]:
    """Rank each row by comparisons of all pairs, after so many zeros."""
    n, d = scores.shape
    size = d + zeros
    first = AShare(np.zeros((n, zeros), scores.dtype), party.rank)
    keys, per = concatenate([first, scores.at_scale(0)], axis=1), max(1, PORTION // _pairs(size))
    wanted = (size - 1 - np.arange(count)).astype(U8)[:, None] * U8.type(party.rank == 0)
    found = []
    for start in range(0, n, per):
        some = keys[start : start + per]
        compared = yield from compare_pairs.steps(party, some, bits, picks=False)
        wins = AShare(compared.counts[:, None, zeros:] - wanted, party.rank)
        found.append((yield from equals_zero.steps(party, wins, groups_of(some, bits).counts.width)))
    return concatenate(found)


describe(
    ranks,
    samples=calls(lambda i, n: [i.words(0, 99, n, 4), 2, 10]) + calls(lambda i, n: [i.words(0, 99, n, 30), 2, 10]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 30, ring=Z32), 4, 26], element="row of 30 numbers, 4 ranks"),
    evidence=composed(compare_pairs, equals_zero, select, and_each),
    # 10,000 runs are one portion.
    lanes=calls(lambda i, n: [i.words(0, 99, n, 4), 2, 10]) + calls(lambda i, n: [i.words(0, 99, n, 25), 1, 10]),
)
