"""Tables of one party, CSV or parquet: features, labels, weights, ids, predictions. Errors name the place."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import columns_behind
from secure_tree.public.objectives import TRAITS
from sharewood.tables.columns import ID, ColumnRole, Columns, listed
from sharewood.tables.files import (
    PARQUET,
    Place,
    check_plain,
    column_names,
    make_schema,
    not_a_formula,
    read_cells,
    read_pieces,
    shown,
    write_frame,
)

log = logging.getLogger("sharewood")

PREDICTION = "prediction"
MayMiss = Callable[[str], bool]
_ROWS_THAT_COUNT = 10
LIKE_AN_ID = re.compile(r"(?i:(?:^|[_\W])(?:id|idx|index|key|rowid|uuid|guid))$|[a-z]I[dD]$")


@dataclass(frozen=True)
class TableRows:
    """Rows of a table: features, float64 or of the type `category`; labels, weights and ids if there are any.

    `missing` are the features that the schema file declares as possibly missing.
    """

    features: pd.DataFrame
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    ids: pd.Series | None = None
    missing: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Return the number of columns that give features."""
        return len(self.features.columns)

    @property
    def has_ids(self) -> bool:
        return self.ids is not None


def read_table(path: Path, columns: Columns, may_miss: MayMiss | None = None) -> TableRows:
    """Read a table to train on. `may_miss` selects features that may be missing beyond those of `columns`."""
    rows = _training_rows(Place(path), read_frame(path, columns), columns, may_miss)
    if not columns.complete:
        check_no_ids(path, rows.features)
    return rows


def read_piecewise(
    path: Path,
    columns: Columns,
    may_miss: MayMiss | None,
    start: int,
    stop: int,
    rows: int,
    names: Sequence[str] = (),
) -> Iterator[tuple[Place, TableRows]]:
    """Read rows `start` to `stop` in the same way, `rows` at a time, with their place.

    With `names`, they are rows to predict, as in `read_rows`.
    """
    behind, asked = asked_of(path, columns, names) if names else ({}, columns)
    for place, frame in read_pieces(path, _text_columns(column_names(path), asked), start, stop, rows):
        check_columns(path, frame, asked)
        if names:
            yield place, _rows_to_predict(place, frame, asked, list(behind), may_miss)
        else:
            yield place, _training_rows(place, frame, columns, may_miss)


def _training_rows(place: Place, frame: pd.DataFrame, columns: Columns, may_miss: MayMiss | None) -> TableRows:
    columns.check_present(place.path, frame, "label", "weight")
    features = _features(place, frame, columns, columns.features(frame), may_miss)
    roles: tuple[ColumnRole, ColumnRole] = ("label", "weight")
    names = [columns.named(role) for role in roles]
    labels, weights = (None if name is None else _numbers(place, name, frame[name], columns) for name in names)
    if weights is not None:
        _refuse(place, str(names[1]), weights < 0, lambda row: f"weight must be at least 0, got {weights[row]:g}")
    return TableRows(features, labels, weights, ids_of(place, frame, columns), columns.missing)


def read_rows(path: Path, columns: Columns, names: Sequence[str], may_miss: MayMiss | None = None) -> TableRows:
    """Read rows to predict: the features of a model, in its order, and no others; label and weight are ignored."""
    behind, asked = asked_of(path, columns, names)
    return _rows_to_predict(Place(path), read_frame(path, asked), asked, list(behind), may_miss)


def asked_of(path: Path, columns: Columns, names: Sequence[str]) -> tuple[dict[str, list[str]], Columns]:
    """Return the columns behind a model's features, in its order, with their categories, and the table's columns.

    Raises DataError if the table lacks one, or has others.
    """
    present = column_names(path)
    behind = columns_behind(names, present)
    asked = columns.with_categories(behind)
    check_columns(path, present, asked)
    if lacking := [name for name in behind if name not in present]:
        raise DataError(f"{path} has no {listed(lacking)}, which the model needs")
    if surplus := [name for name in asked.features(present) if name not in behind]:
        verb, them = ("is not a feature", "it") if len(surplus) == 1 else ("are no features", "them")
        raise DataError(
            f"{path}: {listed(surplus)} {verb} of the model: remove {them}, or let a schema file ignore {them}"
        )
    return behind, asked


def header_of(columns: Columns, names: Sequence[str]) -> pd.DataFrame:
    """Return features as a table without rows."""
    kinds = {name: columns.role(name).categories for name in names}
    return pd.DataFrame({n: pd.Categorical([], list(some)) if some else np.zeros(0) for n, some in kinds.items()})


def _rows_to_predict(
    place: Place, frame: pd.DataFrame, asked: Columns, names: list[str], may_miss: MayMiss | None
) -> TableRows:
    features = _features(place, frame, asked, names, may_miss)
    return TableRows(features, ids=ids_of(place, frame, asked), missing=asked.missing)


