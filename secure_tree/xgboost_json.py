"""Models as XGBoost's JSON: written so that `xgboost.Booster` loads them, and read from what it saves.

Source     XGBoost's model schema, doc/model.schema (version 3); nothing here imports xgboost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpc.errors import DataError
from secure_tree.exchange import NO_SPLIT, PlainModel

# One class against the others has no name in XGBoost; of its objectives with a tree a class and round this one gives
# the class of the largest margin and no probabilities, which would be other ones.
_OWN = {"multi:ova": "multi:softmax"}
# Objectives that are read, and what they are here.
_READ = {
    "binary:logistic": "binary:logistic",
    "reg:squarederror": "reg:squarederror",
    "multi:softprob": "multi:softprob",
    "multi:softmax": "multi:softprob",
}
_NO_PARENT = 2147483647
_NOT_IN_NAMES = set("[]<")


def to_xgboost(model: PlainModel) -> dict[str, Any]:
    """A plain model as XGBoost's JSON object. Nodes without a split are left out: their one child takes their place.

    Names are left out where XGBoost would refuse them: where one appears twice, as it may where each party has some
    columns, or has a bracket or < in it. A multi:ova model becomes multi:softmax: the same margins and classes.
    """
    classes = str(model.classes if model.classes > 1 else 0)
    logistic = model.objective == "binary:logistic"
    base = 1 / (1 + math.exp(-model.base_margin)) if logistic else model.base_margin
    d, count = len(model.names), len(model.leaves)
    accepted = len(set(model.names)) == d and not any(_NOT_IN_NAMES & set(name) for name in model.names)
    names = list(model.names) if accepted else []
    trees = [_tree(number, model) for number in range(count)]
    parameter = {"base_score": repr(base), "boost_from_average": "1", "num_class": classes, "num_feature": str(d)}
    if model.classes > 1:
        name = _OWN.get(model.objective, model.objective)
        loss = {"name": name, "softmax_multiclass_param": {"num_class": classes}}
    else:
        loss = {"name": model.objective, "reg_loss_param": {"scale_pos_weight": "1"}}
    booster = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
        "iteration_indptr": list(range(0, count + 1, model.classes)),
        "tree_info": [number % model.classes for number in range(count)],
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": ["float"] * len(names),
        "gradient_booster": {"model": booster, "name": "gbtree"},
        "learner_model_param": {**parameter, "num_target": "1"},
        "objective": loss,
    }
    return {"learner": learner, "version": [2, 0, 0]}


def _tree(number: int, model: PlainModel) -> dict[str, Any]:
    features, thresholds, leaves = model.features[number], model.thresholds[number], model.leaves[number]
    left: list[int] = []
    right: list[int] = []
    parents: list[int] = []
    split: list[int] = []
    values: list[float] = []
    missing_left: list[int] = []

    def add(node: int, parent: int) -> int:
        while node < len(features) and features[node] == NO_SPLIT:
            node = 2 * node + (1 if node % 2 else 2)
        place = len(left)
        left.append(-1)
        right.append(-1)
        parents.append(parent)
        if node >= len(features):
            split.append(0)
            missing_left.append(0)
            values.append(float(np.float32(leaves[node - len(features)])))
            return place
        split.append(int(features[node]))
        values.append(float(thresholds[node]))
        missing_left.append(int(model.missing_left[number, node]))
        left[place], right[place] = add(2 * node + 1, place), add(2 * node + 2, place)
        return place

    add(0, _NO_PARENT)
    nodes = len(left)
    nothing = [0.0] * nodes
    parameter = {"num_nodes": str(nodes), "num_feature": str(len(model.names)), "num_deleted": "0"}
    return {
        "base_weights": nothing,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": missing_left,
        "id": number,
        "left_children": left,
        "loss_changes": nothing,
        "parents": parents,
        "right_children": right,
        "split_conditions": values,
        "split_indices": split,
        "split_type": [0] * nodes,
        "sum_hessian": nothing,
        "tree_param": {**parameter, "size_leaf_vector": "1"},
    }


def from_xgboost(document: dict[str, Any], source: str) -> PlainModel:
    """XGBoost's JSON object -> the same model as full trees. Raises DataError, naming `source`, for what it cannot be.

    Accepted: gbtree with numeric splits, one of a few objectives, one tree a round and class; ways of missing values,
    too. With several classes the base margins go into the trees of the first round.
    """
    try:
        learner = document["learner"]
        objective = str(learner["objective"]["name"])
        booster = learner["gradient_booster"]
        parameter = learner["learner_model_param"]
        d = int(parameter["num_feature"])
        names = tuple(str(n) for n in learner.get("feature_names") or [f"f{i}" for i in range(d)])
        if objective not in _READ or booster["name"] != "gbtree" or int(parameter.get("num_target", 1)) != 1:
            raise DataError(f"{source}: only gbtree models with objective {', '.join(_READ)} can be shared")
        trees = booster["model"]["trees"]
        classes = max(1, int(parameter["num_class"]))
        if not trees:
            raise DataError(f"{source}: the model has no trees")
        if booster["model"]["tree_info"] != [number % classes for number in range(len(trees))]:
            raise DataError(f"{source}: the model has several trees for a round and class")
        base = np.array([float(x) for x in str(parameter["base_score"]).strip("[]").split(",")])
        depth = max(1, *(_depth(tree, 0) for tree in trees))
        full = [_fill(tree, depth, source) for tree in trees]
        features, thresholds, missing_left, leaves = (np.stack(part) for part in zip(*full, strict=True))
        margin = 0.0
        if classes > 1:
            leaves[:classes] += np.broadcast_to(base, classes)[:, None]
        else:
            margin = math.log(base[0] / (1 - base[0])) if objective == "binary:logistic" else float(base[0])
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise DataError(f"{source}: not an XGBoost model in JSON ({error})") from None
    return PlainModel(_READ[objective], names, margin, classes, features, thresholds, missing_left, leaves)


def _depth(tree: dict[str, Any], node: int) -> int:
    left, right = tree["left_children"][node], tree["right_children"][node]
    return 0 if left == -1 else 1 + max(_depth(tree, left), _depth(tree, right))


def _fill(tree: dict[str, Any], depth: int, source: str) -> tuple[np.ndarray, ...]:
    """A tree as (features, thresholds, missing_left, leaves), full: a leaf above the last level fills all below it."""
    m = (1 << depth) - 1
    features = np.full(m, NO_SPLIT)
    thresholds, leaves = np.zeros(m, np.float32), np.zeros(m + 1)
    missing_left = np.zeros(m, bool)
    if any(tree.get("split_type", [])):
        raise DataError(f"{source}: categorical splits cannot be shared")

    def walk(node: int, place: int) -> None:
        value = tree["split_conditions"][node]
        leaf = tree["left_children"][node] == -1
        if place >= m:
            leaves[place - m] = value
            return
        if not leaf:
            features[place], thresholds[place] = tree["split_indices"][node], value
            missing_left[place] = tree["default_left"][node]
        walk(node if leaf else tree["left_children"][node], 2 * place + 1)
        walk(node if leaf else tree["right_children"][node], 2 * place + 2)

    walk(0, 0)
    return features, thresholds, missing_left, leaves
