"""How finely a statistic is revealed, and how many bits that tells about the labels.

A number is rounded on shares to a multiple of 2^-f, the power of two below its standard error. The standard error is
the least that so many rows allow, because the number of positives is secret: one label then seldom changes the number.
A release counts all values that its numbers can take, and the possible choices of names.
"""

from __future__ import annotations

import math

from secure_tree.explore.config import ExploreConfig, Statistic
from secure_tree.public.exact import ceil_log2

# Bits behind the point of a weight of evidence: one decimal.
WOE_FRACTION = 3
# The bits before the point of a logarithm of fewer than 2^26 rows, and of a divergence, which is at most twice that.
_LOG_BITS, _DIVERGENCE_BITS = 5, 6


def fraction(statistic: Statistic, config: ExploreConfig, rows: tuple[int, ...], bins: int) -> int:
    """Return the bits behind the point. rows: of both parties, and of each owner."""
    first = second = sum_of(config, rows) / 2
    if statistic == "psi" and config.partition == "horizontal":
        cut = 2 if len(rows) > 2 else 1
        first, second = sum(rows[:cut]), sum(rows[cut:])
    if statistic in ("iv", "psi"):
        error = math.sqrt(2 * (bins - 1)) * (1 / first + 1 / second)
    else:
        # Of the area under the curve, and of the largest distance, as if half of the rows were positive.
        error = math.sqrt((1 / 3 if statistic == "auc" else 1 / 4) / (first + second))
    digits = ceil_log2(10.0**config.floors.digits)
    return max(1, min(digits, ceil_log2(1 / error)))


def plain_fraction(digits: int, rows: int) -> int:
    """Return the bits behind the point of a mean, in standard deviations, of a rate, or of a correlation."""
    return max(1, min(ceil_log2(10.0**digits), ceil_log2(math.sqrt(rows))))


def sum_of(config: ExploreConfig, rows: tuple[int, ...]) -> int:
    """Return the number of rows of all tables together."""
    return sum(rows) if config.partition == "horizontal" else rows[0]


def released_bits(config: ExploreConfig, rows: tuple[int, ...], features: int, bins: int) -> dict[str, int]:
    """Return the bits of each part of a release about the labels: names, numbers and weights of evidence."""
    chosen, groups = min(config.top, features), config.groups
    found = {}
    if config.of_labels and chosen < features:
        found["names"] = (math.comb(features, chosen) - 1).bit_length()
    for statistic in config.shown:
        if statistic != "psi":
            whole = _DIVERGENCE_BITS if statistic == "iv" else 0
            found[statistic] = chosen * groups * (fraction(statistic, config, rows, bins) + whole)
    if config.reveal != "names" and "label_rate" in config.statistics:
        found["label_rate"] = plain_fraction(config.floors.digits, sum_of(config, rows))
    if config.reveal == "woe":
        found["woe"] = chosen * groups * bins * (1 + WOE_FRACTION + _LOG_BITS + 1)
    return found


def entropy(counts: list[int]) -> float:
    """Return the entropy of labels in bits, n H(P / n) for two classes, from the number of rows of each class."""
    n = sum(counts)
    return sum(c * math.log2(n / c) for c in counts if c)


def least_of_class(rows: int, classes: int, bits: float, least: int) -> int:
    """Return the fewest rows of each class, at least `least`, of which so many of `rows` labels have an entropy of at
    least `bits`; more than rows / classes if there are none.

    The entropy is least where all classes but one have the fewest rows.
    """
    low, high = least, max(least, rows // classes + 1)
    while low < high:
        middle = (low + high) // 2
        enough = entropy([middle] * (classes - 1) + [rows - (classes - 1) * middle]) >= bits
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
