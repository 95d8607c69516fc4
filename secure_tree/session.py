"""What two parties tell each other before a training or a prediction, and how they refuse to go on when it differs."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.boost import Shape
from secure_tree.config import TrainConfig
from secure_tree.model import SharedModel
from secure_tree.schema import Table

VERSION = 1


def agree_on_training(party: Party, config: TrainConfig, table: Table) -> tuple[Shape, str]:
    """The public facts of a training, and the pairing id of its model. Raises ConfigError or DataError at both."""
    largest = float(np.abs(table.labels).max()) if table.labels is not None else 0.0
    facts: dict[str, Any] = {
        "version": VERSION,
        "config": config.model_dump(),
        "names": list(table.names),
        "rows": len(table.features),
        "exponent": 0 if config.logistic else _exponent(max(largest, abs(config.base_score))),
        "token": secrets.token_hex(16),
    }
    theirs = party.swap("training.facts", facts)
    _same_version(theirs)
    _same_config(facts["config"], theirs["config"])
    _same_names(table.names, tuple(theirs["names"]))
    ordered = (facts, theirs) if party.rank == 0 else (theirs, facts)
    rows = (ordered[0]["rows"], ordered[1]["rows"])
    sizes = tuple(n if config.max_bin == "exact" else min(n, config.max_bin) for n in rows)
    scale = 2.0 ** max(facts["exponent"], theirs["exponent"])
    shape = Shape(rows, len(table.names), (sizes[0], sizes[1]), scale)
    return shape, pairing_id(ordered[0]["token"], ordered[1]["token"])


def pairing_id(*tokens: str) -> str:
    """The id of a model from the tokens of party 0 and party 1."""
    return hashlib.sha256("".join(tokens).encode()).hexdigest()[:32]


def agree_on_prediction(party: Party, model: SharedModel, names: tuple[str, ...], rows: int, method: str) -> tuple:
    """Row counts of both parties, after both halves of the model and the features were found to fit."""
    if model.rank != party.rank:
        raise DataError(f"this half of the model belongs to party {model.rank}, and this is party {party.rank}")
    if method == "bins" and model.edges.shape[1] == 0:
        raise ConfigError("this model was not trained on the parties' bins: predict by thresholds")
    theirs = party.swap(
        "prediction.facts", {"version": VERSION, "pairing": model.pairing, "rows": rows, "method": method}
    )
    _same_version(theirs)
    if theirs["pairing"] != model.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs["method"] != method:
        raise ConfigError(f"this party predicts by {method}, the other by {theirs['method']}")
    _same_names(model.names, names, "the model", "the rows")
    return (rows, theirs["rows"]) if party.rank == 0 else (theirs["rows"], rows)


def agree_on_reveal(party: Party, model: SharedModel, to: int) -> None:
    """Both halves fit each other, and both parties mean the same receiver. Raises ConfigError or DataError."""
    theirs = party.swap("reveal.facts", {"version": VERSION, "pairing": model.pairing, "to": to})
    _same_version(theirs)
    if theirs["pairing"] != model.pairing:
        raise DataError("the two halves of the model come from different trainings")
    if theirs["to"] != to:
        raise ConfigError("the parties disagree on who is to see the model")


def _exponent(largest: float) -> int:
    return math.ceil(math.log2(largest)) if largest > 0 else 0


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
