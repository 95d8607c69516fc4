"""Types of user input: tables of features, and columns of labels, weights or ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike

from mpc.errors import DataError
from mpc.host.extras import install
from mpc.host.frames import pd


class Frame(Protocol):
    """A table of pandas, polars, Arrow, DuckDB, or another library that narwhals reads, eager or lazy."""

    @property
    def columns(self) -> Any: ...


TableLike: TypeAlias = ArrayLike | Frame
ColumnLike: TypeAlias = Union[ArrayLike, "pd.Series"]
# (X, y). y is None at a party without labels.
Labelled: TypeAlias = tuple[TableLike, ColumnLike | None]
# A list of pairs, as in XGBoost, or the pair itself.
EvalSet: TypeAlias = Labelled | Sequence[Labelled]


def in_memory(X: TableLike) -> Any:
    """Return an array as it is, and any other table as a pandas DataFrame. A lazy one is computed. Raises DataError."""
    if isinstance(X, np.ndarray) or _library(X) == "pandas":
        return X
    if _library(X) == "xgboost":
        raise DataError(f"a table must be the array or the frame that xgboost's {type(X).__name__} was made of")
    import narwhals.stable.v2 as nw

    table = nw.from_native(X, pass_through=True)
    try:
        frame = table.collect() if isinstance(table, nw.LazyFrame) else table
        return frame.to_pandas() if isinstance(frame, nw.DataFrame) else X
    except ImportError as error:
        raise DataError(f"a table of {_library(X)} needs {error.name}: {install('parquet')}") from None


def frame_of(X: TableLike) -> pd.DataFrame | None:
    """Return a table as a pandas DataFrame, None if it is an array. Raises DataError."""
    table = in_memory(X)
    return table if _library(table) == "pandas" and hasattr(table, "columns") else None


def _library(X: object) -> str:
    return type(X).__module__.partition(".")[0]
