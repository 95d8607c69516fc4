"""Quality on the shared data sets: the plaintext twin's, and close to XGBoost's on the joined table."""

import numpy as np
import pytest

from protocols.baselines.secureboost import SecureBoostConfig
from tests.protocols.baselines.secureboost.parties import hetero, run, twin


def check(name, objective, score, margin, **parameters):
    guest, host, y = hetero(name)
    config = SecureBoostConfig.of(objective=objective, encryption="ou", key_bits=1024, **parameters)
    predicted, splits = run(config, [guest, host], y, timeout=1200)
    expected, joined = twin(config, [np.hstack([guest, host])], y)
    assert splits == joined
    assert np.array_equal(predicted, expected)
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if objective == "reg:squarederror" else XGBClassifier
    reference = kind(
        objective=objective,
        min_child_weight=0.5,
        gamma=1e-5,
        base_score=0.5,
        max_bin=32,
        learning_rate=0.1,
        **parameters,
    ).fit(np.hstack([guest, host]), y)
    X = np.hstack([guest, host])
    plain = reference.predict(X) if kind is XGBRegressor else reference.predict_proba(X)[:, 1]
    assert abs(score(y, predicted) - score(y, plain)) < margin


def auc(y, predicted):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(y, predicted)


def rmse(y, predicted):
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def test_breast():
    check("breast", "binary:logistic", auc, 0.01, n_estimators=3, max_depth=3)


def test_student():
    check("student", "reg:squarederror", rmse, 0.1, n_estimators=5, max_depth=3)


@pytest.mark.long
def test_default_credit():
    check("default_credit", "binary:logistic", auc, 0.005, n_estimators=10, max_depth=3)
