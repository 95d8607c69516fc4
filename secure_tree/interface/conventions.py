"""scikit-learn's conventions, as far as they make sense for two parties.

The estimators keep these: parameters only in the constructor, get_params, set_params, clone, score, NotFittedError, and
predict_proba in the order of the classes. They differ in these points:

* Every call that communicates takes `party` first. scikit-learn's cross-validation, pipelines and grid search therefore
  cannot call the estimators, and raise an error that says so. `secure_tree.cross_validation` has cross-validation and
  grid search for two parties. `check_estimator` runs on an adapter that plays both parties
  (tests/secure_tree/interface/test_check_estimator.py). Three of its checks cannot hold: weights that are all 0 are
  accepted, because neither party knows the other's weights; bins are cut from rows and not from weights, so a row of
  weight 2 is not equivalent to two rows; a table of one row is refused, because one of the parties would have no row.
* Errors for bad input are `mpc.errors.DataError` and `ConfigError`, which have an exit status, instead of ValueError.
* Parameters are validated when they are set, not in fit, so that a bad one is refused before a connection is made.
* Classes are 0, 1, ...: the parties would have to agree on other labels, which would reveal the labels a party has.
* There are no tags and hence no `check_is_fitted`: `sklearn` is imported only when an error or a test needs it, and
  where it is not installed, the error is a DataError alone.
* XGBoost's aliases (`eta`, `gamma`, ...) are accepted, and are stored under the parameter's name.
* `feature_names_in_` and `n_features_in_` are this party's columns. `feature_importances_` has a value, by name, once
  both parties have called `feature_importance(party, kind)`, because it is revealed to both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.data.inputs import EvalSet, Labelled
from secure_tree.model.shared_model import SharedModel


def not_fitted() -> DataError:
    """Return the error for an estimator without a model: both a DataError and scikit-learn's NotFittedError."""
    text = "the estimator is not fitted: call fit, or load a model"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return DataError(text)

    class NotFitted(DataError, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
        pass

    return NotFitted(text)


def needs_party(party: object, call: str) -> None:
    """Raise ConfigError if the first argument is not a party, as in a call of a plain estimator."""
    if not isinstance(party, Party):
        raise ConfigError(
            f"{call}: the first argument must be the party that talks to the other one, as `run_local` passes it to "
            f"a job, got {type(party).__name__}"
        )


def one_pair(eval_set: EvalSet) -> Labelled:
    """Return (X, y) from an `eval_set`: the pair itself or, as in XGBoost, a list of one pair. Raises ConfigError."""
    pairs: list[Any] = [eval_set] if len(eval_set) == 2 and not isinstance(eval_set[0], tuple) else list(eval_set)
    if len(pairs) != 1 or not isinstance(pairs[0], (tuple, list)) or len(pairs[0]) != 2:
        raise ConfigError(f"eval_set must be one pair (X, y), or a list with one pair, got {len(pairs)} entries")
    X, y = pairs[0]
    return X, y


def shared_model(given: Any) -> SharedModel:
    """Return the half of a model given as a fitted estimator, a half, or the path of one. Raises ConfigError."""
    if isinstance(given, str | Path):
        return SharedModel.load(given)
    model = getattr(given, "model", given)
    if model is None:
        raise not_fitted()
    if not isinstance(model, SharedModel):
        raise ConfigError(
            f"xgb_model must be a fitted Sharewood estimator or the path of a half that it has saved, got "
            f"{type(given).__name__}"
        )
    return model
