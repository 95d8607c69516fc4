"""Cross-validation and grid search between two parties. Only the metrics on held-out rows are revealed.

Each row is held out once. Both parties draw the folds from `random_state` by a public coin, so that vertical data holds
out the same rows at both. Each fold is a separate training, whose model is discarded. Without early stopping, a fold
reveals its metrics only after the last round; with early stopping, after every `eval_epochs` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.frames import pd
from mpc.party import Party
from secure_tree.agreement.messages import Count, Message, exchange
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed, Source
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.inputs import ColumnLike, TableLike, in_memory
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.interface.conventions import needs_party
from secure_tree.public.config import TrainConfig
from secure_tree.public.exact import choose
from secure_tree.public.layout import edge_count
from secure_tree.public.objectives import RISING
from secure_tree.training.validation import undefined

Estimator = TypeVar("Estimator", SecureXGBClassifier, SecureXGBRegressor)
MOST_FOLDS = 100


class FoldFacts(Message):
    """The number of folds and of candidates. Each training of a candidate compares its parameters."""

    folds: Count
    candidates: Count


@dataclass(frozen=True)
class GridSearch:
    """The result of `grid_search`.

    Attributes
    ----------
    best : SecureXGBClassifier or SecureXGBRegressor
        An estimator with the best parameters. It is not fitted.
    results : DataFrame
        One row per candidate, the best first, with its parameters and the mean and standard deviation of each metric
        over the folds, in columns such as `auc_mean` and `auc_std`.
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
    contributed: Source | None = None,
) -> dict[str, np.ndarray]:
    """Evaluate an estimator by cross-validation: for each fold, train on the others and evaluate on this one.

    Both parties must call this at the same time. Both learn the metrics of each fold.

    Parameters
    ----------
    party : Party
        The connection to the other party.
    estimator : SecureXGBClassifier or SecureXGBRegressor
        Provides the parameters, including `eval_metric` and `random_state`. It is not changed.
    X : array [n, d] or DataFrame
        The features of this party, with at least 5 rows per fold.
    y : array [n], optional
        The labels, as in `fit`.
    folds : int, default 5
        The number of folds, 2 to 100.
    sample_weight : array [n], optional
        The weights, as in `fit`.
    contributed : Stored, optional
        Rows or columns of owners who are no party, in a folder that `collect` has written. Rows are held out like those
        of the parties. The edges of the bins, by columns those of the owners, are those of all rows.

    Returns
    -------
    dict of str to float64[folds]
        The value of every metric in each fold.

    Raises
    ------
    ConfigError
        If parameters are invalid, or differ between the parties.
    DataError
        If a table is invalid or has too few rows, or if the tables do not fit.
    PeerFailure
        If the other party or the connection fails.
    """
    [scores] = _of_candidates(party, [estimator], X, y, folds, sample_weight, contributed)
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
    contributed: Source | None = None,
) -> GridSearch:
    """Call `cross_validate` for every combination of the values in `grid`, on the same folds.

    The best combination has the best mean of the last metric; if several are equal, the first is best. Each combination
    costs `folds` trainings. Both parties must call this at the same time with the same grid.

    Parameters
    ----------
    party : Party
        The connection to the other party.
    estimator : SecureXGBClassifier or SecureXGBRegressor
        Provides the parameters that are not in the grid. It is not changed.
    grid : dict of str to list
        The values to try for each parameter.
    X : array [n, d] or DataFrame
        The features, as in `cross_validate`.
    y : array [n], optional
        The labels, as in `fit`.
    folds : int, default 5
        The number of folds, 2 to 100.
    sample_weight : array [n], optional
        The weights, as in `fit`.
    contributed : Stored, optional
        Rows or columns of owners who are no party, in a folder that `collect` has written. Rows are held out like those
        of the parties. The edges of the bins, by columns those of the owners, are those of all rows.

    Returns
    -------
    GridSearch
        An unfitted estimator with the best parameters, and the results of all candidates.

    Raises
    ------
    ConfigError
        If parameters are invalid, or differ between the parties.
    DataError
        If a table is invalid or has too few rows, or if the tables do not fit.
    PeerFailure
        If the other party or the connection fails.
    """
    if not grid or not all(grid.values()):
        raise ConfigError(
            "grid must list at least one value for each parameter, got " + (str(dict(grid)) if grid else "none")
        )
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    candidates = [_changed(estimator, combination) for combination in combinations]
    scores = _of_candidates(party, candidates, X, y, folds, sample_weight, contributed)
    metric = candidates[0].config.metric
    rows = [
        combination | {f"{m}_{how}": float(getattr(v, how)()) for m, v in of.items() for how in ("mean", "std")}
        for combination, of in zip(combinations, scores, strict=True)
    ]
    means = [of[metric].mean() for of in scores]
    if np.isnan(means).any():
        raise undefined(metric)
    order = np.argsort(np.negative(means) if metric in RISING else means, kind="stable")
    return GridSearch(candidates[order[0]], pd.DataFrame(rows).iloc[order].reset_index(drop=True))


