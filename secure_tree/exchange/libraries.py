"""Models of other libraries as plain models: XGBoost, LightGBM, scikit-learn, CatBoost.

LightGBM and scikit-learn are read by treelite. Both compare with `<=` in double precision; a plain model compares with
`<` in single precision, as XGBoost does, so thresholds are rounded such that every value in single precision goes the
same way. Nothing here imports LightGBM, scikit-learn or CatBoost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
# Comparisons of treelite, after which a row goes to the first child; those that swap the children of a plain model, and
# those that send a value at the threshold left there.
_OPERATORS = {2: "<", 3: "<=", 4: ">", 5: ">="}
_KINDS = (">", ">="), ("<=", ">")
# What is read in the text of a model of LightGBM.
_KEYS = "feature_names=", "decision_type=", "is_linear="


def read_model(path: Path, key: FileKey | None = None) -> PlainModel:
    """Read a model: JSON of XGBoost or CatBoost, text of LightGBM (.txt), or what `PlainModel.save` wrote (.npz).

    Raises DataError, ConfigError.
    """
    if path.suffix == ".npz":
        return PlainModel.load(path, key)
    if path.suffix == ".txt":
        treelite = _treelite()
        with reading(path, "model of LightGBM in text"):
            names = _checked_text(path.read_text(), str(path))
            return _from_treelite(treelite.frontend.load_lightgbm_model(path), names, str(path))
    document = read_json(path, "model of XGBoost or CatBoost in JSON")
    return (from_catboost if "model_info" in document else from_xgboost)(document, str(path))


def from_library(model: Any, names: Sequence[str] | None = None) -> PlainModel:
    """Convert a fitted model of XGBoost, LightGBM or scikit-learn, to be saved and shared.

    Parameters
    ----------
    model : estimator or Booster
        Numeric splits only, but for models of XGBoost 3.1 or newer on columns of type `category`. A forest that
        averages probabilities of two classes predicts that of the second one as a number; one of more classes cannot be
        shared.
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
        if hasattr(model, "model_to_string"):
            found = _checked_text(model.model_to_string(), source)
            return _from_treelite(treelite.frontend.from_lightgbm(model), found if names is None else names, source)
        loaded, known = treelite.sklearn.import_model(model), getattr(model, "feature_names_in_", None)
        # With exponential loss, probabilities are the logistic function of twice the margin.
        twice = getattr(model, "loss", None) == "exponential"
        return _from_treelite(loaded, known if names is None else names, source, 2.0 if twice else 1.0)


def _treelite() -> Any:
    """Import treelite, which is an extra. Raises ConfigError."""
    try:
        import treelite
    except ImportError:
        raise ConfigError(f"models of LightGBM and scikit-learn need treelite: {install('forests')}") from None
    return treelite


def _checked_text(text: str, source: str) -> list[str]:
    """Return the names of features in a model of LightGBM. Raises DataError for what treelite would misread."""
    found = {key: [line.removeprefix(key) for line in text.splitlines() if line.startswith(key)] for key in _KEYS}
    names, decisions, linear = found.values()
    # Bits 2 and 3 of a decision: which values are missing. 1: zeros.
    if any(int(kind) >> 2 & 3 == 1 for line in decisions for kind in line.split()):
        raise DataError(f"{source}: a model with zero_as_missing cannot be shared")
    if any(line != "0" for line in linear):
        raise DataError(f"{source}: a model with linear trees cannot be shared")
    if not names:
        raise ValueError("it has no names of features")
    return names[0].split()


def _checked(names: Sequence[str] | None, count: int, source: str) -> tuple[str, ...]:
    """Return the names of features. Raises DataError."""
    if names is None:
        return tuple(f"f{i}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{source}: the model has {count} features, got {len(names)} names")
    return tuple(map(str, names))


def _from_treelite(model: Any, names: Sequence[str] | None, source: str, alpha: float = 1.0) -> PlainModel:
    """Convert a model of treelite, whose margins are multiplied by `alpha`. Raises DataError, ValueError."""
    header = model.get_header_accessor()
    link, base = header.get_field("postprocessor"), header.get_field("base_scores")
    (classes,), (targets,), (average,), (features,) = (
        header.get_field(name).tolist() for name in ("num_class", "num_target", "average_tree_output", "num_feature")
    )
    if targets != 1:
        raise DataError(f"{source}: a model with several targets cannot be shared")
    width, objective = header.get_field("leaf_vector_shape")[1], _OBJECTIVES.get(link)
    numbers = header.get_field("class_id")
    if link == "sigmoid":
        alpha *= header.get_field("sigmoid_alpha").item()
    two = link == "identity_multiclass" and width == classes == 2
    if two:
        objective, classes, base, numbers = "reg:squarederror", 1, base[1:], np.zeros_like(numbers)
    if objective is None or (width > 1 and not two):
        what = "that averages probabilities of several classes" if width > 2 else f"whose margins go through {link}"
        raise DataError(f"{source}: a model {what} cannot be shared, only through {', '.join(_OBJECTIVES)}")
    of_class = [np.flatnonzero(numbers == k) for k in range(classes)]
    scale = alpha / (len(of_class[0]) if average else 1)
    trees = [
        _tree_of(model.get_tree_accessor(int(number)).get_field, scale, source)
        for each in zip(*of_class, strict=True)
        for number in each
    ]
    if not trees:
        raise DataError(f"{source}: the model must have at least one tree, got none")
    margins = tuple(float(alpha * margin) for margin in base)
    return plain_model(source, objective, _checked(names, features, source), margins, trees)


def _tree_of(field: Callable[[str], np.ndarray], scale: float, source: str) -> Tree:
    """Convert a tree by the fields of its nodes. Of leaves with two values, the second one counts."""
    if field("has_categorical_split").any():
        raise DataError(f"{source}: a model with categorical splits cannot be shared")
    left, compares, ends = field("cleft"), field("cmp"), field("leaf_vector_end").astype(int)
    if not np.isin(compares[left != -1], list(_OPERATORS)).all():
        raise ValueError("a node that compares otherwise")
    swapped, inclusive = (np.isin(compares, [k for k in _OPERATORS if _OPERATORS[k] in some]) for some in _KINDS)
    values = np.append(field("leaf_vector"), 0.0)[ends - 1] if len(field("leaf_vector")) else field("leaf_value")
    present = field("sum_hess") if field("sum_hess_present").any() else field("data_count")
    with np.errstate(over="ignore"):
        thresholds = strictly_below(field("threshold").astype(np.float64), inclusive)
    return Tree(
        features=field("split_index"),
        thresholds=thresholds,
        missing_left=field("default_left").astype(bool) ^ swapped,
        left=np.where(swapped, field("cright"), left),
        right=np.where(swapped, left, field("cright")),
        values=scale * values,
        covers=present.astype(np.float64),
    )
