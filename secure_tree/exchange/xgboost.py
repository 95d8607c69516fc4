"""Models in XGBoost's JSON format: written for `xgboost.Booster` to load, and read from what it saves.

Source     XGBoost's model schema, doc/model.schema (version 3). Nothing here imports xgboost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mpc.errors import DataError
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel
from secure_tree.exchange.trees import Tree, plain_model
from secure_tree.model.storage import reading
from secure_tree.public.config import MAX_DELTA_STEP
from secure_tree.public.names import category_of, column_of, indicator
from secure_tree.public.objectives import TRAITS, Link

# XGBoost's objectives of models that can be shared, and ours. Losses with equal link functions differ in training only.
OBJECTIVES = {
    "binary:logistic": "binary:logistic",
    "reg:logistic": "binary:logistic",
    "multi:softmax": "multi:softprob",
    "multi:softprob": "multi:softprob",
    "count:poisson": "count:poisson",
    "reg:gamma": "reg:gamma",
    "reg:tweedie": "reg:tweedie",
    "reg:squarederror": "reg:squarederror",
    "reg:absoluteerror": "reg:squarederror",
    "reg:pseudohubererror": "reg:pseudohubererror",
}
# XGBoost has no one-vs-all objective. With multi:softmax it predicts the same class, that of the largest margin, and no
# probabilities, which would differ.
_OWN = {"multi:ova": "multi:softmax"}
MOST_FEATURES = 1_000_000
_NO_PARENT = 2147483647
# Beyond these log-odds, a probability in float32 has too few digits.
MOST_LOG_ODDS = 8.0
_NOT_IN_NAMES = set("[]<")


def to_xgboost(model: PlainModel) -> dict[str, Any]:
    """Convert a plain model to XGBoost's JSON object. Nodes without a split are replaced by the child with their rows.

    Names are omitted if XGBoost would refuse them: if one contains a bracket or <, or appears twice, which is possible
    for vertical data. A multi:ova model becomes multi:softmax, with the same margins and classes. A column that is
    split by sets is a categorical feature, with the names of its categories, which XGBoost reads from 3.1 on; if some
    are not ASCII, without names: then a table must have its categories in the order of the model's.
    """
    columns = _Columns.of(model)
    d, count, classes = len(columns.names), len(model.leaves), len(model.base_margins)
    score = _written(model)
    # XGBoost has a base_score per class only from 3.1 on, and a probability near 1 has few digits. The difference is
    # added to the leaves of the first round.
    (said,) = _base_margins(score, model.objective, 1)
    beyond = [base_margin - said for base_margin in model.base_margins] + [0.0] * (count - classes)
    accepted = len(set(columns.names)) == d and not any(_NOT_IN_NAMES & set(name) for name in columns.names)
    names = list(columns.names) if accepted else []
    of_round = classes * model.parallel
    # XGBoost has the trees of each class together in a round.
    order = np.arange(count).reshape(-1, model.parallel, classes).swapaxes(1, 2).reshape(-1).tolist()
    trees = [_tree(place, number, model, columns, beyond[number]) for place, number in enumerate(order)]
    several = str(classes) if classes > 1 else "0"
    parameter = {"base_score": score, "boost_from_average": "1", "num_class": several, "num_feature": str(d)}
    if classes > 1:
        loss: dict[str, Any] = {
            "name": _OWN.get(model.objective, model.objective),
            "softmax_multiclass_param": {"num_class": several},
        }
    elif model.objective == "count:poisson":
        loss = {"name": model.objective, "poisson_regression_param": {"max_delta_step": str(MAX_DELTA_STEP)}}
    elif model.objective == "reg:tweedie":
        loss = {"name": model.objective, "tweedie_regression_param": {"tweedie_variance_power": "1.5"}}
    elif model.objective == "reg:pseudohubererror":
        loss = {"name": model.objective, "pseudo_huber_param": {"huber_slope": "1"}}
    else:
        loss = {"name": model.objective, "reg_loss_param": {"scale_pos_weight": "1"}}
    booster = {
        "gbtree_model_param": {"num_parallel_tree": str(model.parallel), "num_trees": str(count)},
        "iteration_indptr": list(range(0, count + 1, of_round)),
        "tree_info": [number % classes for number in order],
        "trees": trees,
        **columns.categories(),
    }
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": ["c" if ends else "float" for ends in columns.sets] if model.sets or accepted else [],
        "gradient_booster": {"model": booster, "name": "gbtree"},
        "learner_model_param": {**parameter, "num_target": "1"},
        "objective": loss,
    }
    return {"learner": learner, "version": [2, 0, 0]}


@dataclass(frozen=True)
class _Columns:
    """The features of an exported model: its names, for each the indicators of which it is a column, if any, and the
    number of each feature of the plain model.
    """

    names: tuple[str, ...]
    sets: tuple[tuple[int, int] | None, ...]
    number: np.ndarray
    indicators: tuple[str, ...]

    @classmethod
    def of(cls, model: PlainModel) -> _Columns:
        starts, within = dict(model.sets), {f for first, end in model.sets for f in range(first + 1, end)}
        kept = [f for f in range(len(model.names)) if f not in within]
        names = tuple(column_of(model.names[f]) if f in starts else model.names[f] for f in kept)
        sets = tuple((f, starts[f]) if f in starts else None for f in kept)
        return cls(names, sets, np.searchsorted(kept, np.arange(len(model.names)), side="right") - 1, model.names)

    @classmethod
    def read(cls, names: tuple[str, ...], encoded: list[dict[str, Any]], source: str) -> _Columns:
        """Return the columns of a model with these categories, which XGBoost keeps since 3.1. Raises DataError,
        ValueError.
        """
        if encoded and len(encoded) != len(names):
            raise ValueError("categories of other features")
        features, sets = list[str](), list[tuple[int, int] | None]()
        for name, own in zip(names, encoded or [{"values": []}] * len(names), strict=True):
            texts = [str(value) for value in own["values"]]
            if "offsets" in own:
                if min(own["values"], default=0) < 0:
                    raise DataError(
                        f"{source}: categories must have ASCII names, column {name!r} has others: rename them"
                    )
                whole, ends = bytes(own["values"]).decode("ascii"), own["offsets"]
                texts = [whole[start:end] for start, end in pairwise(ends)]
            sets.append((len(features), len(features) + len(texts)) if texts else None)
            features += [indicator(name, text) for text in texts] or [name]
        number = np.repeat(np.arange(len(names)), [1 if ends is None else ends[1] - ends[0] for ends in sets])
        return cls(names, tuple(sets), number, tuple(features))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The indicators of each column of categories."""
        return tuple(ends for ends in self.sets if ends)

    @property
    def first(self) -> np.ndarray:
        """The first feature of the plain model of each column."""
        return np.searchsorted(self.number, np.arange(len(self.names)))

    def categories(self) -> dict[str, Any]:
        """Return the names of all categories as XGBoost keeps them: texts one after the other, and where they end.

        XGBoost 3.2 misreads names that are not ASCII. Without any, it takes categories by their numbers.
        """
        if not any(self.sets) or not all(name.isascii() for name in self.indicators):
            return {}
        encoded, order, counts = list[dict[str, Any]](), list[int](), [0]
        for ends in self.sets:
            texts = [category_of(name) for name in self.indicators[slice(*ends)]] if ends else []
            bytes_of = [text.encode() for text in texts]
            offsets = [0, *np.cumsum([len(each) for each in bytes_of]).tolist()] if texts else []
            values = np.frombuffer(b"".join(bytes_of), np.int8).tolist()
            encoded.append({"offsets": offsets, "values": values})
            order += sorted(range(len(texts)), key=bytes_of.__getitem__)
            counts.append(counts[-1] + len(texts))
        return {"cats": {"enc": encoded, "feature_segments": counts, "sorted_idx": order}}


