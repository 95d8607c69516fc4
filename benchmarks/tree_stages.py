"""One tree on data by rows as an operation to measure, and the dealt bytes of each of its stages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.pair import Operation
from mpc.endpoint import ROUND_PRICE
from mpc.party import Party
from mpc.planning import Rehearsal
from mpc.shares import public_ring
from protocols.offline.sizes import dealt_bytes
from secure_tree.data.bins import make_bins
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.layout import lay_out
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.sampling import samples_by_round
from secure_tree.training.boost import boost_once, set_up

FEATURES, BINS, DEPTH = 20, 32, 4
STAGES = ("gradients", "histograms", "gains", "best split", "rows to children", "leaf weights")


def made_up_rows(rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X float32[rows, features], and labels 0 or 1 that depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features), np.float32)
    return X, (X[:, 0] + X[:, 1] * rng.standard_normal(rows) > 0).astype(float)


def _ready(party: Party, n: int) -> Callable[[Party], Any]:
    """Set up n rows, half of them at each party, and return a function that grows a tree."""
    config = TrainConfig.of(n_estimators=1, max_depth=DEPTH, max_bin=BINS)
    names = tuple(f"f{i}" for i in range(FEATURES))
    layout = lay_out(config, (names, names), (n - n // 2, n // 2))
    context = TrainingContext(config, PublicFacts("", names, layout, 1.0))
    X, y = made_up_rows(layout.rows[party.rank], FEATURES, party.rank)
    bins, base = (
        make_bins(X, layout.sizes[party.rank], layout.finer),
        public_ring(np.zeros(1), party.rank, MARGIN_SCALE),
    )
    nobody = Table(X[:0], names, y[:0])
    boosting = party.run(set_up(party, context, base, bins, Here(Table(X, names, y), nobody)))
    (samples,) = samples_by_round(context)
    return lambda p: p.run(boost_once(p, boosting, samples))


def tree() -> Operation:
    """A cache of set-ups, so that repetitions share one."""
    made: dict[int, Callable[[Party], Any]] = {}

    def prepare(party: Party, n: int) -> Callable[[Party], Any]:
        if n not in made:
            made[n] = _ready(party, n)
        return made[n]

    return prepare


@cache
def dealt_by_stage(n: int) -> dict[str, int]:
    """Return the bytes of corrections to both parties, from a rehearsal.

    The masks of a tree's known matrices, a few hundred bytes per bin and a bit per row and node, are requested with the
    gradients.
    """
    rehearsal = Rehearsal.at(0, round_price=ROUND_PRICE)
    run = _ready(rehearsal.party, n)
    rehearsal.cut()
    dealt = dict.fromkeys(STAGES, 0)
    entered: list[str] = []

    def enter(stage: str | None) -> None:
        demand = rehearsal.cut()
        if entered:
            dealt[entered[-1]] += sum(map(sum, dealt_bytes(demand.requests).values()))
        if stage:
            entered.append(stage)

    rehearsal.party.part = enter  # type: ignore[method-assign, assignment]
    run(rehearsal.party)
    return dealt
