"""Categorical columns as indicators: `colour` with categories red and blue becomes `colour=red` and `colour=blue`.

An indicator is 1 if the row has the category and 0 if it has another. If the column's value is missing, all its
indicators are missing. With fewer than `max_cat_to_onehot` categories, a split on an indicator sends one category one
way and all others the other way, and the learner, its twin and its models treat indicators like any other feature. From
so many on, the indicators of a column are split together, by sets of categories (secure_tree/tree/candidates.py).

A column is categorical if its pandas dtype is `category`. Its categories are public. For horizontal data they are the
union of both parties' categories.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd
from secure_tree.data.inputs import TableLike, frame_of
from secure_tree.public.names import columns_behind, covers, indicator, is_indicator

# The categories of each categorical column, in order.
Dictionary = dict[str, list[str]]


def dictionary(X: TableLike) -> Dictionary:
    """Return the categories of a DataFrame's categorical columns; an array has none. Raises DataError."""
    frame = frame_of(X)
    if frame is None:
        return {}
    kinds = zip(map(str, frame.columns), frame.dtypes, strict=True)
    found = {name: [str(c) for c in dtype.categories] for name, dtype in kinds if is_categorical(dtype)}
    for column in found:
        if is_indicator(column):
            raise DataError(f"the name of categorical column {column!r} must not contain '=': rename it")
        for name in map(str, frame.columns):
            if name != column and covers(column, name):
                raise DataError(
                    f"column {name!r} has the name of an indicator of categorical column {column!r}: rename one of them"
                )
    return found


def is_categorical(dtype: object) -> bool:
    """Return whether a column's dtype is pandas' `category`."""
    return str(dtype) == "category"


def unite(first: Dictionary, second: Dictionary) -> Dictionary:
    """Return the union of both parties' categories for every column, the first party's first. Raises DataError."""
    for column in [*first, *second]:
        if (column in first) != (column in second):
            raise DataError(f"column {column!r} is categorical at one party but not at the other")
    return {column: list(dict.fromkeys(first[column] + second[column])) for column in first}


def expand(X: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Convert a DataFrame to the features `names` of a model, such as an exported one.

    Columns that become indicators must hold text or have the dtype `category`; those that an exported model splits by
    sets remain categorical. Raises DataError.
    """
    features: dict[str, np.ndarray | pd.Series] = {}
    for name, categories in columns_behind(names, list(map(str, X.columns))).items():
        if name not in X:
            raise DataError(f"X has no column {name!r}, which the model needs")
        if categories:
            hot = indicators(X[name].astype("category"), categories, "X")
            features |= {indicator(name, category): hot[:, k] for k, category in enumerate(categories)}
        elif X[name].dtype.kind in "OUS" or is_categorical(X[name].dtype):
            features[name] = X[name].astype("category")
        else:
            features[name] = X[name].to_numpy(np.float64, na_value=np.nan)
    return pd.DataFrame(features)[list(names)]


def indicators(column: pd.Series, categories: list[str], source: str) -> np.ndarray:
    """A column of dtype `category` -> float64[n, categories], NaN if the value is missing.

    Raises DataError for a value of any other category.
    """
    own = [str(c) for c in column.cat.categories]
    places = np.array([categories.index(c) if c in categories else len(categories) for c in own] + [-1])
    found = places[np.asarray(column.cat.codes)]  # the code of a missing value is -1
    strange = np.flatnonzero(found == len(categories))
    if strange.size:
        row = int(strange[0])
        raise DataError(
            f"{source}: column {str(column.name)!r}, row {row}: value must be one of {', '.join(categories)}, got "
            f"{str(column.iloc[row])!r}"
        )
    return one_hot(found, len(categories))


def one_hot(codes: np.ndarray, categories: int) -> np.ndarray:
    """Convert the places of categories, -1 if the value is missing, to indicators: float64[n, categories]."""
    hot = (codes[:, None] == np.arange(categories)).astype(np.float64)
    hot[codes == -1] = np.nan
    return hot
