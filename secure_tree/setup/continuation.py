"""Training continuation: more rounds of trees on the bins of a model, starting from its margins.

Functionality  a model and own rows -> [margin that its trees add] for training rows and held-out rows
Messages       a prediction of these rows by bins, whose result is not revealed. Squared error reveals one bit: whether
               the residuals are in the range of the model's arithmetic. It is 1 if the model was trained on these rows
Bins           the cuts of the model; a value below the first cut counts as that cut. The medians of private bins are
               those of the current rows, which are the model's medians if it was trained on these rows
Security       semi-honest, perfect: composition of secure_tree/prediction/predict.py and comparisons
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import to_ring
from mpc.comparison.comparison import below
from mpc.errors import ConfigError, DataError
from mpc.lookup.one_hot import all_of
from mpc.matrix.interface import LinearMap
from mpc.party import Party
from mpc.planning import planned
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from mpc.words import U64
from secure_tree.agreement.training import same_names
from secure_tree.data.bins import Bins
from secure_tree.data.own_rows import Here, OwnRows, labels_of_owners
from secure_tree.data.table import Table
from secure_tree.model.ensemble import Ensemble, NodeStatistics
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.predict import margins, routed_margins
from secure_tree.prediction.routers import HiddenBins, shared_bin_router
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE, OVERSHOOT, OVERSHOOT_OF_SAMPLES
from secure_tree.setup.base_score import settle_contributed
from secure_tree.setup.unit import LARGEST_RATIO, SPREAD_BITS
from secure_tree.tree.rows import first_margin, own_rows, targets_of, with_contributed
from secure_tree.workers.rows import gathered
from secure_tree.workers.sources import PART, AtWorkers, Kept

RESIDUALS = "whether the residuals are in the range of the model's arithmetic"
# Bits of the sum of squared residuals.
SQUARES_BITS = 60
# A label over the label scale is at most 2^LARGEST_LABEL_BITS, so that its distance from a margin can be compared.
LARGEST_LABEL_BITS = 36
# Parameters that may differ from those of the model: the number of trees, and how they are evaluated.
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
    """The model that a training continues: its trees, and its number of rounds.

    added, added_held_out: [margin that the trees add] for training rows and held-out rows, [classes, n] each.
    """

    ensemble: Ensemble
    rounds: int
    added: AShare
    added_held_out: AShare

    def margin(self, context: TrainingContext) -> AShare:
        """Return the margin of the training rows."""
        return first_margin(self.ensemble.base, context, context.layout.row_count) + self.added


@dataclass(frozen=True)
class _Shared:
    """What owners who are no party have of some rows.

    lines, rows: the transposed bins of each owner's rows, and their number. hidden: the bins of owners' columns.
    targets: of all owners.
    """

    lines: Sequence[LinearMap]
    rows: Sequence[int]
    targets: AShare | None
    hidden: HiddenBins | None = None


def more_rounds(party: Party, model: SharedModel, config: TrainConfig) -> TrainConfig:
    """Return the parameters of the whole training, with `n_estimators` more rounds than the model has.

    Raises ConfigError, DataError.
    """
    if model.rank != party.rank:
        raise DataError(f"this half of xgb_model belongs to party {model.rank}, and this is party {party.rank}")
    if model.cuts.shape[1] == 0 or model.ensemble.statistics is None:
        raise ConfigError("xgb_model must be a model that was trained here: a shared plain model has no bins")
    before = model.config.model_dump()
    for name, value in config.model_dump().items():
        if name not in FREE and before[name] != value:
            raise ConfigError(
                f"{name} must be {before[name]}, as in the training of xgb_model, got {value}: only {', '.join(FREE)} "
                "may differ"
            )
    return TrainConfig.of(**{**config.model_dump(), "n_estimators": model.rounds + config.n_estimators})


def as_the_model(model: SharedModel, context: TrainingContext) -> TrainingContext:
    """Return the context of a training with the bins and units of the model.

    Raises ConfigError or DataError if the tables do not fit the model.
    """
    facts, before = context.facts, model.facts
    if facts.layout.vertical and _contributions(facts) != _contributions(before):
        raise DataError("xgb_model must have been trained on the same contributions of owners: train a new model")
    widths = facts.layout.of_parties.widths
    if sum(widths) == sum(before.layout.widths) and widths != before.layout.widths:
        raise DataError(
            f"the parties must have {before.layout.widths[0]} and {before.layout.widths[1]} columns, as in the "
            f"training of xgb_model, got {widths[0]} and {widths[1]}"
        )
    same_names(before.names, facts.names, "the model", "the table")
    if facts.label_holder != before.label_holder:
        raise DataError(f"party {before.label_holder} must have the labels, as in the training of xgb_model")
    of_owners = facts.owners and not (facts.layout.vertical and facts.label_holder in (0, 1))
    largest = LARGEST_RATIO if of_owners else LARGEST_LABEL_BITS
    if context.config.squared and facts.label_bound > (most := before.label_scale * 2.0**largest):
        raise DataError(
            f"y: labels must be at most {most:g} in magnitude, in the unit of the training of xgb_model, got labels up "
            f"to {facts.label_bound:g}: train a new model"
        )
    if facts.weight_scale != before.weight_scale:
        raise DataError(
            f"sample_weight must be as in the training of xgb_model, {_weight(before.weight_scale)}, got "
            f"{_weight(facts.weight_scale)}"
        )
    if context.config.squared and facts.weight_scale is not None:
        raise ConfigError("sample_weight must not be set with xgb_model under reg:squarederror")
    layout = replace(facts.layout, sizes=before.layout.sizes[:1] * len(facts.layout.rows))
    if not facts.owners or facts.layout.vertical:
        layout = replace(before.layout, rows=facts.layout.rows)
    # The unit of numbers is that of the model's margins; with a power it may grow, since margins are logarithms.
    scale = max(before.label_scale, facts.label_scale) if context.config.power else before.label_scale
    facts = replace(facts, layout=layout, label_scale=scale, label_bound=max(before.label_bound, facts.label_bound))
    return TrainingContext(context.config, facts)


def _contributions(facts: PublicFacts) -> list[tuple[str, str]]:
    return [(name, number) for name, number, _ in facts.owners]


def _ensemble(model: SharedModel, context: TrainingContext) -> Ensemble:
    """Return the model's trees with statistics in the units of the training. Local."""
    ensemble = model.ensemble
    if (statistics := ensemble.statistics) is None or statistics.gains is None:
        return ensemble
    of_model, of_training = model.facts.statistics_units, context.facts.statistics_units
    gains, covers = (
        share.at_scale(share.scale + ceil_log2(after / before))
        for share, before, after in zip((statistics.gains, statistics.covers), of_model, of_training, strict=True)
    )
    return replace(ensemble, statistics=NodeStatistics(gains, covers))


