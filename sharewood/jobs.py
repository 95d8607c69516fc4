"""What two parties do together once they are connected: fit on files, predict files. Used by operators and commands."""

from __future__ import annotations

import logging
from typing import Any, Literal

import numpy as np
import pandas as pd

from mpc.errors import ConfigError
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.checkpoint import Checkpoints
from secure_tree.config import TrainConfig
from secure_tree.links import values
from secure_tree.model import SharedModel
from secure_tree.predict import Method
from secure_tree.schema import held_count

log = logging.getLogger("sharewood")

Output = Literal["margin", "probability"]
EXACT_ROWS = 256
BINS_BEYOND = 64


def agree(party: Party, job: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Tell the peer the public facts of a job and get its own; those in `job` and `facts` under `same` must agree."""
    mine = {"job": job, **facts}
    theirs = party.swap("job.facts", mine)
    if theirs.get("job") != job:
        raise ConfigError(f"this party wants to {job}, the other to {theirs.get('job')}")
    for name, value in facts.get("same", {}).items():
        other = theirs.get("same", {}).get(name)
        if other != value:
            raise ConfigError(f"the parties disagree on {name}: {value} here, {other} at the other")
    return theirs


def fit(
    party: Party,
    parameters: dict[str, Any],
    features: pd.DataFrame,
    labels: np.ndarray,
    checkpoints: Checkpoints | None = None,
) -> SecureXGBClassifier | SecureXGBRegressor:
    """Train on own rows with the peer. `parameters` of TrainConfig are public and equal at both parties.

    `max_bin` None stands for "exact" while no party trains on more than EXACT_ROWS rows, else BINS_BEYOND.
    """
    known = {name: value for name, value in parameters.items() if value is not None}
    config = TrainConfig.of(**known)
    held = held_count(config, len(labels))
    mine = len(labels) - held
    theirs = agree(party, "train", {"same": {**parameters, "checkpoints": checkpoints is not None}, "rows": mine})
    if held:
        log.warning("test_size %g: %d of %d rows are held out of training", config.test_size, held, len(labels))
    if parameters.get("max_bin") is None:
        known["max_bin"] = "exact" if max(mine, int(theirs["rows"])) <= EXACT_ROWS else BINS_BEYOND
    kind = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    estimator = kind(**known).fit(party, features, labels, checkpoints=checkpoints)
    for rounds, value in estimator.curve:
        log.info("%d trees: %s %.6g on held-out rows", rounds, config.metric, value)
    return estimator


def predict(
    party: Party, model: SharedModel, features: pd.DataFrame, output: Output, method: Method = "thresholds"
) -> np.ndarray:
    """Margins, probabilities or expected numbers of own rows, float64[n]; columns unknown to the model are refused."""
    agree(party, "predict", {"same": {"output": output}})
    estimator = (SecureXGBClassifier if model.config.logistic else SecureXGBRegressor)(**model.config.model_dump())
    estimator.model = model
    margins = estimator.predict_margin(party, features, method)
    if not model.config.logistic:
        return values(model.config, margins)
    return 1 / (1 + np.exp(-margins)) if output == "probability" else margins
