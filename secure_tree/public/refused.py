"""Objectives, parameters and values of XGBoost that secure trees do not have: why, or what to use instead."""

from __future__ import annotations

import math

from mpc.errors import ConfigError

_FAR = "its gradients do not shrink towards the optimum; use reg:pseudohubererror, to which far labels mean little"
_RANKS = "it compares rows with each other; use binary:logistic with relevant (1) or not (0) as labels"
_TIMES = (
    "its gradients compare the times of all rows; use binary:logistic with the event within a given time (1) or not (0)"
)
_CENSORED = (
    "its hessians are quotients of densities, which no curve here carries; use reg:squarederror on logarithms of the "
    "times if none is censored, otherwise binary:logistic with the event within a given time (1) or not (0)"
)
_MEDIANS = "its gradients do not shrink towards the optimum; use reg:pseudohubererror for medians"

OBJECTIVES = {
    "binary:logitraw": "use binary:logistic, and predict_margin",
    "binary:hinge": "use binary:logistic, and predict",
    "reg:linear": "use reg:squarederror",
    "reg:squaredlogerror": "use reg:squarederror on the logarithms of 1 + the labels",
    "reg:absoluteerror": _FAR,
    "reg:quantileerror": _MEDIANS,
    "reg:expectileerror": "errors of both signs weigh the same here; use reg:squarederror",
    "rank:pairwise": _RANKS,
    "rank:ndcg": _RANKS,
    "rank:map": _RANKS,
    "survival:cox": _TIMES,
    "survival:aft": _CENSORED,
}

PARAMETERS = {
    "comparison": "leave it out; shares are compared in the way that costs least",
    "enable_categorical": "leave it out; columns of pandas' type category are categorical",
    "max_cat_threshold": "leave it out; a split may send any number of categories one way",
    "feature_types": "leave it out; columns of pandas' type category are categorical",
    "feature_weights": "every feature is equally likely to be sampled; use colsample_bytree",
    "tree_method": "leave it out; trees are always grown from histograms",
    "sampling_method": "leave it out; rows are sampled uniformly",
    "device": "leave it out; trees are grown on the CPU",
    "n_jobs": "leave it out; shards divide the work among processes",
    "nthread": "leave it out; shards divide the work among processes",
    "verbosity": "leave it out; pass verbose to fit, or set the level of the logger sharewood",
    "validate_parameters": "leave it out; parameters are always validated",
    "callbacks": "pass observer or verbose to fit",
    "importance_type": "leave it out; call feature_importance(party, kind)",
    "warm_start": "pass the fitted estimator to fit as xgb_model",
    "base_margin": "pass it to fit and predict, with an offset for each row",
    "max_leaves": "trees are grown level by level; use max_depth",
    "grow_policy": "trees are grown level by level; use max_depth",
    "booster": "trees are never dropped, and there are no linear models: leave it out; use learning_rate and subsample",
    "rate_drop": "trees are never dropped; use learning_rate and subsample",
    "skip_drop": "trees are never dropped; use learning_rate and subsample",
    "colsample_bylevel": "use colsample_bytree",
    "colsample_bynode": "use colsample_bytree",
    "multi_strategy": "leave it out; one tree is grown per class",
    "quantile_alpha": "it belongs to reg:quantileerror, which is not available",
    "aft_loss_distribution": "it belongs to survival:aft, which is not available",
    "lambdarank_pair_method": "it belongs to rank:ndcg, which is not available",
}


def check_objective(given: object, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless `given` is one of the objectives that secure trees know."""
    if callable(given):
        raise ConfigError("objective must be a name: a function has no protocol that computes it on shares")
    if given in known:
        return
    if given in OBJECTIVES:
        raise ConfigError(f"objective {given} is not available: {OBJECTIVES[str(given)]}")
    raise ConfigError(f"objective must be {', '.join(known[:-1])} or {known[-1]}, got {given!r}")


def markdown() -> str:
    """Return the objectives that are not available as a table for docs/secure_tree.md."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in OBJECTIVES.items():
        by_reason.setdefault(reason, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(["| XGBoost's objective | not available here: |", "|---|---|", *rows])


def check_missing(given: object) -> None:
    """Raise ConfigError for a number: XGBoost's `missing` is a value, here it names columns."""
    if isinstance(given, float):
        why = "columns with NaN are declared" if math.isnan(given) else "only NaN is a missing value"
        raise ConfigError(f'missing must be "none", "all" or a list of columns, got {given}: {why}; use missing="all"')


def check_seed(given: object) -> None:
    """Raise ConfigError for None."""
    if given is None:
        raise ConfigError("random_state must be a whole number, got None: both parties draw by the same public seed")
