"""Cross-validation and a grid search between two parties: only the metrics of held-out rows are revealed.

Each row is held out once, in the fold that a public coin gives it: both parties draw the folds from `random_state`, and
by columns they hold out the same rows. Each fold is a training of its own, whose model is dropped. Without early
stopping a fold reveals its metrics once, after the last round, and with it after each `eval_epochs` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.agreement.messages import Count, Message, exchange
from secure_tree.config import RISING
from secure_tree.conventions import needs_party
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.inputs import ColumnLike, TableLike
from secure_tree.public import choose

Estimator = TypeVar("Estimator", SecureXGBClassifier, SecureXGBRegressor)
MOST_FOLDS = 100


class FoldFacts(Message):
    """The number of folds, and of candidates; the parameters of a candidate are compared by each of its trainings."""

    folds: Count
    candidates: Count


@dataclass(frozen=True)
class GridSearch:
    """`best` has the parameters with the best mean and is not fitted. `results`: a row for each candidate, with its
    parameters and, of each metric, the mean and the standard deviation over the folds, the best candidate first.
    """

    best: SecureXGBClassifier | SecureXGBRegressor
    results: pd.DataFrame


def cross_validate(
    party: Party,
    estimator: Estimator,
    X: TableLike,
    y: ColumnLike | None = None,
    *,
    folds: int = 5,
    sample_weight: ColumnLike | None = None,
) -> dict[str, np.ndarray]:
    """Train on all folds but one and evaluate on that one, for each fold: of every metric, float64[folds].

    The estimator gives the parameters, `eval_metric` and `random_state` among them, and is not changed. X, y and
    `sample_weight` as of `fit`, at both parties at once. Each party needs 5 rows per fold. Both learn the metrics of
    each fold. Raises ConfigError, DataError, PeerFailure.
    """
    [scores] = _of_candidates(party, [estimator], X, y, folds, sample_weight)
    return scores


def grid_search(
    party: Party,
    estimator: Estimator,
    grid: Mapping[str, Sequence[Any]],
    X: TableLike,
    y: ColumnLike | None = None,
    *,
    folds: int = 5,
    sample_weight: ColumnLike | None = None,
) -> GridSearch:
    """`cross_validate` every combination of the values in `grid`, on the same folds, as both parties ask.

    The best is by the mean of the last metric; of equals the first. Each combination costs `folds` trainings.
    """
    if not grid or not all(grid.values()):
        raise ConfigError(
            "grid must list at least one value for each parameter, got " + (str(dict(grid)) if grid else "none")
        )
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    candidates = [_changed(estimator, combination) for combination in combinations]
    scores = _of_candidates(party, candidates, X, y, folds, sample_weight)
    metric = candidates[0].config.metric
    rows = [
        combination | {f"{m}_{how}": float(getattr(v, how)()) for m, v in of.items() for how in ("mean", "std")}
        for combination, of in zip(combinations, scores, strict=True)
    ]
    means = [of[metric].mean() for of in scores]
    order = np.argsort(np.negative(means) if metric in RISING else means, kind="stable")
    return GridSearch(candidates[order[0]], pd.DataFrame(rows).iloc[order].reset_index(drop=True))


def _of_candidates(
    party: Party,
    candidates: Sequence[Estimator],
    X: TableLike,
    y: ColumnLike | None,
    folds: int,
    sample_weight: ColumnLike | None,
) -> list[dict[str, np.ndarray]]:
    needs_party(party, "cross_validate(party, estimator, X, y)")
    configs = [candidate.config for candidate in candidates]
    for config in configs:
        config.check_trainable()
        if config.test_size:
            raise ConfigError(f"test_size must be 0: the folds are held out, got {config.test_size:g}")
        if config.metrics != configs[0].metrics:
            raise ConfigError("eval_metric must be the same for all candidates, since they are compared by it")
    if not 2 <= folds <= MOST_FOLDS:
        raise ConfigError(f"folds must be a number from 2 to {MOST_FOLDS}, got {folds}")
    mine = FoldFacts.of(folds=folds, candidates=len(configs))
    theirs = exchange(party, "cross_validation.facts", mine)
    for what, here, there in (("folds", folds, theirs.folds), ("candidates", len(configs), theirs.candidates)):
        if here != there:
            raise ConfigError(f"the parties disagree on the number of {what}: {here} here, {there} at the other")
    return [_scores(party, candidate, X, y, folds, sample_weight) for candidate in candidates]


def _scores(
    party: Party,
    estimator: Estimator,
    X: TableLike,
    y: ColumnLike | None,
    folds: int,
    sample_weight: ColumnLike | None,
) -> dict[str, np.ndarray]:
    config = estimator.config
    # No metric is revealed but the one after the last round.
    once = {} if config.early_stopping_rounds else {"eval_epochs": config.n_estimators}
    found: dict[str, list[float]] = {metric: [] for metric in config.metrics}
    count = np.shape(X)[0]
    for held in _folds(count, folds, config.random_state):
        rest = np.delete(np.arange(count), held)
        model = _changed(estimator, once)
        model.fit(party, _rows(X, rest), _rows(y, rest), _rows(sample_weight, rest), (_rows(X, held), _rows(y, held)))
        assert model.model is not None, "fit has set it"
        for metric, curve in model.curves.items():
            found[metric].append(dict(curve)[model.model.rounds])
    return {metric: np.array(values) for metric, values in found.items()}


def _changed(estimator: Estimator, parameters: Mapping[str, Any]) -> Estimator:
    """An estimator that is not fitted, with some parameters changed."""
    return type(estimator)(**estimator.get_params()).set_params(**parameters)


def _folds(rows: int, folds: int, random_state: int) -> Iterator[np.ndarray]:
    """The rows of each fold, ascending: as many in each, or one more."""
    if rows < folds:
        raise DataError(f"X has {rows} rows, and {folds} folds need one each at least")
    left = np.arange(rows)
    for number in range(folds):
        chosen = choose(len(left) // (folds - number), len(left), f"fold {number} {random_state}")
        yield left[chosen]
        left = np.delete(left, chosen)


def _rows(values: Any, rows: np.ndarray) -> Any:
    """Some rows of a table or a column, of whatever type; None stays None."""
    if values is None or not hasattr(values, "iloc"):
        return None if values is None else np.asarray(values)[rows]
    return values.iloc[rows]
