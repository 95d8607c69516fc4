"""What the estimators take: tables, held-out rows, and what owners contribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed, Source
from secure_tree.data.contributed_columns import ContributedColumns, ContributedKeys
from secure_tree.data.inputs import ColumnLike, EvalSet, TableLike, frame_of, in_memory
from secure_tree.data.offsets import held_out as held_out_offsets
from secure_tree.data.offsets import read_offsets
from secure_tree.data.offsets import trained_on as trained_on_offsets
from secure_tree.data.own_rows import Here, OwnRows
from secure_tree.data.table import Table, hold_out, read_features, read_training, read_validation
from secure_tree.interface.conventions import one_pair
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.columns import OwnersOfColumns, features_by_owner
from secure_tree.owners.contributing import Owners
from secure_tree.owners.encoding import check_contributable
from secure_tree.owners.lines import Line
from secure_tree.public.bounds import NO_BOUNDS, Bounds
from secure_tree.public.config import Method, TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.names import columns_behind
from secure_tree.workers.sources import AtWorkers, Shards, agree_on_counts, needs_workers, trained_on


def own_rows(
    party: Party,
    X: TableLike | Shards,
    y: ColumnLike | None,
    weights: ColumnLike | None,
    eval_set: EvalSet | None,
    config: TrainConfig,
    known: Dictionary,
    least: int = 1,
    offsets: tuple[ColumnLike | None, ColumnLike | None] = (None, None),
) -> OwnRows:
    """Divide the input of `fit`, at least `least` rows, into rows to train on and held-out rows. Raises ConfigError,
    DataError.

    offsets: of X, and of the rows of eval_set.
    """
    if not party.workers:
        if isinstance(X, Shards):
            raise needs_workers(party, (len(X),))
        table = _with_offsets(read_training(X, y, weights, config, known, least), offsets[0], config)
        if eval_set is None:
            table, held = hold_out(table, config)
        else:
            held = read_validation(one_pair(eval_set), config, known, table.names, table.labels is not None)
            held = _with_offsets(held, offsets[1], config, "base_margin_eval_set")
        if (table.offsets is None) != (held.offsets is None) and len(held.features):
            raise ConfigError("base_margin and base_margin_eval_set must both be given with an eval_set, or neither")
        return Here(trained_on_offsets(table, config), held_out_offsets(held, config))
    shards = X if isinstance(X, Shards) else Shards.of(read_training(X, y, weights, config, known), party.workers.count)
    counts = agree_on_counts(party, shards, config.partition == "vertical")
    own = AtWorkers(party, shards, config, known, counts, trained_on(counts, config, eval_set is None))
    if eval_set is not None:
        labelled = own.validation.labels is not None
        own.validation = read_validation(one_pair(eval_set), config, known, own.names, labelled)
    return own


def _with_offsets(table: Table, values: ColumnLike | None, config: TrainConfig, source: str = "base_margin") -> Table:
    if values is None:
        return table
    if table.labels is None:
        raise DataError(f"{source} must be given only at the party with the labels")
    return replace(table, offsets=read_offsets(values, config, len(table.features), source))


def check_offsets(party: Party, before: SharedModel | None, contributed: object) -> None:
    """Raise ConfigError if a training cannot have offsets of margins."""
    for what, given in (("xgb_model", before), ("contributed", contributed), ("shards", party.workers)):
        if given:
            raise ConfigError(f"base_margin cannot be combined with {what} yet: leave one of them out")


def offsets_to_predict(
    model: SharedModel, rank: int, receiver: int | None, values: ColumnLike | None, rows: int
) -> np.ndarray | float:
    """Return what to add to the margins of the rows that a party learns, float64[n] or [n, classes]; 0 for none.

    Raises ConfigError, DataError.
    """
    learns = receiver in (None, rank) and rows > 0
    if values is not None and not model.facts.offsets:
        raise ConfigError("the model was trained without base_margin, and has a base score: leave base_margin out")
    if values is None and model.facts.offsets and learns:
        raise ConfigError("the model was trained with base_margin: pass base_margin for the rows to predict")
    if values is None:
        return 0.0
    if not learns:
        raise ConfigError("base_margin must be passed by the party that learns the predictions, for its rows")
    offsets = read_offsets(values, model.config, rows).T
    return offsets if model.config.num_class else offsets[:, 0]


def open_contributed(
    party: Party,
    contributed: Mapping[str, Line] | Source,
    config: TrainConfig,
    known: Dictionary,
    own: OwnRows,
    bounds: Bounds = NO_BOUNDS,
) -> Contributed | ContributedColumns:
    """Let the training have contributed rows or columns. Raises ConfigError, DataError, PeerFailure."""
    check_contributable(config)
    source = contributed
    if isinstance(source, Mapping):
        source = OwnersOfColumns(source) if config.partition == "vertical" else Owners(source, bounds)
    opened = source.open(party, config, known, own.names)
    if isinstance(opened, ContributedColumns):
        own.contributed_columns = opened
        if isinstance(own, AtWorkers):
            opened.source.ids = own.ids
        return opened
    own.contributed = opened
    if party.workers and sum(opened.rows) < party.workers.count:
        raise DataError(f"contributed rows must be at least one for each of the {party.workers.count} workers")
    return opened


def check_shares(context: TrainingContext, own: OwnRows) -> None:
    if own.contributed:
        own.contributed.source.bounds.check_shares(own.contributed.owners, context.layout.row_count)


def categories_of(model: SharedModel, rank: int, X: TableLike) -> Dictionary:
    """Return the categories that the model knows for the columns of a party's table."""
    trained_on = model.facts.names[model.facts.layout.features_of(rank)]
    frame = frame_of(X)
    return {} if frame is None else columns_behind(trained_on, [str(c) for c in frame.columns])


