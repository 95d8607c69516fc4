"""Models of other libraries as plain models: XGBoost, LightGBM, scikit-learn, CatBoost.

LightGBM and scikit-learn are read by treelite. Both compare with `<=` in double precision; a plain model compares with
`<` in single precision, as XGBoost does, so thresholds are rounded such that every value in single precision goes the
same way. Nothing here imports LightGBM, scikit-learn or CatBoost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.encryption import FileKey
from mpc.host.extras import install
from secure_tree.exchange.catboost import from_catboost
from secure_tree.exchange.plain_model import PlainModel
from secure_tree.exchange.trees import Tree, plain_model, strictly_below
from secure_tree.exchange.xgboost import from_xgboost
from secure_tree.model.storage import read_json, reading

# Objectives of models by the function that treelite applies to margins.
_OBJECTIVES = {
    "identity": "reg:squarederror",
    "sigmoid": "binary:logistic",
    "softmax": "multi:softprob",
    "exponential": "count:poisson",
}
_NAMES = "feature_names="


def read_model(path: Path, key: FileKey | None = None) -> PlainModel:
    """Read a model: JSON of XGBoost or CatBoost, text of LightGBM (.txt), or what `PlainModel.save` wrote (.npz).

    Raises DataError, ConfigError.
    """
    if path.suffix == ".npz":
        return PlainModel.load(path, key)
    if path.suffix == ".txt":
        treelite = _treelite()
        with reading(path, "model of LightGBM in text"):
            lines = path.read_text().splitlines()
            names = next(line for line in lines if line.startswith(_NAMES)).removeprefix(_NAMES).split()
            return _from_treelite(treelite.frontend.load_lightgbm_model(path), names, str(path))
    document = read_json(path, "model of XGBoost or CatBoost in JSON")
    return (from_catboost if "model_info" in document else from_xgboost)(document, str(path))


def from_library(model: Any, names: Sequence[str] | None = None) -> PlainModel:
    """Convert a fitted model of XGBoost, LightGBM or scikit-learn, to be saved and shared.

    Parameters
    ----------
    model : estimator or Booster
        Numeric splits only. A forest that averages probabilities of two classes predicts that of the second one as a
        number; one of more classes cannot be shared.
    names : sequence of str, optional
        The names of the features, by default those with which the model was fitted.

    Returns
    -------
    PlainModel
        Its `save` writes a file for `sharewood share --model`.

    Raises
    ------
    ConfigError
        If treelite is not installed, for LightGBM and scikit-learn.
    DataError
        If the model cannot be shared.
    """
    source = f"a {type(model).__name__}"
    if hasattr(model, "get_booster"):
        model = model.get_booster()
    model = getattr(model, "booster_", model)
    if hasattr(model, "save_raw"):
        plain = from_xgboost(json.loads(model.save_raw("json")), source)
        return plain if names is None else replace(plain, names=_checked(names, len(plain.names), source))
    treelite = _treelite()
    with reading(source, "model of XGBoost, LightGBM or scikit-learn"):
        if hasattr(model, "feature_name"):
            loaded, known = treelite.frontend.from_lightgbm(model), model.feature_name()
        else:
            loaded, known = treelite.sklearn.import_model(model), getattr(model, "feature_names_in_", None)
        return _from_treelite(loaded, known if names is None else names, source)


def _treelite() -> Any:
    """Import treelite, which is an extra. Raises ConfigError."""
    try:
        import treelite
    except ImportError:
        raise ConfigError(f"models of LightGBM and scikit-learn need treelite: {install('forests')}") from None
    return treelite


def _checked(names: Sequence[str] | None, count: int, source: str) -> tuple[str, ...]:
    """Return the names of features. Raises DataError."""
    if names is None:
        return tuple(f"f{i}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{source}: the model has {count} features, got {len(names)} names")
    return tuple(map(str, names))


def _from_treelite(model: Any, names: Sequence[str] | None, source: str) -> PlainModel:
    """Convert a model of treelite. Raises DataError, and KeyError or ValueError for another format."""
    document = json.loads(model.dump_as_json())
    link, trees, alpha = document["postprocessor"], document["trees"], 1.0
    (classes,), (_, width) = document["num_class"], document["leaf_vector_shape"]
    base, objective = document["base_scores"], _OBJECTIVES.get(link)
    column: int | None = None
    if link == "sigmoid":
        alpha = document["sigmoid_alpha"]
    elif link == "identity_multiclass" and width == classes == 2:
        objective, classes, column, base = "reg:squarederror", 1, 1, base[1:]
    if objective is None or (column is None and width > 1):
        what = "that averages probabilities of several classes" if width > 2 else f"whose margins go through {link}"
        raise DataError(f"{source}: a model {what} cannot be shared, only through {', '.join(_OBJECTIVES)}")
    if document["num_target"] != 1:
        raise DataError(f"{source}: a model with several targets cannot be shared")
    if any(tree["has_categorical_split"] for tree in trees):
        raise DataError(f"{source}: a model with categorical splits cannot be shared")
    numbers = [0] * len(trees) if column is not None else document["class_id"]
    of_class = [[tree for tree, k in zip(trees, numbers, strict=True) if k == c] for c in range(classes)]
    scale = alpha / (len(of_class[0]) if document["average_tree_output"] else 1)
    ordered = [_tree_of(tree["nodes"], scale, column) for each in zip(*of_class, strict=True) for tree in each]
    if not ordered:
        raise DataError(f"{source}: the model must have at least one tree, got none")
    named = _checked(names, document["num_feature"], source)
    with np.errstate(over="ignore"):
        return plain_model(source, objective, named, tuple(alpha * margin for margin in base), ordered)


def _tree_of(nodes: list[dict[str, Any]], scale: float, column: int | None) -> Tree:
    """Convert a tree, whose leaves have a number, or several of which one counts."""
    place = {node["node_id"]: i for i, node in enumerate(nodes)}
    kinds = [node.get("comparison_op") for node in nodes]
    if set(kinds) - {None, "<", "<=", ">", ">="} or place[0] != 0:
        raise ValueError("a node that compares otherwise")
    swapped = np.array([kind in (">", ">=") for kind in kinds])
    inclusive = np.array([kind in ("<=", ">") for kind in kinds])
    first = np.array([place[node["left_child"]] if "left_child" in node else -1 for node in nodes])
    second = np.array([place[node["right_child"]] if "left_child" in node else -1 for node in nodes])
    by_default = np.array([bool(node.get("default_left")) for node in nodes])
    leaves = [node.get("leaf_value", 0.0) for node in nodes]
    values = [leaf if column is None else np.ravel(leaf)[column] if np.ndim(leaf) else 0.0 for leaf in leaves]
    return Tree(
        features=np.array([node.get("split_feature_id", 0) for node in nodes]),
        thresholds=strictly_below(np.array([float(node.get("threshold", 0.0)) for node in nodes]), inclusive),
        missing_left=by_default ^ swapped,
        left=np.where(swapped, second, first),
        right=np.where(swapped, first, second),
        values=scale * np.array(values, np.float64),
        covers=np.array([float(node.get("sum_hess", node.get("data_count", 0.0))) for node in nodes]),
    )
