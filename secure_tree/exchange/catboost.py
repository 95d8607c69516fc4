"""Models in CatBoost's JSON format, as its `save_model(..., format="json")` writes them.

Source     CatBoost's model, catboost/libs/model/model_export/json_model_helpers.cpp. Nothing here imports catboost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc.errors import DataError
from secure_tree.exchange.plain_model import PlainModel
from secure_tree.exchange.trees import Tree, plain_model, strictly_below
from secure_tree.model.storage import reading

_NUMBERS = "RMSE", "MAE", "MAPE", "Quantile", "Expectile", "Huber", "LogCosh", "Lq"
# Objectives of models by CatBoost's losses: those with the same link function.
_OBJECTIVES = {
    "Logloss": "binary:logistic",
    "CrossEntropy": "binary:logistic",
    "MultiClass": "multi:softprob",
    "Poisson": "count:poisson",
    "Tweedie": "count:poisson",
    **dict.fromkeys(_NUMBERS, "reg:squarederror"),
}


def from_catboost(document: dict[str, Any], source: str) -> PlainModel:
    """Convert CatBoost's JSON object to a plain model: trees of any growing policy, of numeric features.

    Raises DataError, which names `source`, for any other model.
    """
    with reading(source, "model of CatBoost in JSON"), np.errstate(over="ignore"):
        loss, known = document["model_info"]["params"]["loss_function"]["type"], document["features_info"]
        if loss not in _OBJECTIVES:
            raise DataError(f"{source}: a model with loss {loss} cannot be shared, only {', '.join(_OBJECTIVES)}")
        if other := [kind for kind in known if kind != "float_features" and known[kind]]:
            raise DataError(f"{source}: a model with {other[0].replace('_', ' ')} cannot be shared, only numeric ones")
        features = sorted(known["float_features"], key=lambda one: one["flat_feature_index"])
        if [one["feature_index"] for one in features] != list(range(len(features))):
            raise ValueError("features whose numbers are not in their order")
        names = tuple(one["feature_id"] or f"f{i}" for i, one in enumerate(features))
        missing_left = np.array([one["nan_value_treatment"] != "AsTrue" for one in features])
        scale, biases = document["scale_and_bias"]
        if "oblivious_trees" in document:
            found = [_oblivious(tree) for tree in document["oblivious_trees"]]
        else:
            found = [_nested(tree) for tree in document["trees"]]
        if not found:
            raise DataError(f"{source}: the model must have at least one tree, got none")
        classes = found[0][-2].shape[1]
        trees = [
            Tree(split, strictly_below(border, True), missing_left[split], left, right, scale * values[:, k], covers)
            for split, border, left, right, values, covers in found
            for k in range(classes)
        ]
        base = tuple(float(bias) for bias in biases) * (classes // len(biases))
        return plain_model(source, _OBJECTIVES[loss], names, base, trees)


def _oblivious(tree: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Return features, borders, children, values and weights, by node, of a tree whose levels split alike.

    Split i gives bit i of the number of a leaf, so the last one is the root.
    """
    splits, weights = tree["splits"], np.array(tree["leaf_weights"], np.float64)
    leaves, m = len(weights), len(weights) - 1
    if leaves != 1 << len(splits):
        raise ValueError(f"{leaves} leaves of {len(splits)} splits")
    node = np.arange(leaves + m)
    level = np.repeat(np.arange(len(splits) + 1), 1 << np.arange(len(splits) + 1))
    features = np.array([_feature(split) for split in reversed(splits)] + [0])[level]
    borders = np.array([split["border"] for split in reversed(splits)] + [0.0], np.float64)[level]
    left, right = np.where(node < m, 2 * node + 1, -1), np.where(node < m, 2 * node + 2, -1)
    values = np.array(tree["leaf_values"], np.float64).reshape(leaves, -1)
    covers = np.concatenate([np.zeros(m), weights])
    for inner in range(m - 1, -1, -1):
        covers[inner] = covers[2 * inner + 1] + covers[2 * inner + 2]
    return features, borders, left, right, np.concatenate([np.zeros((m, values.shape[1])), values]), covers


def _nested(tree: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Return the same of a tree whose nodes contain their children."""
    nodes, above = [tree], [-1]
    left, right = [-1], [-1]
    for place, node in enumerate(nodes):
        for side, children in (("left", left), ("right", right)):
            if side in node:
                children[place] = len(nodes)
                nodes.append(node[side])
                above.append(place)
                left.append(-1)
                right.append(-1)
    split = [node.get("split") for node in nodes]
    features = np.array([_feature(one) if one else 0 for one in split])
    borders = np.array([one["border"] if one else 0.0 for one in split], np.float64)
    given = [np.atleast_1d(node["value"]) if "value" in node else None for node in nodes]
    width = max(len(value) for value in given if value is not None)
    values = np.array([np.zeros(width) if value is None else value for value in given], np.float64)
    covers = np.array([float(node.get("weight", 0.0)) for node in nodes])
    for place in range(len(nodes) - 1, 0, -1):
        covers[above[place]] += covers[place]
    return features, borders, np.array(left), np.array(right), values, covers


def _feature(split: dict[str, Any]) -> Any:
    if split["split_type"] != "FloatFeature":
        raise ValueError(f"a split of type {split['split_type']}")
    return split["float_feature_index"]
