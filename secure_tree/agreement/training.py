"""Agreement before a training: on parameters and categories, on public facts, and on the round to resume from."""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from mpc.errors import ConfigError, DataError, PeerFailure, RangeError
from mpc.party import Party
from secure_tree.agreement.columns import ColumnsFacts, label_holder, same_columns
from secure_tree.agreement.messages import (
    Consenting,
    Count,
    Hexadecimal,
    Message,
    Names,
    Plain,
    Power,
    Text,
    exchange,
    same_parameters,
)
from secure_tree.agreement.numbers import agree_on_numbers, of_training
from secure_tree.agreement.rows import Contribution, contributions, same_contributions
from secure_tree.data.categories import Dictionary, unite
from secure_tree.data.magnitudes import Magnitudes, label_exponent, magnitudes, weight_exponents
from secure_tree.data.own_rows import OwnRows
from secure_tree.public.config import TrainConfig, validated
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.interactions import interactions
from secure_tree.public.layout import Layout, lay_out
from secure_tree.public.names import column_of, covers, is_indicator

# The names of features that a message lists.
_NAMES_SHOWN = 10
# A metric over fewer held-out rows of a party would reveal how single rows are predicted.
LEAST_VALIDATION_ROWS = 5
# Bin numbers have 16 bits, which limits the edges of a feature.
MOST_EDGES = (1 << 16) - 3
# Pairs of one party's bin and the other's edge that are compared, for horizontal data.
MOST_PAIRS = 1 << 26
# The key of the model's digest among the parameters, if the training continues a model.
_MODEL = "xgb_model"
# The key for whether the party gives offsets of margins.
_OFFSETS = "base_margin"


class Terms(Message):
    """The parameters of a training, and the categories of the party's categorical columns."""

    config: dict[Text, Plain]
    categories: dict[Text, Annotated[list[Text], Field(max_length=10_000)]]


class TrainingFacts(Message):
    """The public facts of a party's tables.

    exponent: base-2 exponent of the power of two above the largest label in magnitude; None for classes, or if all
    labels are 0. weights: the exponents for the largest weight and for the sum of all weights. owners: of the
    contributions of rows that the party has. columns: of those of columns, by name.
    """

    names: Names
    indicators: list[Count]
    rows: Count
    validation_rows: Count
    owners: list[Contribution]
    columns: dict[Text, ColumnsFacts]
    labelled: bool
    exponent: Power | None
    weights: tuple[Power, Power] | None
    token: Hexadecimal

    @model_validator(mode="after")
    def _consistent(self) -> TrainingFacts:
        if self.indicators and not max(self.indicators) < len(self.names):
            raise ValueError("every indicator must be one of the features")
        if self.weights is not None and not self.labelled:
            raise ValueError("weights need labels")
        return self


class ResumeFacts(Message):
    """Whether this party resumes, the id of its training, and the points from which it can resume."""

    resume: bool
    training: Text | None
    points: list[tuple[Count, Text]]


def agree_on_terms(
    party: Party, config: TrainConfig, categories: Dictionary, model: str | None = None, offsets: bool = False
) -> tuple[Dictionary, bool]:
    """Compare versions and parameters, and return the categories of this party's categorical columns.

    For horizontal data these are the categories of both parties. `model`: a digest of everything public in the model
    that the training continues. `offsets`: whether this party gives offsets of margins; returned is whether a party
    does. Raises ConfigError or DataError at both parties.
    """
    parameters = config.model_dump()
    more = ({} if model is None else {_MODEL: model}) | ({_OFFSETS: True} if offsets else {})
    mine = Terms.of(config={**parameters, **more}, categories=categories)
    theirs = exchange(party, "training.terms", mine)
    received = dict(theirs.config)
    of_model, of_other = received.pop(_MODEL, None), bool(received.pop(_OFFSETS, False))
    try:
        other = validated(TrainConfig, received).model_dump()
    except ConfigError as error:
        raise ConfigError(f"the other party's parameters: {error}") from None
    same_parameters(parameters, other)
    if (model is None) != (of_model is None):
        raise ConfigError(
            "one party continues a model and the other starts a new one: both must pass xgb_model, or neither"
        )
    if model != of_model:
        raise DataError(
            "the halves of xgb_model come from different trainings, or one of them has been altered since training"
        )
    if config.partition == "vertical":
        if offsets and of_other:
            raise ConfigError("base_margin must be given by one party, the one with the labels")
        return categories, offsets or of_other
    if offsets != of_other:
        raise ConfigError("one party gives base_margin and the other does not: both must, or neither")
    ordered = (mine, theirs) if party.rank == 0 else (theirs, mine)
    return unite(*(terms.categories for terms in ordered)), offsets


