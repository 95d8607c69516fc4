"""scikit-learn's conventions where they make sense for two parties.

Kept: parameters in the constructor alone, get_params, set_params, clone, score, NotFittedError, predict_proba in the
order of the classes. Not kept, with the reason:

* every call that communicates takes `party` first, so pipelines and grid search cannot drive it. `check_estimator` runs
  on an adapter that plays both parties (tests/secure_tree/test_check_estimator.py); three of its checks cannot hold:
  weights that are all 0 are trained on, for neither party knows the other's; bins are cut from rows and not from
  weights, so a row of weight 2 is not two rows; a table of one row is refused, as it leaves a party without any;
* errors for bad input are `mpc.errors.DataError` and `ConfigError`, with an exit status, not ValueError;
* parameters are checked when they are set, not in fit: a bad one is refused before a connection is made;
* classes are 0, 1, ...: other labels would have to be agreed on, and reveal which labels a party has;
* no tags, and so no `check_is_fitted`: `sklearn` is not imported until an error or a test needs it;
* no `n_features_in_`, `classes_` or `feature_importances_`: names are in `model.facts.names`, and importance is a call,
  `feature_importance(party)`, as it is revealed to both parties.
"""

from __future__ import annotations

from mpc.errors import DataError


def not_fitted() -> DataError:
    """The error for an estimator without a model: Sharewood's DataError and scikit-learn's NotFittedError in one."""
    from sklearn.exceptions import NotFittedError

    class NotFitted(DataError, NotFittedError):
        pass

    return NotFitted("the estimator is not fitted: call fit, or load a model")
