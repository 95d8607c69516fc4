"""Which of many shared integers are among the k largest.

Functionality  [s_1 .. s_d], public k -> <s_i is one of the k largest>; of equal ones, the first count as larger
Messages       a comparison of every pair; the conversion of its result to the ring; a comparison with k
Cost           d (d - 1) / 2 comparisons. Pairs are compared in portions, which bound the memory
Security       composition: perfect
How            the smaller one of a pair has lost to the other; those that have lost fewer than k times are the largest
Source         rank by all comparisons, as in mpc/comparison/all_pairs.py
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import to_ring
from mpc.comparison.comparison import below
from mpc.protocol import Z16, AShare, BShare, Endpoint, Steps, calls, composed, describe, protocol

# Pairs that are compared at once.
PORTION = 1 << 18


@protocol()
def largest(party: Endpoint, scores: AShare, count: int, bits: int) -> Steps[BShare]:
    """[s], [g, d] with d < 2^15, differences below 2^(bits - 1) -> <s is one of the `count` largest of its row>."""
    groups, d = scores.shape
    first, second = np.triu_indices(d, 1)
    lost, per = np.zeros((d, groups), np.uint16), max(1, PORTION // max(1, groups))
    for start in range(0, first.size, per):
        i, j = first[start : start + per], second[start : start + per]
        less = yield from below.steps(party, scores[:, i] - scores[:, j], [0], bits)
        loses = yield from to_ring.steps(party, less[..., 0], Z16)
        np.add.at(lost, i, loses.words.T)
        np.add.at(lost, j, (1 - loses).words.T)
    return (yield from below.steps(party, AShare(lost.T.copy(), party.rank), [count], Z16.bits))[..., 0]


describe(
    largest,
    samples=calls(lambda i, n: [i.words(-99, 99, n, 4), 2, 10]),
    priced=calls(lambda i, n: [i.words(0, 1, 1, n), 10, 32], element="of n numbers of 32 bits"),
    evidence=composed(below, to_ring),
)
