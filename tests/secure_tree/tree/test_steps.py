"""max_delta_step, the bound of leaf weights: splits and leaves are XGBoost's."""

import numpy as np
import pytest

from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

xgboost = pytest.importorskip("xgboost")
SHARED = {"max_depth": 2, "learning_rate": 0.5, "min_child_weight": 0.5, "base_score": 0.5}
TREES = 3
# No candidate is within 4% of the gain of a split in the trees below; logarithms might not distinguish them.
_RNG = np.random.default_rng(231)
X = _RNG.permuted(np.tile(np.arange(60.0), (3, 1)), axis=1).T
SIGNAL = X[:, 0] / 20 + np.sin(X[:, 1] / 9) + 0.3 * _RNG.normal(size=60)
LABELS = {"binary:logistic": (SIGNAL > 1.7).astype(float), "reg:squarederror": SIGNAL}


def ours(objective, bound):
    """Return margins of the training rows."""
    kind = SecureXGBClassifier if objective == "binary:logistic" else SecureXGBRegressor
    rows = slice(0, 25), slice(25, None)

    def job(party):
        model = kind(n_estimators=TREES, max_bin="exact", max_delta_step=bound, objective=objective, **SHARED)
        model.fit(party, X[rows[party.rank]], LABELS[objective][rows[party.rank]])
        return model.predict_margin(party, X[rows[party.rank]])

    return np.concatenate(run_both(job)[0])


def theirs(objective, bound):
    data = xgboost.DMatrix(X, label=LABELS[objective])
    parameters = {"objective": objective, "tree_method": "exact", "max_delta_step": bound, **SHARED}
    return xgboost.train(parameters, data, TREES).predict(data, output_margin=True)


@pytest.mark.parametrize("bound", [0.1, 0.6])
@pytest.mark.parametrize("objective", LABELS)
def test_a_bounded_step_is_as_in_xgboost(objective, bound):
    expected = theirs(objective, bound)
    assert np.abs(theirs(objective, 0) - expected).max() > 0.1, "the bound has an effect"
    np.testing.assert_allclose(ours(objective, bound), expected, atol=1e-3)
    assert np.abs(expected - (0.0 if objective == "binary:logistic" else 0.5)).max() <= TREES * 0.5 * bound + 1e-6