def _written(model: PlainModel) -> str:
    """Format the base score of the first class with the digits of a float32; XGBoost 3.0 reads more digits as 0.5."""
    score = model.base_margins[0]
    link = _link(model.objective)
    if link == "logit":
        score = 1 / (1 + math.exp(-min(max(score, -MOST_LOG_ODDS), MOST_LOG_ODDS)))
    elif link == "log":
        score = math.exp(score)
    return np.format_float_scientific(np.float32(score), trim="-", exp_digits=1)


def _link(objective: str) -> Link:
    """Return the link of base scores, which XGBoost writes as margins for several classes."""
    return "identity" if objective.startswith("multi:") else TRAITS[objective].link


def _tree(position: int, number: int, model: PlainModel, columns: _Columns, base: float) -> dict[str, Any]:
    """Convert tree `number`, level by level. A right child must follow its sibling, as XGBoost assumes."""
    leaves, features = np.float32(model.leaves[number] + base), model.features[number]
    m = len(features)

    def lasting(node: int) -> int:
        while node < m and features[node] == NO_SPLIT:
            node = 2 * node + (1 if node % 2 else 2)
        return node

    full, parents = [lasting(0)], [_NO_PARENT]
    left: list[int] = []
    for place, node in enumerate(full):
        left.append(-1 if node >= m else len(full))
        if node < m:
            full += [lasting(2 * node + 1), lasting(2 * node + 2)]
            parents += [place, place]
    nodes = len(full)

    def of_splits(values: np.ndarray) -> list[Any]:
        return np.append(values, np.zeros(m + 1, values.dtype))[full].tolist()

    ends = dict(model.sets)
    of_sets = [place for place, node in enumerate(full) if node < m and int(features[node]) in ends]
    right: list[list[int]] = []
    if model.rights is not None:
        for first, node in ((int(features[full[place]]), full[place]) for place in of_sets):
            right.append(np.flatnonzero(model.rights[number, node, first : ends[first]]).tolist())
    sizes = [len(each) for each in right]
    parameter = {"num_nodes": str(nodes), "num_feature": str(len(columns.names)), "num_deleted": "0"}
    return {
        "base_weights": [0.0] * nodes,
        "categories": [category for each in right for category in each],
        "categories_nodes": of_sets,
        "categories_segments": [sum(sizes[:k]) for k in range(len(sizes))],
        "categories_sizes": sizes,
        "default_left": of_splits(model.missing_left[number].astype(int)),
        "id": position,
        "left_children": left,
        "loss_changes": of_splits(model.gains[number]),
        "parents": parents,
        "right_children": [child if child == -1 else child + 1 for child in left],
        "split_conditions": np.append(model.thresholds[number], leaves)[full].tolist(),
        "split_indices": of_splits(np.where(features == NO_SPLIT, NO_SPLIT, columns.number[features])),
        "split_type": [int(place in of_sets) for place in range(nodes)],
        "sum_hessian": model.covers[number, full].tolist(),
        "tree_param": {**parameter, "size_leaf_vector": "1"},
    }


