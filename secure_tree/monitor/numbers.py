"""What a monitoring reveals: a rounded number or one alarm bit per statistic, where it is defined.

Reveals        for each value whether it is defined, and where it is, the number rounded on shares, or whether it is
               beyond its alarm
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.bits import and_bits, select
from mpc.comparison.comparison import below
from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare
from secure_tree.explore.statistics import rounded
from secure_tree.monitor.config import Statistic
from secure_tree.public.numerics import MARGIN_SCALE

# Bits of the distance from an alarm.
BEYOND_BITS = 44
SAID: dict[Statistic, str] = {
    "scores": "the stability index of the scores",
    "features": "the stability index of each feature",
    "auc": "the AUC",
    "ks": "the Kolmogorov-Smirnov statistic",
    "ece": "the expected calibration error",
    "slope": "the calibration slope",
    "parity": "the difference of selection rates between groups",
    "odds": "the difference of equalised odds between groups",
    "calibration": "the difference of calibration between groups",
    "loss": "the mean loss of each group",
}


@dataclass(frozen=True)
class Number:
    """A statistic on shares: values at MARGIN_SCALE, [k]. defined: <whether each has enough rows>, None if all have.

    beyond: below 0 where there is an alarm, [k]; None if a statistic has no alarm.
    """

    name: Statistic
    value: AShare
    beyond: AShare | None
    defined: BShare | None = None


def above(value: AShare, most: float) -> AShare:
    """Return a share that is below 0 iff a value at MARGIN_SCALE is above `most`."""
    return round(most * (1 << MARGIN_SCALE)) - value


def shown(party: Party, number: Number, alarms: bool, fractions: int) -> Steps[AShare | BShare]:
    """Return [rounded values] or <alarms>, 0 where they are not defined, [k]."""
    defined = number.defined
    if alarms:
        assert number.beyond is not None, "the configuration asks for none"
        beyond = (yield from below.steps(party, number.beyond, [0], BEYOND_BITS))[..., 0]
        return beyond if defined is None else (yield from and_bits.steps(party, beyond, defined))
    value = yield from rounded(party, number.value, fractions)
    return value if defined is None else (yield from select.steps(party, defined, value))


def reveal_numbers(
    party: Party, numbers: Sequence[Number], alarms: bool, fractions: int
) -> dict[Statistic, np.ndarray]:
    """Reveal statistics to both, each float64[k], of alarms 0 or 1; NaN where it is not defined."""
    found: dict[Statistic, np.ndarray] = {}
    ready = party.run(parallel(*(shown(party, number, alarms, fractions) for number in numbers)))
    for number, secret in zip(numbers, ready, strict=True):
        of = SAID[number.name]
        what = f"whether {of} is beyond its alarm" if alarms else f"{of}, to {2.0**-fractions:.2g}"
        values, enough = party.reveal(secret, what=what), np.ones(secret.shape, np.uint8)
        if number.defined is not None:
            opened = party.reveal(number.defined, what=f"whether {of} has enough rows")
            assert opened is not None, "revealed to both"
            enough = opened
        assert values is not None, "revealed to both"
        found[number.name] = np.where(enough == 1, values, np.nan)
    return found
