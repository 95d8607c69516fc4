"""Drift of scores and features: the stability index between now and the profile, of counts by the same bins.

scores     of the margins, by 12 bins of log-odds
features   of each feature, by the bins of the profile: by columns its owner counts now and then, by rows each party
           counts its own rows, so that no message depends on how many there are

Functionality  [counts now], [counts then] -> [stability index]
Messages       those of secure_tree/functions/divergence.py
Error          2e-5
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

from mpc.party import Party
from mpc.rounds import Steps
from mpc.shares import AShare
from secure_tree.functions.divergence import divergence
from secure_tree.monitor.config import MonitorConfig, Statistic
from secure_tree.monitor.numbers import Number, above


def drift(
    party: Party, config: MonitorConfig, of: Statistic, now: AShare, then: AShare, rows: int
) -> Steps[list[Number]]:
    """[counts now], [counts then], [d, k], with sums up to `rows` -> stability indices of `scores` or `features`."""
    value, _ = yield from divergence(party, now, then, rows.bit_length())
    return [Number(of, value, above(value, config.alarms.psi))]