def from_xgboost(document: dict[str, Any], source: str) -> PlainModel:
    """Convert XGBoost's JSON object to a plain model.

    Supported are gbtree models with the objectives above, splits on numbers and on categories whose names the model
    has, one output per leaf, and missing values. If early stopping has found a best round, later trees are dropped, as
    in `XGBModel.predict`. Raises DataError, which names `source`, for any other model.
    """
    with reading(source, "model of XGBoost in JSON"), np.errstate(over="ignore"):
        learner = document["learner"]
        booster, parameter = learner["gradient_booster"], learner["learner_model_param"]
        objective = _accepted(learner, source)
        d, classes = int(parameter["num_feature"]), max(1, int(parameter["num_class"]))
        if d > MOST_FEATURES:
            raise DataError(f"{source}: a model can have at most {MOST_FEATURES} features to be shared, got {d}")
        names = tuple(str(n) for n in learner.get("feature_names") or [f"f{i}" for i in range(d)])
        columns = _Columns.read(names, booster["model"].get("cats", {}).get("enc", []), source)
        model = _best(booster["model"], learner)
        trees = _by_round(model, classes)
        if not trees:
            raise DataError(f"{source}: the model must have at least one tree, got none")
        base = _base_margins(str(parameter["base_score"]), objective, classes)
        made = [_tree_of(tree, columns, source) for tree in trees]
        return plain_model(source, objective, columns.indicators, base, made, _parallel(model, classes), columns.ranges)


