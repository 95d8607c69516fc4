"""Categorical columns as indicators: `colour`, one of red, green, blue, is `colour=red`, `colour=green`, `colour=blue`.

An indicator is 1 where the row has the category and 0 where it has another; where the column may be missing and is, all
of them are missing. A split on one sends a category one way and the rest the other, so that every category is a
candidate of its own: one-vs-rest sets, as XGBoost grows them up to `max_cat_to_onehot` categories. To the learner, its
twin and its models they are features like others.

Categorical is a column of pandas' type `category`, whose categories are public. By rows, both parties' are united.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mpc.errors import DataError
from secure_tree.inputs import TableLike, frame_of

if TYPE_CHECKING:
    import pandas as pd

# Of each categorical column its categories in order.
Dictionary = dict[str, list[str]]
_IS = "="


def indicator(column: str, category: str) -> str:
    """The name of the feature."""
    return f"{column}{_IS}{category}"


def is_indicator(name: str) -> bool:
    """Whether a feature's name is that of an indicator, where no numeric column has a = in its name."""
    return _IS in name


def covers(declared: str, name: str) -> bool:
    """Whether a declared column is the feature, or is categorical and the feature one of its indicators."""
    return name == declared or name.startswith(declared + _IS)


def dictionary(X: TableLike) -> Dictionary:
    """The categories of the categorical columns of a DataFrame; none of an array. Raises DataError."""
    frame = frame_of(X)
    if frame is None:
        return {}
    kinds = zip(map(str, frame.columns), frame.dtypes, strict=True)
    found = {name: [str(c) for c in dtype.categories] for name, dtype in kinds if is_categorical(dtype)}
    for column in found:
        if _IS in column:
            raise DataError(f"the categorical column {column!r} has {_IS!r} in its name")
        for name in map(str, frame.columns):
            if name != column and covers(column, name):
                raise DataError(f"column {name!r} has the name of an indicator of the categorical column {column!r}")
    return found


def is_categorical(dtype: object) -> bool:
    """Whether a column's type is pandas' `category`."""
    return str(dtype) == "category"


def unite(first: Dictionary, second: Dictionary) -> Dictionary:
    """Both parties' categories of the same columns, the first's before others. Raises DataError."""
    for column in [*first, *second]:
        if (column in first) != (column in second):
            raise DataError(f"column {column!r} is categorical at one party, and not at the other")
    return {column: list(dict.fromkeys(first[column] + second[column])) for column in first}


def columns_behind(names: Iterable[str], present: Sequence[str]) -> dict[str, list[str]]:
    """Features of a model -> the columns of a table that give them, with their categories; [] for a numeric one."""
    columns: dict[str, list[str]] = {}
    for name in names:
        column, found, category = name.partition(_IS)
        if name in present or not found:
            columns[name] = []
        else:
            columns.setdefault(column, []).append(category)
    return columns


def expand(X: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A DataFrame as a model with features `names` takes it, such as an exported one: categories as indicators.

    Columns that become indicators hold text, or are of the type `category`. Raises DataError.
    """
    import pandas as pd

    features: dict[str, np.ndarray] = {}
    for name, categories in columns_behind(names, list(map(str, X.columns))).items():
        if name not in X:
            raise DataError(f"X has no column {name!r}, which the model needs")
        if categories:
            hot = indicators(X[name].astype("category"), categories, "X")
            features |= {indicator(name, category): hot[:, k] for k, category in enumerate(categories)}
        else:
            features[name] = X[name].to_numpy(np.float64, na_value=np.nan)
    return pd.DataFrame(features)[list(names)]


def indicators(column: pd.Series, categories: list[str], source: str) -> np.ndarray:
    """A column of the type `category` -> float64[n, categories], NaN where it is missing.

    Raises DataError for a value of another category.
    """
    own = [str(c) for c in column.cat.categories]
    places = np.array([categories.index(c) if c in categories else len(categories) for c in own] + [-1])
    found = places[np.asarray(column.cat.codes)]  # the code of a missing value is -1
    strange = np.flatnonzero(found == len(categories))
    if strange.size:
        row = int(strange[0])
        raise DataError(
            f"{source}: column {str(column.name)!r}, row {row}: '{column.iloc[row]}' is none of the categories "
            + ", ".join(categories)
        )
    hot = (found[:, None] == np.arange(len(categories))).astype(np.float64)
    hot[found == -1] = np.nan
    return hot
