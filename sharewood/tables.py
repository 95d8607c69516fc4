"""CSV files of one party: features, labels, predictions. Errors name file, column and line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mpc.errors import DataError
from secure_tree.storage import write_bytes

ID = "id"
PREDICTION = "prediction"


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


def read_rows(path: Path, label: str, names: Sequence[str]) -> tuple[pd.DataFrame, pd.Series | None]:
    """Rows to predict: the model's features and no others, a label column set aside, and the ids if there are any."""
    features, _ = read_table(path, None)
    if label not in names:
        features = features.drop(columns=[label], errors="ignore")
    for name in names:
        if name not in features:
            raise DataError(f"{path}: there is no column {name!r}, which the model needs")
    for name in features:
        if name not in names:
            raise DataError(f"{path}: the model knows no column {name!r}")
    identities = pd.read_csv(path, usecols=lambda name: name == ID)
    return features[list(names)], identities.get(ID)


def known_labels(path: Path, label: str, names: Sequence[str], logistic: bool) -> np.ndarray | None:
    """Labels of rows to predict, where the file has them for all: a number each, 0 or 1 where `logistic`; else None."""
    column = pd.read_csv(path, usecols=lambda name: name == label).get(label)
    if column is None or label in names:
        return None
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    good = np.isin(values, (0, 1)) if logistic else np.isfinite(values)
    return values if good.all() else None


def writable(path: Path) -> None:
    """Raises DataError unless a file can be made at `path`: asked before an hour of work, not after."""
    if not path.absolute().parent.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise DataError(f"{path}: cannot be written, there is no such folder or it is not ours")


def write_predictions(path: Path, identities: pd.Series | None, values: np.ndarray) -> None:
    """A CSV with the column `prediction`, after the ids where the input has them."""
    table = pd.DataFrame({PREDICTION: values})
    if identities is not None:
        table.insert(0, ID, identities.to_numpy())
    write_bytes(path, table.to_csv(index=False).encode())


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
