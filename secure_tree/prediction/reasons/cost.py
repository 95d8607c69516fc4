"""The cost of reasons, counted by a rehearsal of the table and of rows on zeros."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc.endpoint import ROUND_PRICE
from mpc.planning import Demand, Rehearsal
from mpc.rings import Z64
from mpc.shares import AShare, BShare
from mpc.words import U8, Shape
from secure_tree.model.ensemble import Ensemble, NodeStatistics
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.reasons.explaining import Explanation, revealed_reasons
from secure_tree.prediction.reasons.request import Groups, Show, requested
from secure_tree.prediction.reasons.table import make_table
from secure_tree.public.config import Method
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE


def plan_reasons(
    context: TrainingContext,
    rows: int,
    *,
    top: int = 4,
    groups: Groups | None = None,
    show: Show = "names",
    method: Method = "thresholds",
    dealer: bool = True,
    round_price: int = ROUND_PRICE,
) -> tuple[Demand, Demand]:
    """Return the demand of the table of a model that is trained in this context, and of `rows` rows.

    By rows, they are those of party 0; by columns, it learns the reasons. Messages in the clear are not counted.
    """
    config, layout = context.config, context.layout.of_parties
    trees, m, width = config.trees, config.nodes, layout.feature_count

    def bits(*shape: int) -> BShare:
        return BShare(_zeros(shape, U8), 0)

    def words(*shape: int, scale: int = 0) -> AShare:
        return AShare(_zeros(shape, Z64.dtype), 0, scale)

    ensemble = Ensemble(
        sets=[bits(trees, m, layout.widths[p], layout.bins(p)) for p in layout.blocks],
        features=bits(trees, m, width),
        null=bits(trees, m),
        thresholds=words(trees, m),
        chosen=words(trees, m, width + len(layout.missing)),
        leaves=words(trees, m + 1, scale=MARGIN_SCALE),
        base=words(config.classes, scale=MARGIN_SCALE),
        statistics=NodeStatistics(None, words(trees, 2 * m + 1)),
    )
    cuts = np.zeros((layout.widths[0], layout.present(0)), np.float32)
    model = SharedModel(0, config, replace(context.facts, layout=layout), cuts, ensemble)
    request = requested(model, 0 if layout.vertical else None, top, groups or {}, show, "higher")
    of_rows = replace(layout, rows=(rows, rows if layout.vertical else 0))
    rehearsal = Rehearsal.at(0, dealer, round_price)
    table = rehearsal.party.run(make_table(rehearsal.party, model, request))
    made = rehearsal.cut("table")
    own = np.zeros((rows, layout.widths[0]), np.float32)
    revealed_reasons(rehearsal.party, Explanation(model, table, request), of_rows, own, method)
    return made, rehearsal.cut("rows")


def _zeros(shape: Shape, dtype: np.dtype) -> np.ndarray:
    return np.broadcast_to(dtype.type(0), shape)
