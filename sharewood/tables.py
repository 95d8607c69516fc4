"""CSV files of one party: features and, for training, the label column. Errors name file, column and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from mpc.errors import DataError

ID = "id"


def read_table(path: Path, label: str | None) -> tuple[pd.DataFrame, np.ndarray | None]:
    """A CSV file as (features, labels); `label` None where there is none to read. A column `id` is never a feature."""
    try:
        table = pd.read_csv(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a CSV table ({error})") from None
    if len(table) == 0:
        raise DataError(f"{path}: the table has no rows")
    table = table.drop(columns=[ID], errors="ignore")
    labels = None
    if label is not None:
        if label not in table:
            raise DataError(f"{path}: there is no label column {label!r}; the columns are {', '.join(table.columns)}")
        labels = _numbers(path, label, table[label])
        table = table.drop(columns=[label])
    for name in table:
        _numbers(path, str(name), table[name])
    return table, labels


def _numbers(path: Path, name: str, column: pd.Series) -> np.ndarray:
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(bad[0])
        found = column.iloc[row]
        what = "is missing" if pd.isna(found) else f"is '{found}', not a finite number"
        # Line numbers as an editor shows them: the header is line 1.
        raise DataError(f"{path}: column {name!r}, line {row + 2}: value {what}")
    return values


def check_classes(path: Path, name: str, labels: np.ndarray) -> None:
    """Raises DataError unless all labels are 0 or 1."""
    bad = np.flatnonzero(~np.isin(labels, (0, 1)))
    if bad.size:
        row = int(bad[0])
        raise DataError(f"{path}: column {name!r}, line {row + 2}: label {labels[row]:g} is not 0 or 1")