def _weight(scale: float | None) -> str:
    return "no weights" if scale is None else f"a largest weight above {scale / 2:g} and at most {scale:g}"


def bins_of(model: SharedModel, own: OwnRows) -> Bins:
    """Return own rows in the bins of the model."""
    layout, cuts, none = model.facts.layout, model.cuts, np.zeros((0, len(model.cuts)), np.float32)
    medians = cuts
    if not (layout.joint or layout.vertical):
        medians = np.stack([x.medians(line) for x, line in zip(own.columns(), cuts, strict=True)]).astype(np.float32)
    return own.with_features(Bins(none, cuts, medians, layout.finer))


def begin(party: Party, context: TrainingContext, model: SharedModel, own: OwnRows) -> Begun:
    """Compute the margins of the model for the rows of the training. Stage: setup.

    Raises DataError if the residuals are beyond the model's arithmetic.
    """
    held_out = replace(context.layout, rows=context.facts.validation_rows)
    more, joined, shared, held = labels_of_owners(own), own.contributed_columns, None, None
    if more and context.config.squared:
        settle_contributed(party, context, more)
    if joined:
        bins = HiddenBins([lines for _, lines in joined.matrices], False) if joined.matrices else None
        of_held = HiddenBins([joined.held_out], True) if joined.held_out else None
        shared = _Shared([], [], joined.targets, bins)
        held = _Shared([], [], joined.validation_targets, of_held)
    elif rows := own.contributed:
        lines = [lines for _, lines in rows.matrices]
        shared = _Shared(lines, rows.rows, rows.targets)
        held = _Shared([x for x in rows.held_out if x], [n for n in map(len, rows.held) if n], rows.validation_targets)
    of_workers = _of_workers(context, model, own) if isinstance(own, AtWorkers) else None

    def program(party: Party) -> tuple[AShare, AShare, bool]:
        added, totals = of_workers or party.run(_of_rows(party, context, model, context.layout, _table(own), shared))
        validation, far = party.run(_of_rows(party, context, model, held_out, own.validation, held, held_out=True))
        if not context.config.squared:
            return added, validation, True
        inside = party.reveal(party.run(_in_range(party, context, totals, far)), what=RESIDUALS)
        assert inside is not None, "revealed to both"
        return added, validation, bool(inside[0])

    added, validation, inside = planned(party, "setup", program)
    if not inside:
        raise DataError(
            "y: labels must be near the predictions of xgb_model, got differences that its arithmetic cannot hold: "
            "train a new model"
        )
    return Begun(_ensemble(model, context), model.rounds, added, validation)