def _tree_of(tree: dict[str, Any], columns: _Columns, source: str) -> Tree:
    """Read a tree; at a leaf, its condition is its weight."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    conditions = np.array(tree["split_conditions"], np.float64)
    covers = np.array(tree.get("sum_hessian") or np.zeros(len(left)), np.float64)
    features, missing_left = np.array(tree["split_indices"]), np.array(tree["default_left"]).astype(bool)
    thresholds = conditions.astype(np.float32)
    if not np.isfinite(thresholds).all():
        raise ValueError("a number that is not finite")
    split = left != -1
    numbers = np.where(split, columns.first[np.where(split, features, 0)], 0) if columns.ranges else features
    rights = np.zeros((len(left), len(columns.indicators)), bool) if columns.ranges else None
    parts = (tree.get(f"categories_{part}", []) for part in ("nodes", "segments", "sizes"))
    for node, start, size in zip(*parts, strict=True):
        ends = columns.sets[features[node]]
        if ends is None or rights is None:
            raise DataError(
                f"{source}: a model with categorical splits must have the names of its categories to be shared: train "
                "it with XGBoost 3.1 or newer, on columns of pandas' dtype category"
            )
        rights[node, ends[0] + np.array(tree["categories"][start : start + size], int)] = True
        if rights[node, : ends[0]].any() or rights[node, ends[1] :].any():
            raise ValueError("a category beyond those of its column")
    return Tree(numbers, thresholds, missing_left, left, right, conditions, covers, rights)


def _accepted(learner: dict[str, Any], source: str) -> str:
    """Check that this kind of model can be shared, and return our name of its objective. Raises DataError."""
    name, booster = str(learner["objective"]["name"]), learner["gradient_booster"]
    # XGBoost 3.4 writes a dart model as a gbtree whose trees have weights.
    weighted = any(float(weight) != 1 for weight in booster.get("model", {}).get("weight_drop", []))
    if booster["name"] != "gbtree" or weighted:
        kind = "dart" if weighted else booster["name"]
        raise DataError(f"{source}: a {kind} model cannot be shared, only gbtree")
    if name not in OBJECTIVES:
        raise DataError(f"{source}: a model with objective {name} cannot be shared, only {', '.join(OBJECTIVES)}")
    if int(learner["learner_model_param"].get("num_target", 1)) != 1:
        raise DataError(f"{source}: a model with several targets cannot be shared")
    for tree in booster["model"]["trees"]:
        if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
            raise DataError(f"{source}: a model with several outputs per leaf cannot be shared")
    return OBJECTIVES[name]


def _best(model: dict[str, Any], learner: dict[str, Any]) -> dict[str, Any]:
    """Drop the trees after the best round, if there is one."""
    best = learner.get("attributes", {}).get("best_iteration")
    if best is None:
        return model
    if not 0 <= int(best) < len(model["iteration_indptr"]) - 1:
        raise ValueError(f"best_iteration {best} of {len(model['iteration_indptr']) - 1} rounds")
    count = int(model["iteration_indptr"][int(best) + 1])
    return {**model, "trees": model["trees"][:count], "tree_info": model["tree_info"][:count]}


def _by_round(model: dict[str, Any], classes: int) -> list[dict[str, Any]]:
    """Let the classes take turns. With num_parallel_tree, XGBoost has the trees of each class together in a round."""
    if classes > len(model["trees"]):
        raise ValueError(f"{len(model['trees'])} trees for {classes} classes")
    of_class = [[t for t, k in zip(model["trees"], model["tree_info"], strict=True) if k == c] for c in range(classes)]
    return [tree for trees in zip(*of_class, strict=True) for tree in trees]


def _parallel(model: dict[str, Any], classes: int) -> int:
    """Return the trees per round and class; 1 if rounds differ, since the model was continued with another number."""
    count, parallel = len(model["trees"]), max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
    starts = list(range(0, count + 1, parallel * classes))
    found = [start for start in model.get("iteration_indptr", starts) if start <= count]
    return parallel if found == starts and starts[-1] == count else 1


def _base_margins(written: str, objective: str, classes: int) -> tuple[float, ...]:
    """Parse base_score to one margin per class. It is a number, or from XGBoost 3.1 on a list in brackets."""
    scores = [float(score) for score in written.strip("[]").split(",")]
    if len(scores) not in (1, classes):
        raise ValueError(f"{len(scores)} base scores for {classes} classes")
    link = _link(objective)
    if link == "logit":
        scores = [_log_odds(p) for p in scores]
    elif link == "log":
        scores = [math.log(count) for count in scores]
    return tuple(scores * (classes // len(scores)))


def _log_odds(probability: float) -> float:
    """Return log-odds as in XGBoost: in float32, of a probability clipped to 1e-6 .. 1 - 1e-6."""
    if not 0 <= probability <= 1:
        raise ValueError(f"base_score {probability:g} is not a probability")
    one, least = np.float32(1), np.float32(1e-6)
    return float(-np.log(one / np.clip(np.float32(probability), least, one - least) - one))