def agree_on_training(party: Party, config: TrainConfig, own: OwnRows, offsets: bool = False) -> TrainingContext:
    """Exchange the facts of both tables and return the context of the training.

    Also compares all public numbers that follow from the facts. Raises ConfigError, DataError or RangeError at both
    parties.
    """
    large = magnitudes(own)
    columns = own.contributed_columns.owners if own.contributed_columns else {}
    mine = TrainingFacts.of(
        names=list(own.names),
        indicators=list(own.indicators),
        rows=own.count,
        validation_rows=len(own.validation.features),
        labelled=large.labelled,
        exponent=label_exponent(config, large, Magnitudes.of(own.validation)),
        weights=weight_exponents(large),
        owners=contributions(own.contributed) if own.contributed else [],
        columns={name: ColumnsFacts.told(owner) for name, owner in columns.items()},
        token=party.draw(16).hex(),
    )
    theirs = exchange(party, "training.facts", mine)
    context = TrainingContext(config, replace(_joined(config, party.rank, mine, theirs), offsets=offsets))
    interactions(config, context.facts.tables)
    agree_on_numbers(party, "training.numbers", of_training(context))
    return context


def agree_on_resumption(party: Party, resume: bool, training: str | None, points: Collection[tuple[int, str]]) -> int:
    """Return the number of finished rounds from which both parties resume; 0 if they do not resume.

    `training` is the id of the training in this party's checkpoints. `points` are the numbers of rounds from which this
    party can resume, each with a digest of the attempts that grew them. Raises ConfigError if only one party resumes or
    if this party has nothing to resume, PeerFailure if the other has nothing, DataError if the checkpoints come from
    different trainings.
    """
    theirs = exchange(party, "resume.facts", ResumeFacts.of(resume=resume, training=training, points=sorted(points)))
    if theirs.resume != resume:
        raise ConfigError(
            "one party resumes a training and the other starts a new one: both must pass --resume, or neither"
        )
    if not resume:
        return 0
    if training is None or not points:
        raise ConfigError("this party has no complete round to resume from: train without --resume at both")
    if theirs.training is None or not theirs.points:
        raise PeerFailure(
            "the other party has no complete round to resume from, or refuses its checkpoints: its log has the reason"
        )
    if training != theirs.training:
        raise DataError("the checkpoints of the two parties come from different trainings")
    common = set(points) & set(theirs.points)
    if not common:
        raise ConfigError("no round is complete at both parties: train without --resume")
    return max(common)[0]


