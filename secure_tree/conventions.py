"""scikit-learn's conventions where they make sense for two parties.

Kept: parameters in the constructor only, get_params, set_params, clone, score, NotFittedError, predict_proba in the
order of the classes. Not kept, with the reason:

* every call that communicates takes `party` first, so scikit-learn's cross-validation, pipelines and grid search cannot
  drive it, and get one sentence; `secure_tree.cross_validation` has two of them for two parties.
  `check_estimator` runs on an adapter that plays both parties
  (tests/secure_tree/test_check_estimator.py); three of its checks cannot hold: weights that are all 0 are trained on,
  for neither party knows the other's; bins are cut from rows and not from weights, so a row of weight 2 is not two
  rows; a table of one row is refused, as it leaves a party without any;
* errors for bad input are `mpc.errors.DataError` and `ConfigError`, with an exit status, not ValueError;
* parameters are checked when they are set, not in fit: a bad one is refused before a connection is made;
* classes are 0, 1, ...: other labels would have to be agreed on, and reveal which labels a party has;
* no tags, and so no `check_is_fitted`: `sklearn` is not imported until an error or a test needs it;
* aliases of XGBoost (`eta`, `gamma`, ...) are accepted, and come back under the parameter's name;
* no `n_features_in_`, `classes_` or `feature_importances_`: names are in `model.facts.names`, and importance is a call,
  `feature_importance(party)`, as it is revealed to both parties.
"""

from __future__ import annotations

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.inputs import EvalSet, Labelled


def not_fitted() -> DataError:
    """The error for an estimator without a model: Sharewood's DataError and scikit-learn's NotFittedError in one."""
    from sklearn.exceptions import NotFittedError

    class NotFitted(DataError, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
        pass

    return NotFitted("the estimator is not fitted: call fit, or load a model")


def needs_party(party: object, call: str) -> None:
    """Raises ConfigError where the first argument is not a party: a call as of a plain estimator."""
    if not isinstance(party, Party):
        raise ConfigError(
            f"{call}: the first argument must be the party that talks to the other one, as `run_local` passes it to "
            f"a job, got {type(party).__name__}"
        )


def one_pair(eval_set: EvalSet) -> Labelled:
    """(X, y) of an `eval_set` that is this pair or, as in XGBoost, a list of one. Raises ConfigError."""
    pairs = [eval_set] if len(eval_set) == 2 and not isinstance(eval_set[0], tuple) else list(eval_set)
    if len(pairs) != 1 or not isinstance(pairs[0], (tuple, list)) or len(pairs[0]) != 2:
        raise ConfigError(f"eval_set must be one pair (X, y), or a list with one pair, got {len(pairs)} entries")
    X, y = pairs[0]
    return X, y