def read_joinable(path: Path, columns: Columns) -> tuple[pd.DataFrame, pd.Series]:
    """Read a table to join, with all cells as they are written, and its distinct ids."""
    frame = read_frame(path, columns, verbatim=True)
    ids = needed_ids(Place(path), frame, columns)
    _refuse(Place(path), str(ids.name), ids.duplicated(), lambda row: f"id {shown(ids.iloc[row])} appears twice")
    return frame, ids


def read_frame(path: Path, columns: Columns, verbatim: bool = False) -> pd.DataFrame:
    """Read a file's columns as they are, with the id as text, or with all of a CSV file as text if `verbatim`.

    Raises DataError if it has columns that are not in a complete schema, or lacks its id or a feature.
    """
    frame = read_cells(path, None if verbatim else _text_columns(column_names(path), columns))
    check_columns(path, frame, columns)
    return frame


def needed_ids(place: Place, frame: pd.DataFrame, columns: Columns) -> pd.Series:
    """Return the ids of a table as text, or what it is joined on. Raises DataError if it has none."""
    if columns.keys:
        return _joined_keys(place, frame, columns.keys)
    ids = ids_of(place, frame, columns)
    if ids is None:
        raise DataError(f"{place} has no id column; its columns are {', '.join(frame)}")
    return ids


def _text_columns(names: list[str], columns: Columns) -> set[str]:
    return {name for name in names if columns.role(name).type in ("id", "categorical")}


def check_columns(path: Path, names: Iterable[str], columns: Columns) -> None:
    """Raise DataError if a table has columns that are not in a complete schema, or lacks its id or a feature."""
    if columns.complete:
        present = list(names)
        if unknown := [name for name in present if name not in columns.known]:
            raise DataError(f"{path}: {listed(unknown)} {'is' if len(unknown) == 1 else 'are'} not in {columns.source}")
        columns.check_present(path, present, "id", "numeric", "categorical")


def write_predictions(
    path: Path,
    ids: pd.Series | None,
    values: np.ndarray,
    output: str = "probability",
    reasons: Sequence[Any] = (),
    top: int = 0,
    numbers: bool = False,
) -> None:
    """Write a table with the column `prediction`, after the ids if the input has them.

    values [n, classes]: `prediction` is the class, followed by probabilities or margins, one column per class. The
    names of `top` reasons come last, with `numbers` each with its own: for several classes, those of the
    predicted class.
    """
    table = pd.DataFrame({PREDICTION: values if values.ndim == 1 else values.argmax(axis=1)})
    for k, column in enumerate(values.T if values.ndim == 2 else []):
        table[f"{output}_{k}"] = column
    if values.ndim == 2:
        reasons = [of_classes[k] for of_classes, k in zip(reasons, table[PREDICTION], strict=bool(reasons))]
    pairs = [[one if isinstance(one, tuple) else (one, None) for one in of_row] for of_row in reasons]
    if path.suffix != PARQUET:
        pairs = [[(not_a_formula(name), number) for name, number in of_row] for of_row in pairs]
    for r in range(top):
        of_rank = [of_row[r] if r < len(of_row) else ("", None) for of_row in pairs]
        table[f"reason_{r + 1}"] = [name for name, _ in of_rank]
        if numbers:
            table[f"contribution_{r + 1}"] = np.array([number for _, number in of_rank], np.float64)
    if ids is not None:
        table.insert(0, str(ids.name), ids.to_numpy())
    write_frame(path, table)


def known_labels(path: Path, columns: Columns, names: Sequence[str], classes: int) -> np.ndarray | None:
    """Return the labels of rows to predict, as numbers; None if the file lacks one."""
    name = label_of(path, columns, names)
    return None if name is None else good_labels(read_frame(path, columns)[name], classes)


def label_of(path: Path, columns: Columns, names: Sequence[str]) -> str | None:
    """Return the label column of rows to predict with features `names`, if the file has one."""
    name = columns.named("label")
    return None if name is None or name in names or name not in column_names(path) else name


def good_labels(column: pd.Series, classes: int) -> np.ndarray | None:
    """Return labels as numbers, below `classes` if given; None if one is not valid."""
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    good = np.isin(values, np.arange(classes)) if classes else np.isfinite(values)
    return values if good.all() else None


def check_labels(where: Path | Place, columns: Columns, labels: np.ndarray, config: TrainConfig) -> None:
    """Raise DataError unless the labels suit the objective."""
    if config.logistic:
        check_classes(where, columns, labels, config.num_class or 2)
    check_range(where, columns, labels, config.objective)


def check_classes(where: Path | Place, columns: Columns, labels: np.ndarray, count: int = 2) -> None:
    """Raise DataError unless all labels are class numbers below `count`."""
    classes = "0 or 1" if count == 2 else f"one of 0 .. {count - 1}"
    strange = ~np.isin(labels, np.arange(count))
    _refuse(
        _place(where), str(columns.named("label")), strange, lambda row: f"label must be {classes}, got {labels[row]:g}"
    )


