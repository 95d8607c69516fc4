"""Quantiles of columns of which each party holds a part. Only the quantiles become public.

pooled_quantiles   own parts of columns, public ranks -> the quantiles, to both parties
short_of           [mass], [total], public ranks and parts -> <mass / total < rank / parts>

Messages       for each bit of a key, for all columns and ranks together: `short_of`, and its revealed result
Cost           per bit of a key: the rounds of a comparison and one more; per quantile a comparison and a bit
Security       semi-honest, perfect (under "keys" as mpc/comparison/comparison_keys.py): a comparison reveals nothing,
               and the revealed bits are those of the quantile, which anyone who knows the quantile can compute
How            bisection: quantile r/s is the least key v such that keys up to v have at least r/s of the mass. It
               exceeds a key m iff s mass(up to m) < r total. For m in the middle of the 2^b remaining keys, that
               comparison is bit b - 1 of the quantile. Each party adds up the masses of its own keys in the clear
Source         Aggarwal, Mishra and Pinkas, EUROCRYPT 2004 (secure computation of the k-th ranked element)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpc.comparison.comparison import below
from mpc.party import Party
from mpc.protocol import AShare, Bits, BShare, Endpoint, Enumerated, Steps, calls, composed, describe, protocol, word


@dataclass(frozen=True)
class PooledColumn:
    """One party's part of a column: keys int64[n] in ascending order, and the mass up to each place, int64[n + 1]."""

    keys: np.ndarray
    masses: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, masses: np.ndarray) -> PooledColumn:
        """Make a column from keys in any order and their integer masses, both int64[n]."""
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], np.concatenate([[0], np.cumsum(masses[order])]))

    def up_to(self, keys: np.ndarray) -> np.ndarray:
        """Return the mass of the keys up to each of `keys`."""
        return self.masses[np.searchsorted(self.keys, keys, side="right")]


# For f columns: keys int64[f, k] -> the mass of a party's own keys up to each of them, int64[f, k].
UpTo = Callable[[np.ndarray], np.ndarray]


def masses_of(columns: Sequence[PooledColumn]) -> UpTo:
    """Return the masses of columns that this process holds."""
    return lambda keys: np.stack([column.up_to(line) for column, line in zip(columns, keys, strict=True)])


@protocol()
def short_of(
    party: Endpoint,
    mass: AShare,
    total: AShare,
    rank: np.ndarray,
    parts: np.ndarray,
    bits: int = 64,
) -> Steps[BShare]:
    """[mass], [total] and public integers, int64 of one shape -> <mass / total < rank / parts>.

    Exact while parts * mass and rank * total are below 2^(bits - 1).
    """
    off = mass.times(parts) - total.times(rank)
    return (yield from below.steps(party, off, [0], bits))[..., 0]


def pooled_quantiles(
    party: Party,
    own: UpTo,
    rank: np.ndarray,
    parts: np.ndarray,
    key_bits: int,
    bits: int,
    what: str,
) -> np.ndarray:
    """Own masses of f columns -> int64[f, k], quantiles `rank` of `parts` of the pooled columns, revealed as `what`.

    Keys are below 2^key_bits, and pooled masses times parts below 2^(bits - 1); rank <= parts are public int64[f, k].
    Quantile 0 is key 0, and every quantile of a column without mass is 0.
    """
    quantiles = np.zeros(rank.shape, np.int64)
    total = _share(party, own(np.full(rank.shape, (1 << key_bits) - 1)))
    for place in reversed(range(key_bits)):
        middle = quantiles + (1 << place) - 1
        mass = _share(party, own(middle))
        above = party.reveal(party.run(short_of.steps(party, mass, total, rank, parts, bits)), what=what)
        assert above is not None, "revealed to both"
        quantiles += above.astype(np.int64) << place
    return quantiles


def _share(party: Endpoint, own: np.ndarray) -> AShare:
    """Return own masses as a share of the pooled ones."""
    return AShare(own.astype(np.uint64), party.rank)


describe(
    short_of,
    samples=calls(lambda i, n: [i.words(0, 99, n), i.words(99, 198, n), np.full(n, 3), np.full(n, 8)]),
    priced=calls(
        lambda i, n: [i.words(0, 1, n), i.words(0, 1, n), np.full(n, 1), np.full(n, 32), 25],
        element="bit of a quantile of 2^18 rows",
    ),
    evidence=[
        *composed(below),
        Enumerated(
            "Z_4, one half of up to two rows",
            (word(2), word(2), np.full(1, 1), np.full(1, 2), 2),
            lambda mass, total: 2 * mass < total,
            draws=[None, Bits(2), Bits(1), Bits(2)],
            promise=lambda mass, total: (mass < 2) & (total < 3) & (mass <= total),
        ),
    ],
)
