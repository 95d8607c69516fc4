"""Metrics of predictions against known labels, by scikit-learn, which is an extra."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from mpc.host.extras import install
from secure_tree.functions.links import Output, probabilities, values
from secure_tree.public.config import TrainConfig
from sharewood.report.figures import Measures


def without_metrics() -> str | None:
    """Say how to install what metrics and curves need, or return None if it is installed."""
    return None if find_spec("sklearn") else f"metrics and curves need scikit-learn: {install('report')}"


def quality(labels: np.ndarray, margins: np.ndarray, config: TrainConfig) -> Measures:
    """Return metrics of margins against labels; auc is None if only one class is present."""
    from sklearn import metrics

    if not config.logistic:
        predicted = values(config, margins)
        found: Measures = {
            "rmse": float(metrics.root_mean_squared_error(labels, predicted)),
            "mae": float(metrics.mean_absolute_error(labels, predicted)),
        }
        if config.power and config.power > 1:
            found["deviance"] = float(metrics.mean_tweedie_deviance(labels, predicted, power=config.power))
        return found
    probability = 1 / (1 + np.exp(-margins))
    return {
        "auc": float(metrics.roc_auc_score(labels, margins)) if len(set(labels)) == 2 else None,
        "accuracy": float(metrics.accuracy_score(labels, margins > 0)),
        "logloss": float(metrics.log_loss(labels, probability, labels=[0, 1])),
    }


def quality_of_predictions(
    labels: np.ndarray, predictions: np.ndarray, output: Output, config: TrainConfig
) -> Measures:
    """Return metrics of any model's predictions against labels; without AUC for several classes."""
    from sklearn import metrics

    if not config.num_class:
        return quality(labels, _margins_behind(predictions, output, config), config)
    each = predictions if output == "probability" else probabilities(config, predictions)
    return {
        "accuracy": float(metrics.accuracy_score(labels, each.argmax(axis=1))),
        "logloss": float(metrics.log_loss(labels, each, labels=np.arange(config.num_class))),
    }


def _margins_behind(predictions: np.ndarray, output: Output, config: TrainConfig) -> np.ndarray:
    """Return the margins behind predicted numbers, margins of two classes, or probabilities."""
    if config.traits.link == "log":
        return np.log(np.maximum(predictions, 1e-15))
    if output == "margin" and config.objective != "reg:logistic":
        return predictions
    return log_odds(predictions)


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Return the margins of probabilities, which are clipped by 1e-15."""
    inside = np.clip(probabilities, 1e-15, 1 - 1e-15)
    return np.log(inside) - np.log1p(-inside)
