"""Types of user input: tables of features, and columns of labels, weights or ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

TableLike: TypeAlias = Union[ArrayLike, "pd.DataFrame"]
ColumnLike: TypeAlias = Union[ArrayLike, "pd.Series"]
# (X, y). y is None at a party without labels.
Labelled: TypeAlias = tuple[TableLike, ColumnLike | None]
# A list of pairs, as in XGBoost, or the pair itself.
EvalSet: TypeAlias = Labelled | Sequence[Labelled]


def frame_of(X: TableLike) -> pd.DataFrame | None:
    """Return X if it is a DataFrame, otherwise None."""
    table: Any = X
    return table if hasattr(table, "columns") else None
