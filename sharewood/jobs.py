"""What two parties do together once they are connected: fit on files, predict files. Used by operators and commands."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from mpc.errors import ConfigError
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.checkpoint import Checkpoints
from secure_tree.evaluation import learning_curve
from secure_tree.model import SharedModel
from secure_tree.predict import Method
from secure_tree.schema import read_features

log = logging.getLogger("sharewood")

Output = Literal["margin", "probability"]
EXACT_ROWS = 256
BINS_BEYOND = 64


@dataclass(frozen=True)
class FitJob:
    """A training: TrainConfig's parameters, and how it is watched. All of it is public and equal at both parties.

    `max_bin` None stands for "exact" while no party trains on more than EXACT_ROWS rows, else BINS_BEYOND. Of each
    party's rows `test_size` are held out (a fixed shuffle), and judged after every `eval_epochs` trees at the margin
    `eval_threshold`.
    """

    parameters: dict[str, Any]
    test_size: float = 0.0
    eval_epochs: int = 10
    eval_threshold: float = 0.0


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
    party: Party, job: FitJob, features: pd.DataFrame, labels: np.ndarray, checkpoints: Checkpoints | None = None
) -> tuple[SecureXGBClassifier | SecureXGBRegressor, list[tuple[int, float]]]:
    """Train on own rows with the peer; the model's half, and the errors on held-out rows as (trees, error)."""
    held = round(job.test_size * len(labels))
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = np.sort(order[held:]), np.sort(order[:held])
    same = {**job.parameters, "test_size": job.test_size, "eval_epochs": job.eval_epochs}
    same["eval_threshold"] = job.eval_threshold
    same["checkpoints"] = checkpoints is not None
    facts = {"same": same, "rows": len(train), "held": held}
    theirs = agree(party, "train", facts)
    if held:
        log.warning("test_size %g: %d of %d rows are held out of training", job.test_size, held, len(labels))
    parameters = dict(job.parameters)
    if parameters.get("max_bin") is None:
        most = max(len(train), int(theirs["rows"]))
        parameters["max_bin"] = "exact" if most <= EXACT_ROWS else BINS_BEYOND
    logistic = parameters["objective"] == "binary:logistic"
    kind = SecureXGBClassifier if logistic else SecureXGBRegressor
    estimator = kind(**parameters).fit(party, features.iloc[train], labels[train], checkpoints=checkpoints)
    counts = (held, int(theirs["held"])) if party.rank == 0 else (int(theirs["held"]), held)
    rows, _ = read_features(features.iloc[test])
    assert estimator.model is not None, "fit has set it"
    curve = learning_curve(party, estimator.model, rows, labels[test], counts, job.eval_epochs, job.eval_threshold)
    for trees, error in curve:
        log.info("%d trees: %s %.6g on held-out rows", trees, "error" if logistic else "rmse", error)
    return estimator, curve


def predict(
    party: Party, model: SharedModel, features: pd.DataFrame, output: Output, method: Method = "thresholds"
) -> np.ndarray:
    """Margins, or probabilities, of own rows: float64[n]. Other columns than the model's features are refused."""
    agree(party, "predict", {"same": {"output": output}})
    estimator = (SecureXGBClassifier if model.config.logistic else SecureXGBRegressor)(**model.config.model_dump())
    estimator.model = model
    margins = estimator.predict_margin(party, features, method)
    return 1 / (1 + np.exp(-margins)) if output == "probability" else margins


def log_odds(probability: float, name: str) -> float:
    """A probability as a margin. Raises ConfigError outside (0, 1)."""
    if not 0 < probability < 1:
        raise ConfigError(f"{name} is a probability between 0 and 1 here, not {probability:g}")
    return math.log(probability / (1 - probability))
