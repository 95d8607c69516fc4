"""Agreement before a model is used or shared: the halves must fit, and both parties must ask for the same step."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.agreement.columns import ColumnsFacts, same_columns
from secure_tree.agreement.messages import Count, Hexadecimal, Message, Names, Power, Rank, Text, exchange
from secure_tree.agreement.numbers import of_model
from secure_tree.agreement.training import pairing_id, same_names, same_rows
from secure_tree.model.shared_model import SharedModel
from secure_tree.public.config import DEEPEST, Importance, Method, Missing
from secure_tree.public.context import OwnerColumns
from secure_tree.public.layout import Layout
from secure_tree.public.objectives import Objective

# The most rows of a party in one prediction.
MOST_ROWS = 1 << 26
# The most trees of a class of a model that is shared.
MOST_TREES = 10_000
# The most leaves of a tree that has its own shape, and the most elements of the paths of all trees.
MOST_LEAVES = 1 << 9
MOST_PATHS = 1 << 27


class ModelFacts(Message):
    """The identity of a model: the id of its training, and a digest of everything public in this party's half."""

    pairing: Hexadecimal
    public: Hexadecimal


class PredictionFacts(ModelFacts):
    """The number of rows that this party predicts, the method, and the party that learns the result. columns: of owners
    who contribute columns of these rows, by name.
    """

    rows: Annotated[int, Field(ge=0, le=MOST_ROWS)]
    method: Method
    to: Rank | None
    mac: bool
    columns: dict[Text, ColumnsFacts]


class RevealFacts(ModelFacts):
    """The party to which the model is revealed; `name`: its name, which the other party says."""

    to: Rank
    name: Text | None


class ImportanceFacts(ModelFacts):
    """The kind of importance that this party asks for."""

    kind: Importance


class DependenceFacts(ModelFacts):
    """The number of the feature, and the points, of which this party asks for the partial dependence."""

    feature: Count
    points: list[float]


class ReasonFacts(Message):
    """What this party asks for as reasons, in the order of `Request`. ready: whether it has the table for them."""

    names: list[Text]
    member: list[Count]
    top: Count
    show: Literal["names", "numbers"]
    toward: Literal["higher", "lower"]
    ready: bool


class PlainFacts(Message):
    """The public facts of a plain model that is to be shared.

    parallel: trees per round and class. depth: the logarithm of the leaves of each tree, which are the levels of full
    trees; trees of any shape are padded. exponent: under squared error, that of the power of two above all margins that
    its leaves can add up to. covers: whether it has the sums of hessians that reasons need. sets: as of
    `PlainModel`.
    """

    objective: Objective
    names: Names
    classes: Annotated[int, Field(ge=1, le=1000)]
    rounds: Annotated[int, Field(ge=1, le=10_000)]
    parallel: Annotated[int, Field(ge=1, le=10_000)]
    depth: Annotated[int, Field(ge=1, le=MOST_LEAVES.bit_length() - 1)]
    any_shape: bool
    exponent: Power
    covers: bool
    sets: list[tuple[Count, Count]]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ends = [end for pair in self.sets for end in pair]
        if ends != sorted(ends) or ends[-1:] > [len(self.names)]:
            raise ValueError("the indicators of each column must be features that follow each other")
        return self


class ShareFacts(Message):
    """The public facts of the model, if this party brings it, and the features that may be missing in a prediction."""

    token: Hexadecimal
    missing: Literal["none", "all"] | list[Text]
    model: PlainFacts | None


def agree_on_prediction(
    party: Party,
    model: SharedModel,
    names: tuple[str, ...],
    rows: int,
    method: Method,
    to: int | None = None,
    mac: bool = False,
    columns: Mapping[str, OwnerColumns] = MappingProxyType({}),
) -> Layout:
    """Return the layout of the rows to predict.

    Raises ConfigError or DataError if the halves of the model, the features or the requests of the parties do not fit.
    """
    if model.rank != party.rank:
        raise DataError(f"this half of the model belongs to party {model.rank}, and this is party {party.rank}")
    if method == "bins" and model.cuts.shape[1] == 0:
        raise ConfigError("this model was not trained on the parties' bins: predict by thresholds")
    if mac and model.ensemble.paths is not None:
        raise ConfigError(f"mac must be false for a model with trees deeper than {DEEPEST}")
    told = {name: ColumnsFacts.told(owner) for name, owner in columns.items()}
    mine = PredictionFacts.of(**_identity(model), rows=rows, method=method, to=to, mac=mac, columns=told)
    theirs = exchange(party, "prediction.facts", mine)
    _same_model(model, theirs)
    if theirs.method != method:
        raise ConfigError(f"the parties disagree on method: {method} here, {theirs.method} at the other")
    if theirs.mac != mac:
        raise ConfigError(f"the parties disagree on mac: {mac} here, {theirs.mac} at the other")
    if theirs.to != to:
        raise ConfigError(f"the parties disagree on to: {to} here, {theirs.to} at the other")
    layout = model.facts.layout
    same_names(model.facts.names[layout.features_of(party.rank)], names, "the model", "the rows")
    if layout.vertical:
        same_rows(rows, theirs.rows)
        same_columns(mine.columns, theirs.columns, rows)
    both = (rows, theirs.rows) if party.rank == 0 else (theirs.rows, rows)
    return replace(layout, rows=both + (rows,) * (len(layout.blocks) - 2))


