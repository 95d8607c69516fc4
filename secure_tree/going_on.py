"""Going on from a model: more rounds of trees at its cuts, from the margins that it gives the rows.

Functionality  a model and own rows -> [what its trees add to the margin] of the rows to train on and of those held out
Messages       a prediction of these rows by bins, of which nothing is revealed. Under squared error, in the clear, one
               bit: whether the residuals are in the range that the arithmetic of the model was chosen for. It is 1
               where the rows are those that the model was trained on
Bins           the model's cuts; a value below the least one counts as that. The medians of private bins are those of
               the rows at hand: with the rows of the model's training, the same as then
Security       semi-honest, perfect: the composition of secure_tree/predict.py and comparisons
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import to_ring
from mpc.comparison import below
from mpc.errors import ConfigError, DataError
from mpc.one_hot import all_of
from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from mpc.tracing import planned
from mpc.truncation import truncate
from secure_tree.agreement.training import same_names
from secure_tree.base_score import SPREAD_BITS
from secure_tree.binning import Bins, Counted
from secure_tree.config import TrainConfig
from secure_tree.context import TrainingContext
from secure_tree.conventions import not_fitted
from secure_tree.ensemble import Ensemble
from secure_tree.layout import Layout
from secure_tree.model import SharedModel
from secure_tree.numerics import MARGIN_SCALE, OVERSHOOT, OVERSHOOT_OF_SAMPLES
from secure_tree.own_rows import Here, OwnRows
from secure_tree.predict import margins
from secure_tree.public import ceil_log2
from secure_tree.rows import first_margin, own_rows, targets_of
from secure_tree.schema import Table

RESIDUALS = "whether the residuals are in the range of the model's arithmetic"
# Of the sum of the squares of the residuals.
SQUARES_BITS = 60
# What may differ from the training of the model: how many trees there are to be, and how they are evaluated.
FREE = (
    "n_estimators",
    "early_stopping_rounds",
    "eval_metric",
    "eval_epochs",
    "eval_threshold",
    "test_size",
    "random_state",
)


@dataclass(frozen=True)
class Begun:
    """What a training goes on from: the trees of a model, how many rounds they make, and [what they add] to the margins
    of the rows to train on and of those held out, [classes, n] each.
    """

    ensemble: Ensemble
    rounds: int
    added: AShare
    added_held_out: AShare

    def margin(self, context: TrainingContext) -> AShare:
        """Of the rows to train on."""
        return first_margin(self.ensemble.base, context, context.layout.row_count) + self.added


def shared_model(given: Any) -> SharedModel:
    """The half that `xgb_model` stands for: a fitted estimator, a half, or the path of one. Raises ConfigError."""
    if isinstance(given, str | Path):
        return SharedModel.load(given)
    model = getattr(given, "model", given)
    if model is None:
        raise not_fitted()
    if not isinstance(model, SharedModel):
        raise ConfigError(
            f"xgb_model must be a fitted estimator of Sharewood or the path of a half that it saved, got "
            f"{type(given).__name__}"
        )
    return model


def more_rounds(party: Party, model: SharedModel, config: TrainConfig) -> TrainConfig:
    """The parameters of the whole training: `n_estimators` rounds more than the model has.

    Raises ConfigError, DataError.
    """
    if party.workers:
        raise ConfigError("xgb_model must be used without shards: keep checkpoints, and resume with more n_estimators")
    if model.rank != party.rank:
        raise DataError(f"this half of xgb_model belongs to party {model.rank}, and this is party {party.rank}")
    if model.cuts.shape[1] == 0 or model.ensemble.statistics is None:
        raise ConfigError("xgb_model was shared and not trained here, so it has no bins to go on with")
    before = model.config.model_dump()
    for name, value in config.model_dump().items():
        if name not in FREE and before[name] != value:
            raise ConfigError(
                f"xgb_model was trained with {name} {before[name]}, got {value}: to go on from it, only "
                f"{', '.join(FREE)} may differ"
            )
    return TrainConfig.of(**{**config.model_dump(), "n_estimators": model.rounds + config.n_estimators})


def as_the_model(model: SharedModel, context: TrainingContext) -> TrainingContext:
    """A training on agreed tables with the bins and units of the model. Raises DataError where they do not fit it."""
    facts, before = context.facts, model.facts
    if sum(facts.layout.widths) == sum(before.layout.widths) and facts.layout.widths != before.layout.widths:
        raise DataError(
            f"the parties must have {before.layout.widths[0]} and {before.layout.widths[1]} columns, as where "
            f"xgb_model was trained, got {facts.layout.widths[0]} and {facts.layout.widths[1]}"
        )
    same_names(before.names, facts.names, "the model", "the table")
    if facts.label_holder != before.label_holder:
        raise DataError(f"party {before.label_holder} must have the labels, as where xgb_model was trained")
    if facts.label_bound > before.label_bound:
        raise DataError(
            f"y: labels must be at most {before.label_bound:g} in magnitude, as where xgb_model was trained, got up to "
            f"{facts.label_bound:g}"
        )
    if facts.weight_scale != before.weight_scale:
        raise DataError(
            f"sample_weight: the power of two above the largest weight must be that of the training of xgb_model, "
            f"{_weight(before.weight_scale)}, got {_weight(facts.weight_scale)}"
        )
    if context.config.squared and facts.weight_scale is not None:
        raise ConfigError("xgb_model under reg:squarederror must be used without sample_weight")
    layout = replace(before.layout, rows=facts.layout.rows)
    facts = replace(facts, layout=layout, label_scale=before.label_scale, label_bound=before.label_bound)
    return TrainingContext(context.config, facts)


def _weight(scale: float | None) -> str:
    return "no weights" if scale is None else f"{scale:g}"


def bins_of(model: SharedModel, own: OwnRows) -> Bins:
    """Own rows in the bins of the model."""
    assert isinstance(own, Here), "there are no workers"
    columns = own.table.features.T
    medians = [Counted.of(x[~np.isnan(x)]).medians(cuts) for x, cuts in zip(columns, model.cuts, strict=True)]
    layout = model.facts.layout
    inner = model.cuts if layout.joint else np.stack(medians).astype(np.float32)
    return Bins(own.table.features, model.cuts, inner, layout.finer)


def begin(party: Party, context: TrainingContext, model: SharedModel, own: OwnRows) -> Begun:
    """Stage: setup. Raises DataError."""
    assert isinstance(own, Here), "there are no workers"
    held_out = replace(context.layout, rows=context.facts.validation_rows)
    parts = [(context.layout, own.table), (held_out, own.validation)]

    def program(party: Party) -> tuple[list[AShare], bool]:
        added = [party.run(_added(party, model, layout, table)) for layout, table in parts]
        if not context.config.squared:
            return added, True
        inside = party.reveal(party.run(_in_range(party, context, model, parts, added)), what=RESIDUALS)
        assert inside is not None, "revealed to both"
        return added, bool(inside[0])

    added, inside = planned(party, "setup", program)
    if not inside:
        raise DataError(
            "y: the labels are so far from what xgb_model predicts that its arithmetic cannot hold the differences: "
            "train a new model"
        )
    return Begun(model.ensemble, model.rounds, *added)


def _added(party: Party, model: SharedModel, layout: Layout, table: Table) -> Steps[AShare]:
    """[sum of the weights of the leaves that rows reach], [classes, n]."""
    classes = model.config.classes
    if not layout.row_count:
        return model.ensemble.base.map(lambda w: np.zeros((classes, 0), w.dtype))
    trees = replace(model.ensemble, base=model.ensemble.base.map(np.zeros_like))
    return (yield from margins(party, trees, layout, model.cuts, table.features, "bins", classes))


def _in_range(
    party: Party, context: TrainingContext, model: SharedModel, parts: list[tuple[Layout, Table]], added: list[AShare]
) -> Steps[BShare]:
    """<the squares of the residuals of the rows to train on have the mean that `numerics` counts on, and the held-out
    labels are near enough to the base>, [1].
    """
    n, overshoot = context.layout.row_count, OVERSHOOT if context.config.subsample == 1 else OVERSHOOT_OF_SAMPLES
    rows, held_out = (
        own_rows(party, layout, targets_of(context, table.labels), 1, MARGIN_SCALE)[0]
        - first_margin(model.ensemble.base, context, layout.row_count)[0]
        for layout, table in parts
    )
    residuals = rows - added[0][0]
    # A residual beyond this makes the sum too large by itself.
    most = ceil_log2(overshoot * n**0.5)
    scale = min(MARGIN_SCALE - 1, (SQUARES_BITS - ceil_log2(n)) // 2 - most)
    both = concatenate([residuals.times(1 << SPREAD_BITS), held_out.times(1 << most)])
    reach = 1 << MARGIN_SCALE + SPREAD_BITS + most
    bits, short = yield from parallel(
        below.steps(party, both, [-reach, reach], SQUARES_BITS + 2),
        truncate.steps(party, residuals, MARGIN_SCALE - scale),
    )
    outside, squares = yield from parallel(
        to_ring.steps(party, bits[:, 0] ^ ~bits[:, 1]), multiply.steps(party, short, short)
    )
    limit = math.floor(math.ldexp(overshoot**2 * n, 2 * scale))
    few, small = yield from parallel(
        below.steps(party, outside.sum().reshape(1), [1], 33),
        below.steps(party, squares.sum().reshape(1), [limit + 1], SQUARES_BITS + 3),
    )
    return (yield from all_of.steps(party, concatenate([few, small], axis=1)))
