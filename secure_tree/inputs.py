"""What users pass: tables of features, and columns of labels, weights or ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

TableLike: TypeAlias = Union[ArrayLike, "pd.DataFrame"]
ColumnLike: TypeAlias = Union[ArrayLike, "pd.Series"]
