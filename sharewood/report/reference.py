"""Plain XGBoost on the pooled rows, for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.errors import ConfigError
from mpc.host.extras import install
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.public.config import BoostingConfig, TrainConfig


def without_xgboost() -> str | None:
    """Return why XGBoost is not available, and what to install; None if it is available."""
    try:
        import xgboost

        xgboost.DMatrix(np.zeros((1, 1)))
    except Exception as error:  # XGBoost's own error if its library is missing, and others if it is incomplete
        return f"the comparison needs XGBoost, which cannot be imported ({error}): {install('xgboost')}"
    return None


def check_xgboost() -> None:
    """Raise ConfigError if XGBoost is not available."""
    if why := without_xgboost():
        raise ConfigError(why)


@dataclass(frozen=True)
class Reference:
    """A trained XGBoost model."""

    _booster: Any

    @classmethod
    def trained(
        cls, parameters: Mapping[str, object], rounds: int, features: TableLike, labels: ColumnLike
    ) -> Reference:
        """Train a number of rounds with XGBoost's own parameters."""
        import xgboost

        return cls(xgboost.train(dict(parameters), xgboost.DMatrix(features, label=labels), rounds))

    @classmethod
    def alike(cls, config: BoostingConfig, features: TableLike, labels: ColumnLike) -> Reference:
        """Train with the parameters of one of Sharewood's configurations."""
        return cls.trained(_parameters(config), config.n_estimators, features, labels)

    def margins(self, features: TableLike, trees: int = 0) -> np.ndarray:
        """Return float64[n], by the first `trees` trees; 0 means all."""
        import xgboost

        rows = xgboost.DMatrix(features)
        return self._booster.predict(rows, output_margin=True, iteration_range=(0, trees)).astype(float)


def _parameters(config: BoostingConfig) -> dict[str, object]:
    parameters: dict[str, object] = {
        "objective": config.objective,
        "learning_rate": config.learning_rate,
        "max_depth": config.max_depth,
        "tree_method": "exact" if config.max_bin == "exact" else "hist",
        "reg_lambda": config.reg_lambda,
        "reg_alpha": config.reg_alpha,
        "gamma": config.min_split_loss,
        "min_child_weight": config.min_child_weight,
    }
    if config.max_bin != "exact":
        parameters["max_bin"] = config.max_bin
    if config.base_score is not None:
        parameters["base_score"] = config.base_score
    if isinstance(config, TrainConfig):
        if config.monotone_constraints:
            parameters["monotone_constraints"] = config.monotone_constraints
        parameters["max_delta_step"] = config.max_delta_step
        if config.objective == "reg:tweedie":
            parameters["tweedie_variance_power"] = config.power
        if config.pseudo_huber:
            parameters["huber_slope"] = config.huber_slope
        if config.objective == "binary:logistic":
            parameters["scale_pos_weight"] = config.scale_pos_weight
    return parameters
