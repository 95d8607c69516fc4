"""Which of many shared integers is the r-th largest, for the first few ranks.

Functionality  [s_1 .. s_d] >= 0, public k -> for r = 1 .. k: <s_i is the r-th largest, and above 0>; of equal ones, the
               first counts as larger
Messages       a comparison of every pair (mpc/comparison/all_pairs.py); a look-up of every number of wins
Cost           3 rounds; (d + k) (d + k - 1) / 2 comparisons and k d look-ups per row
Security       composition: perfect
How            k zeros precede the integers. An integer that is 0 loses to all of them, so it has none of the first k
               ranks. The r-th largest wins against all but r - 1 of the others
Source         rank by all comparisons, as in mpc/comparison/all_pairs.py
"""

from __future__ import annotations

import numpy as np

from mpc.comparison.all_pairs import MOST_KEYS, compare_pairs, groups_of
from mpc.errors import RangeError
from mpc.lookup.equality import equals_zero
from mpc.protocol import AShare, BShare, Endpoint, Steps, calls, composed, concatenate, describe, protocol
from mpc.words import U8

# Pairs that are compared at once.
PORTION = 1 << 19


@protocol()
def ranks(party: Endpoint, scores: AShare, count: int, bits: int) -> Steps[BShare]:
    """[s], [n, d], 0 <= s < 2^bits -> <s is the r-th largest of its row, and above 0>, [n, count, d].

    Raises RangeError if d + count is above 256.
    """
    n, d = scores.shape
    size = d + count
    if size > MOST_KEYS:
        raise RangeError(f"at most {MOST_KEYS - count} numbers can be ranked for {count} ranks, got {d}")
    zeros = AShare(np.zeros((n, count), scores.dtype), party.rank)
    keys, per = concatenate([zeros, scores.at_scale(0)], axis=1), max(1, PORTION // (size * (size - 1) // 2))
    wanted = (size - 1 - np.arange(count)).astype(U8)[:, None] * U8.type(party.rank == 0)
    found = []
    for start in range(0, n, per):
        some = keys[start : start + per]
        compared = yield from compare_pairs.steps(party, some, bits)
        wins = AShare(compared.counts[:, None, count:] - wanted, party.rank)
        found.append((yield from equals_zero.steps(party, wins, groups_of(some, bits).counts.width)))
    return concatenate(found)


describe(
    ranks,
    samples=calls(lambda i, n: [i.words(0, 99, n, 4), 2, 10]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 30), 4, 26], element="row of 30 numbers, 4 ranks"),
    evidence=composed(compare_pairs, equals_zero),
)