def _table(own: OwnRows) -> Table:
    assert isinstance(own, Here), "rows are here or at workers"
    return own.table


def _of_workers(context: TrainingContext, model: SharedModel, own: AtWorkers) -> tuple[AShare, AShare]:
    """Return `_of_rows` of all training rows, computed by workers."""
    counts = list(zip(*own.trained, strict=True))
    shards = [(context.of_rows(rows),) for rows in counts]
    added, totals = zip(*own.ask(_at_worker, model, own=shards), strict=True)
    return gathered(context.layout, counts, list(added), axis=1), stack(list(totals)).sum(axis=0)


def _at_worker(party: Party, kept: Kept, model: SharedModel, context: TrainingContext) -> tuple[AShare, AShare]:
    layout = context.layout
    # In a rehearsal there are no rows.
    shape = layout.rows[party.rank], layout.widths[party.rank]
    table = kept[PART].table if PART in kept else Table(np.zeros(shape, np.float32), ())
    return party.run(_of_rows(party, context, model, layout, table))


def _of_rows(
    party: Party,
    context: TrainingContext,
    model: SharedModel,
    layout: Layout,
    table: Table,
    shared: _Shared | None = None,
    held_out: bool = False,
) -> Steps[tuple[AShare, AShare]]:
    """Return [margin that the model's trees add], [classes, n], and statistics of the residuals, [2].

    The statistics, for squared error, are the number of residuals out of range and the sum of all squares. For held-out
    rows, the residual is the distance of the label from the base.
    """
    nothing = AShare(np.zeros(2, U64), party.rank)
    if not layout.row_count:
        empty = np.zeros((model.config.classes, 0), U64)
        return AShare(empty, party.rank, MARGIN_SCALE), nothing
    trees = replace(model.ensemble, base=model.ensemble.base.map(np.zeros_like))
    parts, known, classes = [], layout.of_parties, model.config.classes
    if known.row_count:
        hidden = shared.hidden if shared else None
        of_known = margins(party, trees, known, model.cuts, table.features, "bins", classes, hidden=hidden)
        parts.append((yield from of_known))
    for lines, rows in zip(shared.lines, shared.rows, strict=True) if shared else ():
        parts.append((yield from routed_margins(party, trees, shared_bin_router(lines), rows, classes)))
    added = concatenate(parts, axis=1)
    if not context.config.squared:
        return added, nothing
    every = own_rows(party, layout, targets_of(context, table.labels), 1, MARGIN_SCALE)
    targets = shared.targets if shared else None
    labels = (every if targets is None else with_contributed(layout, every, targets))[0]
    far = labels - first_margin(model.ensemble.base, context, layout.row_count)[0]
    reach, scale, _ = _range(context)
    residuals, reach = (far, SPREAD_BITS) if held_out else (far - added[0], reach)
    ends = [-(1 << MARGIN_SCALE + reach), 1 << MARGIN_SCALE + reach]
    bits, short = yield from parallel(
        below.steps(party, residuals, ends, SQUARES_BITS), truncate.steps(party, residuals, MARGIN_SCALE - scale)
    )
    outside, squares = yield from parallel(
        to_ring.steps(party, bits[:, 0] ^ ~bits[:, 1]), multiply.steps(party, short, short)
    )
    return added, stack([outside.sum(), squares.at_scale(0).sum()])


def _range(context: TrainingContext) -> tuple[int, int, int]:
    """Return the range of residuals as an exponent, their scale when squared, and the largest sum at twice that scale.

    A single residual out of range would make the sum of squares too large by itself.
    """
    facts = context.whole or context.facts
    n, overshoot = facts.layout.row_count, OVERSHOOT if context.config.subsample == 1 else OVERSHOOT_OF_SAMPLES
    reach = ceil_log2(overshoot * n**0.5)
    scale = min(MARGIN_SCALE - 1, (SQUARES_BITS - ceil_log2(n)) // 2 - reach)
    return reach, scale, math.floor(math.ldexp(overshoot**2 * n, 2 * scale))


def _in_range(party: Party, context: TrainingContext, totals: AShare, far: AShare) -> Steps[BShare]:
    """Statistics of training rows and of held-out rows, as of `_of_rows` -> <the training fits the arithmetic>, [1].

    The mean square of the residuals must be what `numerics` assumes, and held-out labels must be near the base.
    """
    few, small = yield from parallel(
        below.steps(party, (totals[:1] + far[:1]), [1], 33),
        below.steps(party, totals[1:], [_range(context)[2] + 1], SQUARES_BITS + 3),
    )
    return (yield from all_of.steps(party, concatenate([few, small], axis=1)))