def _joined(config: TrainConfig, rank: int, mine: TrainingFacts, theirs: TrainingFacts) -> PublicFacts:
    """Combine the facts of both parties. Raises ConfigError, DataError or RangeError if they do not fit."""
    ordered = (mine, theirs) if rank == 0 else (theirs, mine)
    names = tuple(ordered[0].names), tuple(ordered[1].names)
    holder, joined = None, tuple(name for each in mine.columns.values() for name in each.names)
    if config.partition == "vertical":
        same_rows(mine.rows, theirs.rows)
        same_rows(mine.validation_rows, theirs.validation_rows)
        same_columns(mine.columns, theirs.columns, mine.rows + mine.validation_rows)
        holder = label_holder([f.labelled for f in ordered], {k: f.labelled for k, f in mine.columns.items()})
        if not (mine.names or theirs.names or joined):
            raise DataError("X: neither party has features")
    else:
        same_names(tuple(mine.names), tuple(theirs.names))
        if not mine.names:
            raise DataError("X: there are no features")
        if mine.indicators != theirs.indicators or not theirs.labelled:
            raise DataError("both parties of horizontal data must have labels and the same categorical columns")
    check_declared(config, (*names, joined))
    held = [each.held for each in mine.owners]
    check_validation_rows((ordered[0].validation_rows, ordered[1].validation_rows))
    for each in mine.owners:
        check_validation_rows([each.held], each.name)
    held_out = [mine.validation_rows] if joined else [sum(held)] if held else []
    validation_rows = ordered[0].validation_rows, ordered[1].validation_rows, *held_out
    if config.early_stopping_rounds and not any(validation_rows):
        raise ConfigError("early_stopping_rounds needs held-out rows: set test_size, test_data or an eval_set")
    same_contributions(mine.owners, theirs.owners)
    if not mine.owners and not (mine.rows and theirs.rows):
        raise DataError("X: a party needs at least one row to train")
    more = (joined,) if joined else (names[0],) if mine.owners else ()
    further = [mine.rows] if joined else [sum(o.rows - o.held for o in mine.owners)] if mine.owners else []
    rows = ordered[0].rows, ordered[1].rows, *further
    layout = lay_out(config, names + more, rows, [each.indicators for each in ordered])
    check_bins(layout)
    every = names[0] + names[1] + joined if layout.vertical else names[0]
    check_directions(config, every, layout)
    labelling: list[tuple[Contribution | ColumnsFacts, int]] = [
        *((each, each.rows - each.held) for each in mine.owners),
        *((each, mine.rows) for each in mine.columns.values() if each.labelled),
    ]
    every_label = [*(f.exponent for f in ordered), *(each.exponent for each, _ in labelling)]
    bound = math.ldexp(1.0, max((e for e in every_label if e is not None), default=0))
    weight_scale, masses = _weights(ordered, [(each.weight, rows) for each, rows in labelling])
    indicators = {layout.features_of(p).start + f for p in (0, 1) for f in ordered[p].indicators}
    indicators |= {len(every) - len(joined) + f for f, name in enumerate(joined) if is_indicator(name)}
    return PublicFacts(
        pairing=pairing_id(ordered[0].token, ordered[1].token),
        names=every,
        layout=layout,
        label_scale=config.huber_slope if config.pseudo_huber else bound,
        weight_scale=weight_scale,
        masses=masses,
        label_bound=bound,
        label_holder=holder,
        validation_rows=validation_rows,
        indicators=tuple(sorted(indicators)),
        power=config.power,
        owners=tuple((each.name, each.id, each.rows - each.held) for each in mine.owners)
        + tuple((name, each.id, mine.rows) for name, each in mine.columns.items()),
        owner_widths=tuple(len(each.names) for each in mine.columns.values()),
        receivers=_receivers([*mine.owners, *mine.columns.values()]),
    )


def _receivers(owners: Sequence[Consenting]) -> tuple[str, ...] | None:
    """Return to whom all owners let the model be revealed; None: there are no owners."""
    return tuple(sorted(set.intersection(*(set(owner.reveal_to) for owner in owners)))) if owners else None


def _weights(
    facts: Sequence[TrainingFacts], owners: Sequence[tuple[int | None, int]]
) -> tuple[float | None, tuple[float, ...] | None]:
    """Return `weight_scale` and `masses` of PublicFacts, or None if no row has a weight.

    Each row of a party or an owner without weights counts 1. owners: of each owner with labels, the exponent for its
    largest weight, which bounds each of them, and how many rows it trains on.
    """
    if all(f.weights is None for f in facts) and all(weight is None for weight, _ in owners):
        return None, None
    largest, total = zip(
        *((0, ceil_log2(max(f.rows, 1))) if f.weights is None else f.weights for f in facts), strict=True
    )
    heaviest = [weight or 0 for weight, _ in owners]
    of_parties = [own for f, own in zip(facts, largest, strict=True) if f.labelled and (f.rows or not owners)]
    scale = max([*of_parties, *heaviest])
    first, second = (
        min(math.ldexp(1.0, own - scale), f.rows) if f.labelled else 0.0 for f, own in zip(facts, total, strict=True)
    )
    contributed = sum(math.ldexp(rows, own - scale) for (_, rows), own in zip(owners, heaviest, strict=True))
    return math.ldexp(1.0, scale), (first, second, *([contributed] if owners else []))


