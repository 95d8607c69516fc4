"""First and second derivatives of the loss, from shares of the margin, rounded to the histogram's scale."""

from __future__ import annotations

import numpy as np

from mpc.party import Party, Steps
from mpc.ring import U32
from mpc.shares import AShare, public_ring, stack
from mpc.sigmoid import sigmoid
from mpc.truncation import truncate
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.tree import Ground


def gradients(party: Party, ground: Ground, margin: AShare) -> Steps:
    """[margin] at MARGIN_SCALE -> [g], [h] and, if rows are to be counted, [1]: uint32 [s, n] at the histogram scale.

    Logistic: sigma - y and sigma (1 - sigma). Squared error: margin - y and 1, both over the label scale.
    Rounding is stochastic and unbiased, so that sums over many rows lose nothing.
    """
    scale = ground.numerics.histogram_scale
    if ground.config.logistic:
        p, h = yield from sigmoid.steps(party, margin.at_scale(MARGIN_SCALE), scale)
        g = p.at_scale(0) - ground.labels.times(1 << scale)
        h = h.at_scale(0)
    else:
        g = yield from truncate.steps(party, margin - ground.labels, MARGIN_SCALE - scale)
        g = g.at_scale(0)
        h = public_ring(np.full(margin.shape, 1 << scale), party.rank)
    rows = [public_ring(np.ones(margin.shape, np.int64), party.rank)] if ground.config.min_child_samples > 1 else []
    return stack([g, h, *rows]).narrow(U32)
