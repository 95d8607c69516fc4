"""What two parties tell each other before a training or a prediction, and how they refuse to go on when it differs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.categories import Dictionary, covers, unite
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts, Layout, lay_out
from secure_tree.model import SharedModel
from secure_tree.public import ceil_log2
from secure_tree.schema import Table

VERSION = 3


def agree_on_terms(party: Party, config: TrainConfig, categories: Dictionary) -> Dictionary:
    """The same version and parameters at both, and the categories of this party's categorical columns.

    By rows they are both parties' categories. Raises ConfigError or DataError at both.
    """
    mine: dict[str, Any] = {"version": VERSION, "config": config.model_dump(), "categories": categories}
    theirs = party.exchange_public("training.terms", mine)
    _same_version(theirs)
    _same_config(mine["config"], theirs["config"])
    if config.partition == "vertical":
        return categories
    ordered = (mine, theirs) if party.rank == 0 else (theirs, mine)
    return unite(*(terms["categories"] for terms in ordered))


def agree_on_training(party: Party, config: TrainConfig, table: Table, held: Table) -> Facts:
    """The public facts of a training on agreed terms. Raises ConfigError or DataError at both."""
    every_label = [t.labels for t in (table, held) if t.labels is not None and t.labels.size]
    largest = max((float(np.abs(labels).max()) for labels in every_label), default=0.0)
    facts: dict[str, Any] = {
        "names": list(table.names),
        "indicators": list(table.indicators),
        "rows": len(table.features),
        "held": len(held.features),
        "labelled": table.labels is not None,
        "exponent": 0 if config.logistic else exponent(max(largest, abs(config.base_score))),
        "weights": None if table.weights is None else exponent(float(table.weights.max())),
        "token": secrets.token_hex(16),
    }
    theirs = party.exchange_public("training.facts", facts)
    ordered = (facts, theirs) if party.rank == 0 else (theirs, facts)
    names = tuple(ordered[0]["names"]), tuple(ordered[1]["names"])
    label_holder = None
    if config.partition == "vertical":
        _same_rows(facts["rows"], theirs["rows"])
        _same_rows(facts["held"], theirs["held"])
        if facts["labelled"] == theirs["labelled"]:
            raise DataError(f"y: {'both parties have' if facts['labelled'] else 'neither party has'} labels")
        label_holder = party.rank if facts["labelled"] else 1 - party.rank
    else:
        _same_names(table.names, tuple(theirs["names"]))
    check_declared(config, names)
    layout = lay_out(config, names, (ordered[0]["rows"], ordered[1]["rows"]))
    scale = 2.0 ** max(facts["exponent"], theirs["exponent"])
    pairing = pairing_id(ordered[0]["token"], ordered[1]["token"])
    weighted = any(f["weights"] is not None for f in ordered)
    weight_scale = 2.0 ** max(f["weights"] or 0 for f in ordered if f["labelled"]) if weighted else None
    every = names[0] + names[1] if layout.vertical else names[0]
    judging = ordered[0]["held"], ordered[1]["held"]
    if config.early_stopping_rounds and not any(judging):
        raise ConfigError("early_stopping_rounds needs rows to judge by: test_size, test_data or an eval_set")
    indicators = {layout.features_of(p).start + f for p in (0, 1) for f in ordered[p]["indicators"]}
    of_both = judging, tuple(sorted(indicators)), config.counts
    return Facts(pairing, every, layout, scale, weight_scale, label_holder, *of_both)


def pairing_id(*tokens: str) -> str:
    """The id of a model from the tokens of party 0 and party 1."""
    return hashlib.sha256("".join(tokens).encode()).hexdigest()[:32]


def agree_on_prediction(
    party: Party, model: SharedModel, names: tuple[str, ...], rows: int, method: str, to: int | None = None
) -> Layout:
    """The layout of the rows to predict, after both halves of the model and the features were found to fit."""
    if model.rank != party.rank:
        raise DataError(f"this half of the model belongs to party {model.rank}, and this is party {party.rank}")
    if method == "bins" and model.edges.shape[1] == 0:
        raise ConfigError("this model was not trained on the parties' bins: predict by thresholds")
    theirs = party.exchange_public(
        "prediction.facts",
        {"version": VERSION, "pairing": model.facts.pairing, "rows": rows, "method": method, "to": to},
    )
    _same_version(theirs)
    if theirs["pairing"] != model.facts.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs["method"] != method:
        raise ConfigError(f"this party predicts by {method}, the other by {theirs['method']}")
    if theirs["to"] != to:
        raise ConfigError(f"this party names {to} to learn the predictions, the other {theirs['to']}")
    layout = model.facts.layout
    _same_names(model.facts.names[layout.features_of(party.rank)], names, "the model", "the rows")
    if layout.vertical:
        _same_rows(rows, theirs["rows"])
    return replace(layout, rows=(rows, theirs["rows"]) if party.rank == 0 else (theirs["rows"], rows))


def _same_rows(mine: int, theirs: int) -> None:
    if mine != theirs:
        raise DataError(f"this party has {mine} rows, the other {theirs}: vertical tables have the same rows, in order")


def agree_on_reveal(party: Party, model: SharedModel, to: int) -> None:
    """Both halves fit each other, and both parties mean the same receiver. Raises ConfigError or DataError."""
    theirs = party.exchange_public("reveal.facts", {"version": VERSION, "pairing": model.facts.pairing, "to": to})
    _same_version(theirs)
    if theirs["pairing"] != model.facts.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs["to"] != to:
        raise ConfigError("the parties disagree on who is to see the model")


def check_declared(config: TrainConfig, names: Sequence[tuple[str, ...]]) -> None:
    """Raises ConfigError where `missing` declares a feature that no party has."""
    declared = config.missing if isinstance(config.missing, tuple) else ()
    for name in declared:
        if not any(covers(name, feature) for own in names for feature in own):
            raise ConfigError(f"missing: no party has a feature {name!r}")


def exponent(largest: float) -> int:
    """The power of two that a number does not exceed."""
    return ceil_log2(largest) if largest > 0 else 0


def _same_version(theirs: dict) -> None:
    if theirs.get("version") != VERSION:
        raise ConfigError(f"the other party runs version {theirs.get('version')} of the training, this one {VERSION}")


def _same_config(mine: dict, theirs: dict) -> None:
    for name, value in mine.items():
        if theirs.get(name) != value:
            raise ConfigError(f"the parties disagree on {name}: {value} here, {theirs.get(name)} at the other")


def _same_names(
    mine: tuple[str, ...], theirs: tuple[str, ...], here: str = "this party", there: str = "the other"
) -> None:
    if len(mine) != len(theirs):
        raise DataError(f"{here} has {len(mine)} features, {there} {len(theirs)}")
    for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a != b:
            raise DataError(f"feature {place} is {a!r} at {here} and {b!r} at {there}: names and order must agree")