def _of_candidates(
    party: Party,
    candidates: Sequence[Estimator],
    X: TableLike,
    y: ColumnLike | None,
    folds: int,
    sample_weight: ColumnLike | None,
    contributed: Source | None,
) -> list[dict[str, np.ndarray]]:
    needs_party(party, "cross_validate(party, estimator, X, y)")
    if isinstance(contributed, Mapping):
        raise ConfigError("contributed must be a folder that `collect` has written: each fold is a training of its own")
    configs = [candidate.config for candidate in candidates]
    for config in configs:
        if config.test_size:
            raise ConfigError(f"test_size must be 0: the folds are held out, got {config.test_size:g}")
        if config.metrics != configs[0].metrics:
            raise ConfigError("eval_metric must be the same for all candidates: they are compared by it")
    if not 2 <= folds <= MOST_FOLDS:
        raise ConfigError(f"folds must be a number from 2 to {MOST_FOLDS}, got {folds}")
    mine = FoldFacts.of(folds=folds, candidates=len(configs))
    theirs = exchange(party, "cross_validation.facts", mine)
    for what, here, there in (("folds", folds, theirs.folds), ("candidates", len(configs), theirs.candidates)):
        if here != there:
            raise ConfigError(f"the parties disagree on the number of {what}: {here} here, {there} at the other")
    X = in_memory(X)
    return [_scores(party, candidate, X, y, folds, sample_weight, contributed) for candidate in candidates]


def _scores(
    party: Party,
    estimator: Estimator,
    X: TableLike,
    y: ColumnLike | None,
    folds: int,
    sample_weight: ColumnLike | None,
    contributed: Source | None,
) -> dict[str, np.ndarray]:
    config = estimator.config
    # Only the metrics after the last round are revealed.
    once = {} if config.early_stopping_rounds else {"eval_epochs": config.n_estimators}
    found: dict[str, list[float]] = {metric: [] for metric in config.metrics}
    count = len(in_memory(X))
    none = [np.zeros(0, np.int64)] * folds
    for number, held in enumerate(_folds(count, folds, config.random_state) if count or not contributed else none):
        rest = np.delete(np.arange(count), held)
        model = _changed(estimator, once)
        model.fit(
            party,
            _rows(X, rest),
            _rows(y, rest),
            _rows(sample_weight, rest),
            (_rows(X, held), _rows(y, held)) if count else None,
            contributed=contributed and _Fold(contributed, number, folds),
        )
        assert model.model is not None, "fit has set it"
        for metric, curve in model.curves.items():
            found[metric].append(dict(curve)[model.model.rounds])
    return {metric: np.array(values) for metric, values in found.items()}


@dataclass(frozen=True)
class _Fold:
    """Implements `Source`: contributions of which the rows of a fold are held out."""

    source: Source
    number: int
    folds: int

    def open(
        self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]
    ) -> Contributed | ContributedColumns:
        opened = self.source.open(party, config, known, names)
        if isinstance(opened, Contributed):
            return replace(opened, held=[self._of(owner.rows, config) for owner in opened.owners])
        rows = next(iter(opened.owners.values())).rows
        fold = self._of(rows, config)
        if edge_count(config, rows) != edge_count(config, rows - len(fold)):
            raise ConfigError(
                f"max_bin must be a number of at most {rows - len(fold)}, the rows that a fold trains on, got "
                f"{config.max_bin!r}: the owners cut their bins before the folds"
            )
        return replace(opened, fold=fold)

    def _of(self, rows: int, config: TrainConfig) -> np.ndarray:
        return list(_folds(rows, self.folds, config.random_state))[self.number]


def _changed(estimator: Estimator, parameters: Mapping[str, Any]) -> Estimator:
    """Return an unfitted copy of the estimator with some parameters changed."""
    return type(estimator)(**estimator.get_params()).set_params(**parameters)


def _folds(rows: int, folds: int, random_state: int) -> Iterator[np.ndarray]:
    """Yield the rows of each fold in ascending order. The sizes of the folds differ by at most one."""
    if rows < folds:
        raise DataError(f"X must have at least one row per fold, got {rows} rows for {folds} folds")
    left = np.arange(rows)
    for number in range(folds):
        chosen = choose(len(left) // (folds - number), len(left), f"fold {number} {random_state}")
        yield left[chosen]
        left = np.delete(left, chosen)


def _rows(values: Any, rows: np.ndarray) -> Any:
    """Select rows of a table or column of any type. None stays None."""
    if values is None or not hasattr(values, "iloc"):
        return None if values is None else np.asarray(values)[rows]
    return values.iloc[rows]
