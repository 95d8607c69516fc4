"""What known attacks on Ferret's instance of LPN cost, in bit operations: run before a release, and by the tests.

    python -m protocols.ot.lpn_estimate

The instance: n = t b sums of d of k secret bits, with one error in each of t blocks of b sums. An attacker is given all
sums. Estimates are meant to be low: an attack pays for what it cannot do without, and is given the rest.

Decoding       Choose as many sums as there are unknowns, hope that at most p of them have an error, and solve. Sums are
               sparse, so an attacker keeps a set S of columns, and only the sums that lie in S: fewer unknowns, fewer
               sums that must be clean. Candidates for p errors are found by a meeting in the middle. A try pays for
               reading its sums, or for the lists of candidates, whichever is more; linear algebra is free
Which S        the smallest that is expected to exist for a random code (first moment), although nobody can find it;
               what dropping the column with the fewest sums, over and over, finds is printed beside it
Statistical    linear dependences among the sums in S, each of half of them, are biased
Algebraic      guess some sums of some blocks to be clean, then linearise the quadratic system at the degree at which
               its Hilbert series is no longer positive, on all columns or on those of S. M monomials cost M^2
Regular noise  one error per block, so the sum over a block has an error for certain: t unknowns less, for all attacks
Source         decoding: Prange 1962, Stern 1989; regular noise: Esser and Santini, CRYPTO 2024; algebraic, hybrid:
               Briaud and Oygarden, EUROCRYPT 2023; the subset of columns: ours, from the weight of the sums
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, lgamma, log, log2

import numpy as np

from protocols.ot import ferret
from protocols.ot.kernels.lpn import ROW_WEIGHT

_MOST_ERRORS = 16
_DEGREES = range(2, 7)


@dataclass(frozen=True)
class Instance:
    """t blocks of 2^depth sums, k secret bits, d of them in each sum."""

    trees: int
    depth: int
    secret: int
    weight: int

    @property
    def block(self) -> int:
        return 1 << self.depth

    @property
    def outputs(self) -> int:
        return self.trees << self.depth


IN_USE = Instance(ferret.TREES, ferret.DEPTH, ferret.SECRET, ROW_WEIGHT)


def estimates(instance: Instance) -> dict[str, float]:
    """Return log2 of the bit operations of each attack."""
    least = least_columns(instance)
    return {
        "decoding, all columns": decoding(instance, instance.secret),
        "decoding, subset of columns": decoding(instance, least * instance.secret),
        "statistical decoding": statistical_decoding(instance, least * instance.secret),
        "algebraic, hybrid": min(algebraic(instance, share) for share in np.linspace(least, 1, 9)),
    }


def decoding(instance: Instance, columns: float) -> float:
    """Return the cost of decoding in a set of columns that has as many sums."""
    unknowns = columns - instance.trees
    return min(
        tries(instance, unknowns, errors)
        + max(log2(instance.weight * unknowns), _log2_choices(unknowns, errors) / 2 if errors else 0.0)
        for errors in range(_MOST_ERRORS + 1)
    )


def tries(instance: Instance, sums: float, errors: int = 0) -> float:
    """Return log2 of the expected tries until `sums` sums, an equal part of each block, have this many errors."""
    t, hit = instance.trees, sums / instance.outputs
    return -(_log2_choices(t, errors) + errors * log2(hit) + (t - errors) * log2(1 - hit))


def statistical_decoding(instance: Instance, columns: float) -> float:
    """Return the number of dependences, of half of the sums in a set of columns, that show their bias."""
    bias = (columns - instance.trees) / 2 * log2(1 - 2 / instance.block)
    return -2 * bias


def algebraic(instance: Instance, share: float) -> float:
    """Return the cost of the best hybrid attack on a share of the columns with all sums that can lie in them."""
    unknowns, sums = share * instance.secret, instance.outputs * _most_sums(instance, share)
    t, block = instance.trees, int(sums / instance.trees)
    checks = max(int(sums - unknowns), 0)
    costs = []
    for degree in _DEGREES:
        for blocks in range(t // 10, t + 1, t // 10):
            zeros = _zeros(t, block, checks, blocks, degree)
            if zeros is not None:
                rest = max(unknowns - t - blocks * zeros, float(degree))
                guess = -blocks * log2(1 - zeros / instance.block)
                costs.append(guess + 2 * max(_log2_choices(rest, degree), log2(unknowns)))
    return min(costs, default=float("inf"))


def least_columns(instance: Instance) -> float:
    """Return the smallest share of the columns for which a set with as many sums is expected to exist."""
    shares = np.linspace(0, 1, 2001)[1:-1]
    return next(share for share in shares if instance.outputs * _most_sums(instance, share) >= share * instance.secret)


def greedy_columns(instance: Instance, secret: int = 1 << 13, seed: int = 1) -> float:
    """Return the share that an attacker finds, by dropping columns with few sums; it does not depend on the size."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, secret, (round(instance.outputs / instance.secret * secret), instance.weight))
    kept, live = np.ones(secret, bool), np.arange(len(rows))
    share = 1.0
    while live.size > kept.sum():
        share = float(kept.mean())
        columns = np.flatnonzero(kept)
        sums = np.bincount(rows[live].reshape(-1), minlength=secret)[columns]
        kept[columns[np.argsort(sums)[: max(1, columns.size // 250)]]] = False
        live = live[kept[rows[live]].all(axis=1)]
    return share


def _most_sums(instance: Instance, share: float) -> float:
    """Return the largest share of the sums that some set of this share of the columns is expected to have."""
    if share >= 1:
        return 1.0
    chance = share**instance.weight
    room = instance.secret / instance.outputs * -(share * log2(share) + (1 - share) * log2(1 - share))
    low, high = chance, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        # Chernoff's bound on the number of sums, over all sets of this size.
        if _divergence(middle, chance) <= room:
            low = middle
        else:
            high = middle
    return low


def _divergence(a: float, b: float) -> float:
    rest = (1 - a) * log2((1 - a) / (1 - b)) if a < 1 else 0.0
    return a * log2(a / b) + rest


def _zeros(trees: int, block: int, checks: int, blocks: int, degree: int) -> int | None:
    """Return how many sums to guess in each of `blocks` blocks so that a degree suffices; None if none do."""
    low, high = 0, block - 2
    if not _suffices(trees, block, checks, blocks, high, degree):
        return None
    while low < high:
        middle = (low + high) // 2
        if _suffices(trees, block, checks, blocks, middle, degree):
            high = middle
        else:
            low = middle + 1
    return low


def _suffices(trees: int, block: int, checks: int, blocks: int, zeros: int, degree: int) -> bool:
    """Return whether (1 + (b - 1 - zeros) z)^blocks (1 + (b - 1) z)^(t - blocks) / (1 + z)^checks has a coefficient
    that is not positive, up to this degree.
    """
    factors = [
        [comb(blocks, i) * (block - 1 - zeros) ** i for i in range(degree + 1)],
        [comb(trees - blocks, i) * (block - 1) ** i for i in range(degree + 1)],
        [(-1) ** i * comb(checks + i - 1, i) for i in range(degree + 1)],
    ]
    series = factors[0]
    for factor in factors[1:]:
        series = [sum(series[i] * factor[j - i] for i in range(j + 1)) for j in range(degree + 1)]
    return min(series) <= 0


def _log2_choices(n: float, k: int) -> float:
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def main() -> None:
    share, found = least_columns(IN_USE), greedy_columns(IN_USE)
    print(f"t = {IN_USE.trees}, 2^{IN_USE.depth} sums per block, k = {IN_USE.secret}, {IN_USE.weight} columns per sum")
    print(f"columns of the subset: {share:.1%} of k; found by dropping columns: {found:.1%}")
    for attack, bits in estimates(IN_USE).items():
        print(f"2^{bits:.0f}  {attack}")
    print(f"2^{decoding(IN_USE, found * IN_USE.secret):.0f}  decoding, subset of columns as found")


if __name__ == "__main__":
    main()
