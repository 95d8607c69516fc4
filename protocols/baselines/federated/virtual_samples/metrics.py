"""Metrics for rare positives (section 3), and the calibration of probabilities."""

from __future__ import annotations

import numpy as np


def evaluate(y: np.ndarray, probability: np.ndarray) -> dict[str, float | int]:
    """Evaluate labels {0, 1}[n] and probabilities of 1, float[n]; a row counts as positive above 0.5.

    auprc is the average precision, calibration the `calibration_error`. Raises ValueError (from scikit-learn) if y
    lacks a class.
    """
    from sklearn.metrics import average_precision_score, confusion_matrix, f1_score, roc_auc_score

    called = probability > 0.5
    tn, fp, fn, tp = confusion_matrix(y, called, labels=[0, 1]).ravel()
    return {
        "accuracy": float(np.mean(called == y)),
        "f1": float(f1_score(y, called, zero_division=0)),
        "auc": float(roc_auc_score(y, probability)),
        "auprc": float(average_precision_score(y, probability)),
        "calibration": calibration_error(y, probability),
        "tp": int(tp),
        "fp": int(fp),
        "fn": int(fn),
        "tn": int(tn),
    }


def calibration_error(y: np.ndarray, probability: np.ndarray, bins: int = 10) -> float:
    """Return the expected calibration error: mean distance of frequency and probability, over `bins` of equal size."""
    order = np.argsort(probability, kind="stable")
    parts = [rows for rows in np.array_split(order, bins) if len(rows)]
    return float(sum(abs((y[rows] - probability[rows]).sum()) for rows in parts) / len(y))
