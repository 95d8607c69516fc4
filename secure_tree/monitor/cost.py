"""The cost of a monitoring, counted by a rehearsal of all its steps on zeros."""

from __future__ import annotations

import numpy as np

from mpc.endpoint import ROUND_PRICE
from mpc.planning import Demand, Rehearsal
from mpc.shares import AShare
from secure_tree.explore.precision import plain_fraction
from secure_tree.monitor.config import OF_PROFILE, MonitorConfig
from secure_tree.monitor.known import Known
from secure_tree.monitor.monitor import computed
from secure_tree.monitor.numbers import reveal_numbers
from secure_tree.monitor.profile import BINS, Profile
from secure_tree.monitor.scores import FINE, Scored
from secure_tree.public.config import Partition
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE


def plan_monitoring(
    config: MonitorConfig,
    partition: Partition,
    rows: tuple[int, int],
    features: tuple[int, int],
    *,
    groups: int = 2,
    together: bool = False,
    labelled: bool = True,
    bits: int = 32,
    dealer: bool = True,
    round_price: int = ROUND_PRICE,
) -> Demand:
    """Return the demand of a monitoring of scored rows; that of their prediction is that of `predict_margin`.

    groups: how many. together: by columns, whether one party knows labels and groups. labelled: whether the profile was
    made with labels. bits: those of comparisons with a margin. Messages in the clear, two of a few hundred bytes, are
    not counted.
    """
    vertical = partition == "vertical"
    layout = Layout(partition, rows, features, (2, 2))
    scored = Scored(AShare(np.zeros(layout.row_count, np.uint64), 0, MARGIN_SCALE), layout, bits, "")
    known = Known.of(0, scored, None, None, groups, together or not vertical)
    now, profile = np.zeros((features[0], BINS + 1), np.uint64), None
    if config.asks(*OF_PROFILE) or config.reveal == "alarms":
        scores = AShare(np.zeros((2, FINE), np.uint64), 0)
        edges = np.zeros((features[0], BINS), np.float32)
        profile = Profile(0, "", "", layout.row_count, labelled, config.span, scores, edges, now)
    rehearsal = Rehearsal.at(0, dealer, round_price)
    found = rehearsal.party.run(computed(rehearsal.party, config, scored, known, profile, now))
    fractions = plain_fraction(config.floors.digits, layout.row_count)
    reveal_numbers(rehearsal.party, found, config.reveal == "alarms", fractions)
    return rehearsal.cut("monitor")
