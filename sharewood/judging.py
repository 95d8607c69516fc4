"""How good margins are against labels that one may see, and plain XGBoost on the same rows to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc.errors import ConfigError
from secure_tree.config import TrainConfig
from secure_tree.links import probabilities, values
from sharewood.jobs import Output


def quality(labels: np.ndarray, margins: np.ndarray, config: TrainConfig) -> dict[str, float | None]:
    """Measures of margins against labels; auc is None where only one class is present."""
    from sklearn import metrics

    if not config.logistic:
        predicted = values(config, margins)
        return {
            "rmse": float(metrics.root_mean_squared_error(labels, predicted)),
            "mae": float(metrics.mean_absolute_error(labels, predicted)),
        }
    probability = 1 / (1 + np.exp(-margins))
    return {
        "auc": float(metrics.roc_auc_score(labels, margins)) if len(set(labels)) == 2 else None,
        "accuracy": float(metrics.accuracy_score(labels, margins > 0)),
        "logloss": float(metrics.log_loss(labels, probability, labels=[0, 1])),
    }


def quality_of_predictions(
    labels: np.ndarray, predictions: np.ndarray, output: Output, config: TrainConfig
) -> dict[str, float | None]:
    """Measures of what a model of any kind predicted against labels; of several classes no AUC."""
    from sklearn import metrics

    if not config.num_class:
        return quality(labels, _margins_behind(predictions, output, config), config)
    each = predictions if output == "probability" else probabilities(config, predictions)
    return {
        "accuracy": float(metrics.accuracy_score(labels, each.argmax(axis=1))),
        "logloss": float(metrics.log_loss(labels, each, labels=np.arange(config.num_class))),
    }


def _margins_behind(predictions: np.ndarray, output: Output, config: TrainConfig) -> np.ndarray:
    """Margins of predicted numbers, of two classes' margins or of probabilities; certainty is taken for 1e-15 less."""
    if config.counts:
        return np.log(np.maximum(predictions, 1e-15))
    if output == "margin":
        return predictions
    inside = np.clip(predictions, 1e-15, 1 - 1e-15)
    return np.log(inside) - np.log1p(-inside)


def check_xgboost() -> None:
    """Raises ConfigError where XGBoost cannot be used to compare with."""
    try:
        import xgboost

        xgboost.DMatrix(np.zeros((1, 1)))
    except Exception as error:  # of its own kind where its library is gone, and others where half of it is
        raise ConfigError(
            f"the comparison needs XGBoost, which cannot be imported ({error}): pip install 'sharewood[xgboost]'"
        ) from None


def train_xgboost(config: TrainConfig, features: np.ndarray, labels: np.ndarray) -> Any:
    """A booster of plain XGBoost with the same parameters."""
    import xgboost

    parameters = {
        "objective": config.objective,
        "learning_rate": config.learning_rate,
        "max_depth": config.max_depth,
        "tree_method": "exact" if config.max_bin == "exact" else "hist",
        "reg_lambda": config.reg_lambda,
        "reg_alpha": config.reg_alpha,
        "gamma": config.min_split_loss,
        "min_child_weight": config.min_child_weight,
        "max_delta_step": config.max_delta_step,
    }
    if config.objective == "binary:logistic":
        parameters["scale_pos_weight"] = config.scale_pos_weight
    if config.base_score is not None:
        parameters["base_score"] = config.base_score
    if config.max_bin != "exact":
        parameters["max_bin"] = config.max_bin
    return xgboost.train(parameters, xgboost.DMatrix(features, label=labels), config.n_estimators)


def xgboost_margins(booster: Any, features: np.ndarray, trees: int = 0) -> np.ndarray:
    """Margins by the first `trees` trees of a booster; 0: by all."""
    import xgboost

    rows = xgboost.DMatrix(features)
    return booster.predict(rows, output_margin=True, iteration_range=(0, trees)).astype(float)