def agree_on_reveal(party: Party, model: SharedModel, to: int) -> None:
    """Check that both halves fit and that both parties name the same receiver. Raises ConfigError or DataError."""
    mine = RevealFacts.of(**_identity(model), to=to, name=None if to == party.rank else party.link.peer)
    theirs = exchange(party, "reveal.facts", mine)
    _same_model(model, theirs)
    if theirs.to != to:
        raise ConfigError(f"the parties disagree on the receiver of the model: {to} here, {theirs.to} at the other")
    receivers, name = model.facts.receivers, mine.name or theirs.name
    if receivers is not None and name not in receivers:
        raise ConfigError(
            f"every owner must name {name} in its terms, as reveal_to, to let it have the model, got "
            f"{', '.join(receivers) or 'nobody'} whom all of them name"
        )


def agree_on_importance(party: Party, model: SharedModel, kind: Importance) -> None:
    """Check that both halves fit and that both parties ask for the same kind. Raises ConfigError or DataError."""
    theirs = exchange(party, "importance.facts", ImportanceFacts.of(**_identity(model), kind=kind))
    _same_model(model, theirs)
    if theirs.kind != kind:
        raise ConfigError(f"the parties disagree on kind: {kind} here, {theirs.kind} at the other")


def agree_on_dependence(party: Party, model: SharedModel, feature: int, points: list[float]) -> None:
    """Check that both halves fit and that both parties ask for the same curve. Raises ConfigError or DataError."""
    mine = DependenceFacts.of(**_identity(model), feature=feature, points=points)
    theirs = exchange(party, "dependence.facts", mine)
    _same_model(model, theirs)
    for field in ("feature", "points"):
        if getattr(theirs, field) != getattr(mine, field):
            raise ConfigError(
                f"the parties disagree on {field}: {getattr(mine, field)} here, {getattr(theirs, field)} at the other"
            )


def agree_on_reasons(party: Party, mine: ReasonFacts) -> bool:
    """Return whether both parties have the table. Raises ConfigError if they ask for different reasons."""
    theirs = exchange(party, "reasons.facts", mine)
    for field in ("show", "top", "toward"):
        if getattr(theirs, field) != getattr(mine, field):
            raise ConfigError(
                f"the parties disagree on {field}: {getattr(mine, field)} here, {getattr(theirs, field)} at the other"
            )
    if (theirs.names, theirs.member) != (mine.names, mine.member):
        raise ConfigError("the parties disagree on groups: the same columns must be in the same groups at both")
    return mine.ready and theirs.ready


def agree_on_sharing(party: Party, brought: PlainFacts | None, missing: Missing) -> tuple[PlainFacts, str]:
    """Return the public facts of the model that one party brings, and its new id. Raises ConfigError at both."""
    mine = ShareFacts.of(
        token=party.draw(16).hex(),
        missing=list(missing) if isinstance(missing, tuple) else missing,
        model=None if brought is None else brought.model_dump(),
    )
    theirs = exchange(party, "share.facts", mine)
    public = mine.model or theirs.model
    if public is None or (mine.model and theirs.model):
        raise ConfigError(
            f"{'neither party brings' if public is None else 'both parties bring'} a model to share: exactly one must"
        )
    if theirs.missing != mine.missing:
        raise ConfigError(
            f"the parties disagree on missing: {mine.missing} here, {reprlib.repr(theirs.missing)} at the other"
        )
    if (of_class := public.rounds * public.parallel) > MOST_TREES:
        raise DataError(f"a model must have at most {MOST_TREES} trees per class, got {of_class}")
    if public.any_shape:
        if (count := of_class * public.classes << 2 * public.depth) > MOST_PATHS:
            raise DataError(f"a model must have at most {MOST_PATHS} elements of paths, got {count}")
    elif public.depth > DEEPEST:
        raise DataError(f"a model of full trees must have at most {DEEPEST} levels, got {public.depth}")
    tokens = (mine.token, theirs.token) if party.rank == 0 else (theirs.token, mine.token)
    return public, pairing_id(*tokens)


def _identity(model: SharedModel) -> dict[str, str]:
    """Return the fields of `ModelFacts`."""
    return {"pairing": model.facts.pairing, "public": of_model(model)}


def _same_model(model: SharedModel, theirs: ModelFacts) -> None:
    """Raise DataError unless the other party's half belongs to this one."""
    if theirs.pairing != model.facts.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs.public != of_model(model):
        raise DataError(
            "the two halves of the model differ in their public facts: one of them has been altered since training"
        )