def check_range(where: Path | Place, columns: Columns, labels: np.ndarray, objective: str) -> None:
    """Raise DataError if a label is out of the range of the objective."""
    label, traits = str(columns.named("label")), TRAITS[objective]
    says = "a count of at least 0" if objective == "count:poisson" else traits.says
    strange = traits.strange(labels)
    _refuse(_place(where), label, strange, lambda row: f"label must be {says}, got {labels[row]:g}")


def _features(
    place: Place, frame: pd.DataFrame, columns: Columns, names: list[str], may_miss: MayMiss | None
) -> pd.DataFrame:
    missing = "value is missing"
    if columns.complete:
        missing += f", and {columns.source} does not declare missing values"
    elif may_miss is not None:
        missing += ", and `missing` does not name the column"
    values: dict[str, np.ndarray | pd.Categorical] = {}
    for name in names:
        column = columns.role(name)
        optional = column.missing or (may_miss is not None and may_miss(name))
        if column.type == "categorical":
            values[name] = _categories(place, name, frame[name], column.categories, optional, missing)
        else:
            values[name] = _numbers(place, name, frame[name], columns, optional, missing)
    return pd.DataFrame(values, pd.RangeIndex(len(frame)))


def _categories(
    place: Place, name: str, column: pd.Series, categories: tuple[str, ...], optional: bool, missing: str
) -> pd.Categorical:
    """Return a column of the type `category`, with missing values if they are allowed."""
    check_plain(place.path, name, column)
    absent = column.isna().to_numpy()
    codes = pd.Index(categories).get_indexer(pd.Index(column.astype(str)))
    codes[absent] = -1

    def what(row: int) -> str:
        return missing if absent[row] else f"value must be one of the categories, got {shown(column.iloc[row])}"

    _refuse(place, name, (codes < 0) & ~(absent & optional), what)
    return pd.Categorical.from_codes(codes, list(categories))


def _numbers(
    place: Place,
    name: str,
    column: pd.Series,
    columns: Columns,
    optional: bool = False,
    missing: str = "value is missing",
) -> np.ndarray:
    """Return float64[n], with NaN for missing values if they are allowed; otherwise `missing` is the error's text."""
    check_plain(place.path, name, column)
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    absent = column.isna().to_numpy()
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32))
    feature = columns.role(name).feature

    def what(row: int) -> str:
        if absent[row]:
            return missing
        value = shown(column.iloc[row])
        if not np.isnan(values[row]):
            return f"value must be a finite number of float32, got {value}"
        where = columns.source or f"a schema file ({make_schema(place.path)})"
        return f"value must be a number, got {value}" + (f"; declare it categorical in {where}" * feature)

    _refuse(place, name, ~finite & ~(absent & optional), what)
    return values


def check_no_ids(path: Path, features: pd.DataFrame) -> None:
    """Raise DataError if a feature that no schema file declares has an id's name and values.

    Warns if one numbers the rows.
    """
    n = len(features)
    if n < _ROWS_THAT_COUNT:
        return
    for name in features.select_dtypes("number"):
        values = features[name].to_numpy()
        if (values != np.floor(values)).any():
            continue
        if LIKE_AN_ID.search(str(name)) and len(np.unique(values)) == n:
            raise DataError(
                f"{path}: column {name!r} has a different whole number in each row, like an id: name it {ID!r}, or "
                f"declare its type in a schema file ({make_schema(path)})"
            )
        if (np.diff(values) == 1).all():
            log.warning("%s: column %r numbers the rows and is used as a feature", path, name)


def ids_of(place: Place, frame: pd.DataFrame, columns: Columns) -> pd.Series | None:
    """Return the ids of rows as text, if there are any. Raises DataError."""
    name = columns.named("id")
    return None if name is None or name not in frame else _texts(place, frame, name)


def _joined_keys(place: Place, frame: pd.DataFrame, keys: tuple[str, ...]) -> pd.Series:
    """Return one column as it is, or a JSON list of several: no two lists of texts have the same text."""
    if lacking := [name for name in keys if name not in frame]:
        raise DataError(f"{place} has no {listed(lacking)}, which align_on names; its columns are {', '.join(frame)}")
    texts = [_texts(place, frame, name) for name in keys]
    if len(keys) == 1:
        return texts[0]
    joined = [json.dumps(cells, ensure_ascii=False) for cells in zip(*texts, strict=True)]
    return pd.Series(joined, frame.index, dtype=object, name=", ".join(keys))


def _texts(place: Place, frame: pd.DataFrame, name: str) -> pd.Series:
    check_plain(place.path, name, frame[name])
    if frame[name].dtype.kind == "f":
        raise DataError(f"{place}: column {name!r}: ids must be text or whole numbers, got fractions or gaps")
    _refuse(place, name, frame[name].isna() | (frame[name] == ""), lambda row: "the id is missing")
    return frame[name].astype(str)


def _refuse(place: Place, name: str, bad: np.ndarray | pd.Series, what: Callable[[int], str]) -> None:
    """Raise DataError that names the first `bad` row and states what is wrong with it."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{place.cell(name, row)}: {what(row)}")


def _place(where: Path | Place) -> Place:
    return where if isinstance(where, Place) else Place(where)
