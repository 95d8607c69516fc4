"""What two parties tell each other before a training or a prediction, and how they refuse to go on when it differs."""

from __future__ import annotations

import hashlib
import math
import reprlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mpc.errors import ConfigError, DataError, RangeError
from mpc.party import Party
from secure_tree.categories import Dictionary, covers, unite
from secure_tree.config import TrainConfig, validated
from secure_tree.layout import Facts, Layout, lay_out
from secure_tree.magnitudes import label_exponent, weight_exponents
from secure_tree.messages import Count, Hexadecimal, Message, Names, Plain, Power, Rank, Text, swap
from secure_tree.model import SharedModel
from secure_tree.numbers import agree, of_model, of_training
from secure_tree.public import ceil_log2
from secure_tree.schema import Table

# A metric over fewer held-out rows of a party would tell how single rows fared.
LEAST_HELD = 5
# Edges of a feature, whose numbers are 16 bits, and by rows pairs of a party's bin and the other's edge.
MOST_EDGES = (1 << 16) - 3
MOST_PAIRS = 1 << 26
# Rows of a party that are predicted at once.
MOST_ROWS = 1 << 26


class Terms(Message):
    """The parameters of a training, and of the party's categorical columns the categories."""

    config: dict[Text, Plain]
    categories: dict[Text, Annotated[list[Text], Field(max_length=10_000)]]


class TrainingFacts(Message):
    """What a party tells of its tables: features, rows, the power of two above the largest label of a number, if any is
    not 0, and those above the largest weight and above the sum of all.
    """

    names: Names
    indicators: list[Count]
    rows: Annotated[int, Field(ge=1, lt=1 << 31)]
    held: Count
    labelled: bool
    exponent: Power | None
    weights: tuple[Power, Power] | None
    token: Hexadecimal

    @model_validator(mode="after")
    def _consistent(self) -> TrainingFacts:
        if self.indicators and not max(self.indicators) < len(self.names):
            raise ValueError("an indicator is none of the features")
        if self.weights is not None and not self.labelled:
            raise ValueError("there are weights without labels")
        return self


class ModelFacts(Message):
    """Which model: the id of its training, and a digest of everything public in this party's half."""

    pairing: Hexadecimal
    public: Hexadecimal


class PredictionFacts(ModelFacts):
    """The rows that this party predicts, how, and who is to learn it."""

    rows: Annotated[int, Field(ge=0, le=MOST_ROWS)]
    method: Literal["bins", "thresholds"]
    to: Rank | None


class RevealFacts(ModelFacts):
    """Who is to see the model."""

    to: Rank


def agree_on_terms(party: Party, config: TrainConfig, categories: Dictionary) -> Dictionary:
    """The same version and parameters at both, and the categories of this party's categorical columns.

    By rows they are both parties' categories. Raises ConfigError or DataError at both.
    """
    mine = Terms.of(config=config.model_dump(), categories=categories)
    theirs = swap(party, "training.terms", mine)
    try:
        other = validated(TrainConfig, theirs.config).model_dump()
    except ConfigError as error:
        raise ConfigError(f"the other party's parameters: {error}") from None
    _same_config(mine.config, other)
    if config.partition == "vertical":
        return categories
    ordered = (mine, theirs) if party.rank == 0 else (theirs, mine)
    return unite(*(terms.categories for terms in ordered))


def agree_on_training(party: Party, config: TrainConfig, table: Table, held: Table) -> Facts:
    """The public facts of a training on agreed terms, all public numbers being the same at both.

    Raises ConfigError, DataError or RangeError at both.
    """
    mine = TrainingFacts.of(
        names=list(table.names),
        indicators=list(table.indicators),
        rows=len(table.features),
        held=len(held.features),
        labelled=table.labels is not None,
        exponent=label_exponent(config, table, held),
        weights=weight_exponents(table),
        token=secrets.token_hex(16),
    )
    theirs = swap(party, "training.facts", mine)
    facts = _joined(config, party.rank, mine, theirs)
    agree(party, "training.numbers", of_training(config, facts))
    return facts


def _joined(config: TrainConfig, rank: int, mine: TrainingFacts, theirs: TrainingFacts) -> Facts:
    """What both parties' facts make together, where they fit each other."""
    ordered = (mine, theirs) if rank == 0 else (theirs, mine)
    names = tuple(ordered[0].names), tuple(ordered[1].names)
    label_holder = None
    if config.partition == "vertical":
        _same_rows(mine.rows, theirs.rows)
        _same_rows(mine.held, theirs.held)
        if mine.labelled == theirs.labelled:
            raise DataError(f"y: {'both parties have' if mine.labelled else 'neither party has'} labels")
        label_holder = rank if mine.labelled else 1 - rank
    else:
        _same_names(tuple(mine.names), tuple(theirs.names))
        if mine.indicators != theirs.indicators or not theirs.labelled:
            raise DataError("by rows both parties have labels and the same categorical columns")
    check_declared(config, names)
    held = ordered[0].held, ordered[1].held
    check_held(held)
    if config.early_stopping_rounds and not any(held):
        raise ConfigError("early_stopping_rounds needs rows to judge by: test_size, test_data or an eval_set")
    layout = lay_out(config, names, (ordered[0].rows, ordered[1].rows))
    check_bins(layout)
    bound = math.ldexp(1.0, max((f.exponent for f in ordered if f.exponent is not None), default=0))
    weight_scale, masses = _weights(ordered)
    indicators = {layout.features_of(p).start + f for p in (0, 1) for f in ordered[p].indicators}
    return Facts(
        pairing=pairing_id(ordered[0].token, ordered[1].token),
        names=names[0] + names[1] if layout.vertical else names[0],
        layout=layout,
        label_scale=bound,
        weight_scale=weight_scale,
        masses=masses,
        label_bound=bound,
        label_holder=label_holder,
        held=held,
        indicators=tuple(sorted(indicators)),
        counts=config.counts,
    )


