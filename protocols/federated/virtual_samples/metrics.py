"""How well rare positives are found (section 3): accuracy, F1, AUC, AUPRC and the confusion matrix."""

from __future__ import annotations

import numpy as np


def evaluate(y: np.ndarray, probability: np.ndarray) -> dict[str, float | int]:
    """Labels {0, 1}[n] and probabilities of 1, float[n]; a row is called positive above 0.5.

    auprc is the average precision. Raises ValueError (from scikit-learn) where a class is missing from y.
    """
    from sklearn.metrics import average_precision_score, confusion_matrix, f1_score, roc_auc_score

    called = probability > 0.5
    tn, fp, fn, tp = confusion_matrix(y, called, labels=[0, 1]).ravel()
    return {
        "accuracy": float(np.mean(called == y)),
        "f1": float(f1_score(y, called, zero_division=0)),
        "auc": float(roc_auc_score(y, probability)),
        "auprc": float(average_precision_score(y, probability)),
        "tp": int(tp),
        "fp": int(fp),
        "fn": int(fn),
        "tn": int(tn),
    }
