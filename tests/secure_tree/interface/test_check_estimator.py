"""scikit-learn's own checks, on an adapter that plays both parties with half of the rows each.

The adapter adds what `check_estimator` requires and two parties cannot have: calls without `party`, scikit-learn's
validation of tables, labels other than 0, 1, ..., `classes_` and `n_features_in_`.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mpc.errors import SharewoodError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor


class BothParties(BaseEstimator):
    """The adapter. `fit` gives each party half of the rows. Party 0 has all rows to predict."""

    def __init__(self, n_estimators=2, max_depth=2, max_bin=4, learning_rate=0.5):
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_bin = max_bin
        self.learning_rate = learning_rate

    def _train(self, kind, X, y, weights, **more):
        parts = slice(0, len(X) // 2), slice(len(X) // 2, None)
        weights = None if weights is None else np.asarray(weights)

        def job(party):
            rows = parts[party.rank]
            own = X[rows], y[rows], None if weights is None else weights[rows]
            return kind(**self.get_params(), **more).fit(party, *own)

        try:
            self.models_ = run_both(job)[0]
        except SharewoodError as error:
            raise ValueError(str(error)) from error
        return self

    def _ask(self, question, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)

        def job(party):
            return getattr(self.models_[party.rank], question)(party, X if party.rank == 0 else X[:0])

        return run_both(job)[0][0]


class BothClassifier(ClassifierMixin, BothParties):
    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        several = {"objective": "multi:ova", "num_class": len(self.classes_)} if len(self.classes_) > 2 else {}
        return self._train(SecureXGBClassifier, X, codes, sample_weight, **several)

    def predict(self, X):
        codes = self._ask("predict", X)
        return self.classes_[codes]

    def predict_proba(self, X):
        return self._ask("predict_proba", X)[:, : len(self.classes_)]


class BothRegressor(RegressorMixin, BothParties):
    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, y_numeric=True)
        return self._train(SecureXGBRegressor, X, y, sample_weight)

    def predict(self, X):
        return self._ask("predict", X)


def cannot_hold(estimator):
    """Return the checks that cannot hold between two parties, with the reason."""
    return {
        "check_all_zero_sample_weights_error": "neither party knows whether all of the other's rows weigh 0",
        "check_sample_weight_equivalence_on_dense_data": "bins are cut from rows, not weights, and a row twice is not "
        "one of weight 2 in a party's quantiles",
        "check_fit2d_1sample": "one row leaves a party without any, and the sentence says that",
    }


@parametrize_with_checks([BothClassifier(), BothRegressor()], expected_failed_checks=cannot_hold)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