def _weights(facts: Sequence[TrainingFacts]) -> tuple[float | None, tuple[float, float] | None]:
    """`weight_scale` and `masses` of Facts, where a party has weights; each row of one without weights counts 1."""
    if all(f.weights is None for f in facts):
        return None, None
    largest, total = zip(*((0, ceil_log2(f.rows)) if f.weights is None else f.weights for f in facts), strict=True)
    scale = max(own for f, own in zip(facts, largest, strict=True) if f.labelled)
    first, second = (
        min(math.ldexp(1.0, own - scale), f.rows) if f.labelled else 0.0 for f, own in zip(facts, total, strict=True)
    )
    return math.ldexp(1.0, scale), (first, second)


def pairing_id(*tokens: str) -> str:
    """The id of a model from the tokens of party 0 and party 1."""
    return hashlib.sha256("".join(tokens).encode()).hexdigest()[:32]


def agree_on_prediction(
    party: Party, model: SharedModel, names: tuple[str, ...], rows: int, method: str, to: int | None = None
) -> Layout:
    """The layout of the rows to predict, after both halves of the model and the features were found to fit."""
    if model.rank != party.rank:
        raise DataError(f"this half of the model belongs to party {model.rank}, and this is party {party.rank}")
    if method == "bins" and model.cuts.shape[1] == 0:
        raise ConfigError("this model was not trained on the parties' bins: predict by thresholds")
    theirs = swap(party, "prediction.facts", PredictionFacts.of(**public_facts(model), rows=rows, method=method, to=to))
    same_model(model, theirs)
    if theirs.method != method:
        raise ConfigError(f"this party predicts by {method}, the other by {theirs.method}")
    if theirs.to != to:
        raise ConfigError(f"this party names {to} to learn the predictions, the other {theirs.to}")
    layout = model.facts.layout
    _same_names(model.facts.names[layout.features_of(party.rank)], names, "the model", "the rows")
    if layout.vertical:
        _same_rows(rows, theirs.rows)
    return replace(layout, rows=(rows, theirs.rows) if party.rank == 0 else (theirs.rows, rows))


def public_facts(model: SharedModel) -> dict[str, str]:
    """The parts of `ModelFacts`."""
    return {"pairing": model.facts.pairing, "public": of_model(model)}


def same_model(model: SharedModel, theirs: ModelFacts) -> None:
    """Raises DataError unless the other party's half belongs to this one."""
    if theirs.pairing != model.facts.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs.public != of_model(model):
        raise DataError("the two halves of the model differ in their public facts: one is not what training wrote")


def _same_rows(mine: int, theirs: int) -> None:
    if mine != theirs:
        raise DataError(f"this party has {mine} rows, the other {theirs}: vertical tables have the same rows, in order")


def agree_on_reveal(party: Party, model: SharedModel, to: int) -> None:
    """Both halves fit each other, and both parties mean the same receiver. Raises ConfigError or DataError."""
    theirs = swap(party, "reveal.facts", RevealFacts.of(**public_facts(model), to=to))
    same_model(model, theirs)
    if theirs.to != to:
        raise ConfigError("the parties disagree on who is to see the model")


def check_declared(config: TrainConfig, names: Sequence[tuple[str, ...]]) -> None:
    """Raises ConfigError where `missing` declares a feature that no party has."""
    declared = config.missing if isinstance(config.missing, tuple) else ()
    for name in declared:
        if not any(covers(name, feature) for own in names for feature in own):
            raise ConfigError(f"missing: no party has a feature {name!r}")


def check_held(held: tuple[int, int]) -> None:
    """Raises DataError where a party holds out so few rows that a metric would tell about single ones."""
    for count in held:
        if 0 < count < LEAST_HELD:
            raise DataError(
                f"a party holds out {count} rows: a metric would tell how single rows fared, so hold out {LEAST_HELD} "
                "at least, or none"
            )


def check_bins(layout: Layout) -> None:
    """Raises RangeError for more bins than bin numbers and the comparison of edges can take."""
    if max(layout.sizes) > MOST_EDGES:
        raise RangeError(f'max_bin="exact" takes {MOST_EDGES} rows per party, got {max(layout.rows)}: set a number')
    compared = 0 if layout.joint or layout.vertical else layout.feature_count * layout.finer * math.prod(layout.sizes)
    if compared > MOST_PAIRS:
        raise RangeError(
            f"{layout.feature_count} features with {' and '.join(map(str, layout.sizes))} edges make more than "
            f"{MOST_PAIRS} pairs of an edge and a bin to compare: set a smaller max_bin or local_bins"
        )


def _same_config(mine: dict, theirs: dict) -> None:
    for name, value in mine.items():
        if theirs.get(name) != value:
            raise ConfigError(
                f"the parties disagree on {name}: {value} here, {reprlib.repr(theirs.get(name))} at the other"
            )


def _same_names(
    mine: tuple[str, ...], theirs: tuple[str, ...], here: str = "this party", there: str = "the other"
) -> None:
    if len(mine) != len(theirs):
        raise DataError(f"{here} has {len(mine)} features, {there} {len(theirs)}")
    for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a != b:
            raise DataError(
                f"feature {place} is {a!r} at {here} and {reprlib.repr(b)} at {there}: names and order must agree"
            )
