"""Types of user input: tables of features, and columns of labels, weights or ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from numpy.typing import ArrayLike

from mpc.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

TableLike: TypeAlias = Union[ArrayLike, "pd.DataFrame"]
ColumnLike: TypeAlias = Union[ArrayLike, "pd.Series"]
# Libraries whose tables are not taken, and what to pass instead.
_INSTEAD = dict.fromkeys(("polars", "pyarrow", "modin", "cudf"), "pass its to_pandas()") | {
    "duckdb": "pass its df()",
    "xgboost": "pass the array or DataFrame that it was made of",
    "dask": "pass its compute()",
}
# (X, y). y is None at a party without labels.
Labelled: TypeAlias = tuple[TableLike, ColumnLike | None]
# A list of pairs, as in XGBoost, or the pair itself.
EvalSet: TypeAlias = Labelled | Sequence[Labelled]


def frame_of(X: TableLike) -> pd.DataFrame | None:
    """Return X if it is a pandas DataFrame, None if it is an array. Raises DataError for tables of other libraries."""
    table: Any = X
    library = type(table).__module__.partition(".")[0]
    if library in _INSTEAD:
        raise DataError(
            f"a table must be an array or a pandas DataFrame, got {library}'s {type(table).__name__}: "
            f"{_INSTEAD[library]}"
        )
    return table if hasattr(table, "columns") else None
