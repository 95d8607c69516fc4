"""Tables of one party, CSV or parquet: features, labels, weights, ids, predictions. Errors say where."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pyarrow.parquet import read_schema

from mpc.errors import DataError
from secure_tree.categories import columns_behind
from secure_tree.storage import write_bytes
from sharewood.columns import Columns

PREDICTION = "prediction"
PARQUET = ".parquet"
# What stands for a missing number in a CSV file; of text, only the empty cell does.
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None"]


@dataclass(frozen=True)
class Rows:
    """Rows of a table: features, float64 or of the type `category`; labels, weights and ids where there are any.

    `missing` are the features that the schema file declares as possibly missing.
    """

    features: pd.DataFrame
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    ids: pd.Series | None = None
    missing: tuple[str, ...] = ()


def read_table(path: Path, columns: Columns, may_miss: Callable[[str], bool] = lambda name: False) -> Rows:
    """A table to train on. `may_miss` says which features may be missing besides those that `columns` declare."""
    frame = read_frame(path, columns)
    roles = {role: columns.named(role) for role in ("label", "weight")}
    for role, name in roles.items():
        if name is not None and name not in frame:
            raise DataError(f"{path}: there is no {role} column {name!r}; the columns are {', '.join(frame)}")
    features = _features(path, frame, columns, columns.features(frame), may_miss)
    labels, weights = (None if name is None else _numbers(path, name, frame[name]) for name in roles.values())
    if weights is not None:
        _refuse(path, str(roles["weight"]), weights < 0, lambda row: f"weight {weights[row]:g} is negative")
    return Rows(features, labels, weights, _ids(path, frame, columns), columns.missing)


def read_rows(
    path: Path, columns: Columns, names: Sequence[str], may_miss: Callable[[str], bool] = lambda name: False
) -> Rows:
    """Rows to predict: the features of a model, in its order, and no others; label and weight are set aside."""
    behind = columns_behind(names, _header(path))
    asked = columns.with_categories(behind)
    frame = read_frame(path, asked)
    for name in behind:
        if name not in frame:
            raise DataError(f"{path}: there is no column {name!r}, which the model needs")
    for name in asked.features(frame):
        if name not in behind:
            raise DataError(f"{path}: the model knows no column {name!r}")
    features = _features(path, frame, asked, list(behind), may_miss)
    return Rows(features, ids=_ids(path, frame, asked), missing=asked.missing)


def read_joinable(path: Path, columns: Columns) -> tuple[pd.DataFrame, pd.Series]:
    """A table to be joined, all its cells as they are written, and its ids, each of which is there once."""
    frame = read_frame(path, columns, verbatim=True)
    ids = _ids(path, frame, columns)
    if ids is None:
        raise DataError(f"{path}: there is no id column; the columns are {', '.join(frame)}")
    _refuse(path, str(ids.name), ids.duplicated(), lambda row: f"id '{ids.iloc[row]}' appears twice")
    return frame, ids


def read_frame(path: Path, columns: Columns, verbatim: bool = False) -> pd.DataFrame:
    """A file's columns as they are, the id as text, or with `verbatim` all of a CSV file.

    Raises DataError where columns differ from a complete schema.
    """
    header = _header(path)
    with _reading(path):
        if path.suffix == PARQUET:
            frame = pd.read_parquet(path)
        else:
            text = {name for name in header if verbatim or columns.role(name).type in ("id", "categorical")}
            missing = {name: [""] if name in text else _MISSING for name in header}
            frame = pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=missing)
    if len(frame) == 0:
        raise DataError(f"{path}: the table has no rows")
    frame.columns = frame.columns.map(str)
    if columns.complete:
        for name in frame:
            if name not in columns.known:
                raise DataError(f"{path}: column {name!r} is not in the schema file")
        for name in columns.features(frame):
            if name not in frame:
                raise DataError(f"{path}: there is no column {name!r}, which the schema file names")
    return frame


def _header(path: Path) -> list[str]:
    """The columns of a file."""
    with _reading(path):
        if path.suffix == PARQUET:
            return list(read_schema(path).names)
        # Two lines: where rows have more cells than a header, read_csv takes the first ones for labels of the rows.
        first = pd.read_csv(path, header=None, nrows=2, dtype=str, keep_default_na=False).iloc[0]
        if first.duplicated().any():
            raise ValueError(f"column {first[first.duplicated()].iloc[0]!r} appears twice")
        return list(pd.read_csv(path, nrows=0).columns)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own kinds are among them
        said = " ".join(str(error).split())
        raise DataError(f"{path}: not a {'parquet' if path.suffix == PARQUET else 'CSV'} table ({said})") from None


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """A table as CSV or parquet, whole or not at all."""
    if path.suffix == PARQUET:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_bytes(path, buffer.getvalue())
    else:
        write_bytes(path, frame.to_csv(index=False).encode())


def write_predictions(path: Path, ids: pd.Series | None, values: np.ndarray, output: str = "probability") -> None:
    """A table with the column `prediction`, after the ids where the input has them.

    values [n, classes]: `prediction` is the class, and its probabilities or margins follow, one column a class.
    """
    table = pd.DataFrame({PREDICTION: values if values.ndim == 1 else values.argmax(axis=1)})
    for k, column in enumerate(values.T if values.ndim == 2 else []):
        table[f"{output}_{k}"] = column
    if ids is not None:
        table.insert(0, str(ids.name), ids.to_numpy())
    write_frame(path, table)


def known_labels(path: Path, columns: Columns, names: Sequence[str], classes: int) -> np.ndarray | None:
    """Labels of rows to predict, a number each, of so many classes if any; None where the file lacks one."""
    name = columns.named("label")
    if name is None or name in names or name not in _header(path):
        return None
    values = pd.to_numeric(read_frame(path, columns)[name], errors="coerce").to_numpy(np.float64)
    good = np.isin(values, np.arange(classes)) if classes else np.isfinite(values)
    return values if good.all() else None


def writable(path: Path) -> None:
    """Raises DataError unless a file can be made at `path`: asked before an hour of work, not after."""
    if path.is_dir():
        raise DataError(f"{path}: cannot be written, it is a folder")
    if not path.absolute().parent.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise DataError(f"{path}: cannot be written, there is no such folder or it is not ours")


def check_classes(path: Path, columns: Columns, labels: np.ndarray, count: int = 2) -> None:
    """Raises DataError unless all labels are class numbers below `count`."""
    classes = "0 or 1" if count == 2 else f"one of 0 .. {count - 1}"
    strange = ~np.isin(labels, np.arange(count))
    _refuse(path, str(columns.named("label")), strange, lambda row: f"label {labels[row]:g} is not {classes}")


def check_counts(path: Path, columns: Columns, labels: np.ndarray) -> None:
    """Raises DataError if a label is negative."""
    _refuse(path, str(columns.named("label")), labels < 0, lambda row: f"label {labels[row]:g} is negative, no count")


def _features(
    path: Path, frame: pd.DataFrame, columns: Columns, names: list[str], may_miss: Callable[[str], bool]
) -> pd.DataFrame:
    values: dict[str, np.ndarray | pd.Categorical] = {}
    for name in names:
        column = columns.role(name)
        optional = column.missing or may_miss(name)
        if column.type == "categorical":
            values[name] = _categories(path, name, frame[name], column.categories, optional)
        else:
            values[name] = _numbers(path, name, frame[name], optional)
    return pd.DataFrame(values)


def _categories(
    path: Path, name: str, column: pd.Series, categories: tuple[str, ...], optional: bool
) -> pd.Categorical:
    """A column of the type `category`; a missing value where there may be some."""
    absent = column.isna().to_numpy()
    codes = pd.Index(categories).get_indexer(pd.Index(column.astype(str)))
    codes[absent] = -1

    def what(row: int) -> str:
        return "value is missing" if absent[row] else f"value is '{column.iloc[row]}', none of the categories"

    _refuse(path, name, (codes < 0) & ~(absent & optional), what)
    return pd.Categorical.from_codes(codes, list(categories))


def _numbers(path: Path, name: str, column: pd.Series, optional: bool = False) -> np.ndarray:
    """float64[n]; NaN where a value is missing, and may be."""
    if column.dtype.kind in "mM":
        raise DataError(f"{path}: column {name!r} holds times, not numbers")
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    absent = column.isna().to_numpy()
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32))

    def what(row: int) -> str:
        return "value is missing" if absent[row] else f"value is '{column.iloc[row]}', not a finite number of float32"

    _refuse(path, name, ~finite & ~(absent & optional), what)
    return values


def _ids(path: Path, frame: pd.DataFrame, columns: Columns) -> pd.Series | None:
    name = columns.named("id")
    if name is None or name not in frame:
        return None
    if frame[name].dtype.kind == "f":
        raise DataError(f"{path}: column {name!r} holds fractions or gaps: ids are text or whole numbers")
    _refuse(path, name, frame[name].isna() | (frame[name] == ""), lambda row: "the id is missing")
    return frame[name].astype(str)


def _refuse(path: Path, name: str, bad: np.ndarray | pd.Series, what: Callable[[int], str]) -> None:
    """Raises DataError that points to the first `bad` row, and says what is wrong with it."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{_cell(path, name, row)}: {what(row)}")


def _cell(path: Path, name: str, row: int) -> str:
    """Where a value is: in a CSV file by line as an editor shows it, the header being line 1."""
    return f"{path}: column {name!r}, " + (f"row {row}" if path.suffix == PARQUET else f"line {row + 2}")