def columns_of_owners(
    party: Party,
    model: SharedModel,
    method: Method,
    mac: bool,
    contributed: Mapping[str, Line] | OwnersOfColumns | None,
) -> ContributedKeys | None:
    """Get the owners' columns of the rows to predict, if the model has any. Raises ConfigError, DataError."""
    if not (wanted := features_by_owner(model)):
        if contributed:
            raise ConfigError("the model has no columns of owners: leave out contributed")
        return None
    if not contributed or method != "thresholds" or mac or party.workers:
        raise ConfigError(
            f"the model has columns of {', '.join(wanted)}, who must contribute those of the rows to predict: pass "
            'contributed, and method="thresholds", without MACs and shards'
        )
    source = OwnersOfColumns(contributed) if isinstance(contributed, Mapping) else contributed
    return source.keys(party, model)


def receiver_of(model: SharedModel, method: Method, to: int | None) -> int | None:
    """Return the party that learns what is predicted for vertical data, otherwise None. Raises ConfigError."""
    if method not in get_args(Method):
        raise ConfigError(f'method must be "bins" or "thresholds", got {method!r}')
    if to is not None and (model.config.partition == "horizontal" or to not in (0, 1)):
        raise ConfigError(
            f"`to` must be 0 or 1 for vertical data, and None for horizontal data, where each party learns its own "
            f"rows, got {to!r}"
        )
    receiver = model.facts.label_holder if to is None else to
    if receiver is not None and receiver > 1:
        raise ConfigError("`to` must be 0 or 1: an owner had the labels, who is no party")
    return receiver


def features_to_predict(
    model: SharedModel, rank: int, X: TableLike | Shards
) -> tuple[Dictionary, np.ndarray, tuple[str, ...]]:
    """Return the categories of a party's columns, its features in the order of the training, and their names."""
    table = X.header if isinstance(X, Shards) else in_memory(X)
    known = categories_of(model, rank, table)
    frame = frame_of(table)
    if frame is not None and not isinstance(X, Shards) and set(frame.columns) == set(known):
        table = frame[list(known)]
    return known, *read_features(table, model.config, known=known)