def pairing_id(*tokens: str) -> str:
    """Return the id of a model from the tokens of party 0 and party 1."""
    return hashlib.sha256("".join(tokens).encode()).hexdigest()[:32]


def check_declared(config: TrainConfig, names: Sequence[tuple[str, ...]]) -> None:
    """Raise ConfigError if `missing` or `cuts` declare a feature that no party has."""
    declared = config.missing if isinstance(config.missing, tuple) else ()
    for name in declared:
        if not any(covers(name, feature) for own in names for feature in own):
            raise ConfigError(f"missing: no party has a feature {name!r}")
    for name in config.cuts or ():
        if is_indicator(name) or not any(name in own for own in names):
            raise ConfigError(f"cuts: no party has a numeric feature {name!r}")


def check_validation_rows(rows: Sequence[int], who: str = "a party") -> None:
    """Raise DataError if somebody holds out so few rows that a metric would reveal single rows."""
    for count in rows:
        if 0 < count < LEAST_VALIDATION_ROWS:
            raise DataError(
                f"{who} must hold out at least {LEAST_VALIDATION_ROWS} rows or none, got {count}: a metric over so "
                "few would reveal single rows"
            )


def check_bins(layout: Layout) -> None:
    """Raise RangeError if there are too many bins for 16-bit bin numbers or for the comparison of edges."""
    if max(layout.sizes) > MOST_EDGES:
        raise RangeError(
            f'max_bin must be a number above {MOST_EDGES} rows per party, got "exact" for {max(layout.rows)}'
        )
    compared = 0 if layout.joint or layout.vertical else layout.feature_count * layout.finer * math.prod(layout.sizes)
    if compared > MOST_PAIRS:
        raise RangeError(
            f"{layout.feature_count} features with {' and '.join(map(str, layout.sizes))} edges make more than "
            f"{MOST_PAIRS} pairs of an edge and a bin to compare: set a smaller max_bin or local_bins"
        )


def check_directions(config: TrainConfig, names: tuple[str, ...], layout: Layout) -> None:
    """Raise ConfigError unless `monotone_constraints` suit the features."""
    ways = config.directions(names)
    if wrong := [names[f] for f in layout.in_sets if ways[f]]:
        raise ConfigError(
            f"monotone_constraints: {column_of(wrong[0])!r} is split by sets of categories, which have no order: leave "
            "it out, or set a larger max_cat_to_onehot"
        )


def same_rows(mine: int, theirs: int) -> None:
    """Raise DataError unless vertical tables have the same number of rows."""
    if mine != theirs:
        raise DataError(
            f"this party has {mine} rows, the other {theirs}: vertical tables must have the same rows in the same order"
        )


def same_names(
    mine: tuple[str, ...], theirs: tuple[str, ...], here: str = "this party", there: str = "the other"
) -> None:
    """Raise DataError unless both have the same features in the same order."""
    if set(mine) != set(theirs):
        sides = (here, mine, theirs), (there, theirs, mine)
        only = [(who, [name for name in own if name not in other]) for who, own, other in sides]
        told = " and ".join(f"only {who} has {_some(names)}" for who, names in only if names)
        raise DataError(f"both must have the same features, and {told}")
    if len(mine) != len(theirs):
        raise DataError(f"both must have the same features, and {here} has {len(mine)} and {there} {len(theirs)}")
    for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a != b:
            raise DataError(
                f"feature {place} is {a!r} at {here} and {reprlib.repr(b)} at {there}: names and order must agree"
            )


def _some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many there are."""
    shown = ", ".join(reprlib.repr(name) for name in names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
