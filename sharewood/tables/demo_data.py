"""The data of the demo: a built-in set, a synthetic table, or two files; and the rows to evaluate the model on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.frames import pd
from protocols.runtime.local import PARTIES
from secure_tree.data.categories import dictionary, unite
from secure_tree.data.table import read_features
from secure_tree.public.config import Method, Partition, TrainConfig
from secure_tree.public.exact import choose
from secure_tree.public.objectives import TRAITS
from sharewood.tables.columns import Columns
from sharewood.tables.datasets import breast_cancer, check_same_columns, hold_out
from sharewood.tables.describing import describe
from sharewood.tables.tables import TableRows, check_classes, check_range, read_table

DemoTable: TypeAlias = "tuple[pd.DataFrame, np.ndarray | None]"
CURVE_ROWS = 5_000
_CURVE_SEED = 11


@dataclass(frozen=True)
class DemoData:
    """Both parties' tables to train on and to evaluate on, and how the latter are predicted.

    Divided by columns, the first party has the labels and the second None. Only the features `missing` may have missing
    values. owners: tables to train on of further owners, who are no party.
    """

    train: tuple[DemoTable, DemoTable]
    test: tuple[DemoTable, DemoTable]
    method: Method
    title: str
    partition: Partition = "horizontal"
    missing: tuple[str, ...] = ()
    owners: dict[str, DemoTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (features, _) in (*zip(PARTIES, self.train, strict=True), *self.owners.items()):
            if not len(features):
                raise DataError(f"{self.title}: no rows are left for {name} to train on")

    @property
    def trained(self) -> tuple[DemoTable, ...]:
        """The tables to train on, of both parties and of further owners."""
        return *self.train, *self.owners.values()

    def pooled(self, tables: Sequence[DemoTable]) -> tuple[np.ndarray, np.ndarray]:
        """Return tables as one: features and labels."""
        config, known = TrainConfig.of(missing="all", partition=self.partition), [dictionary(x) for x, _ in tables]
        if self.partition == "horizontal":
            known = [reduce(unite, known)] * len(known)
        parts = [read_features(x, config, known=own)[0] for (x, _), own in zip(tables, known, strict=True)]
        features = np.concatenate(parts, axis=int(self.partition == "vertical"))
        return features, np.concatenate([y for _, y in tables if y is not None])

    def few(self) -> dict[str, tuple[DemoTable, DemoTable]]:
        """Return the rows of the learning curve: CURVE_ROWS drawn from each party's, to train and to validate."""

        def some(table: DemoTable) -> DemoTable:
            rows = choose(min(CURVE_ROWS, len(table[0])), len(table[0]), "rows of the learning curve")
            return table[0].iloc[rows], None if table[1] is None else table[1][rows]

        named = {"training": self.train} | ({} if self.test is self.train else {"held_out": self.test})
        return {name: (some(a), some(b)) for name, (a, b) in named.items()}


def split(
    features: pd.DataFrame, labels: np.ndarray, test_size: float, title: str, partition: Partition, owners: int = 2
) -> DemoData:
    """Hold out `test_size`, give each party half of the rows or of the columns. More `owners` have rows to train on."""

    def halves(rows: np.ndarray) -> tuple[DemoTable, DemoTable]:
        if partition == "vertical":
            both, middle = _rows_of(features, rows), features.shape[1] // 2
            return (both.iloc[:, :middle], labels[rows]), (both.iloc[:, middle:], None)
        first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        return (_rows_of(features, first), labels[first]), (_rows_of(features, second), labels[second])

    training, validation = hold_out(len(labels), test_size)
    *others, training = np.split(training, [len(training) * k // owners for k in range(1, owners - 1)])
    train = halves(training)
    more = {f"owner_{k}": (_rows_of(features, rows), labels[rows]) for k, rows in enumerate(others, 3)}
    return DemoData(train, halves(validation) if len(validation) else train, "bins", title, partition, owners=more)


def _rows_of(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    return table.iloc[rows].reset_index(drop=True)


def built_in(test_size: float, partition: Partition, owners: int = 2) -> DemoData:
    """Return scikit-learn's breast cancer set."""
    features, labels, title = breast_cancer()
    return split(features, labels, test_size, title, partition, owners)


def synthetic(
    rows: int, features: int, objective: str, test_size: float, partition: Partition, owners: int = 2
) -> DemoData:
    """Make a table with informative and idle columns; labels are a smooth function of six of them, with noise."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    use = X[:, np.arange(6) % features]
    signal = use[:, 0] + use[:, 1] * use[:, 2] - np.abs(use[:, 3]) + np.sin(2 * use[:, 4]) + 0.5 * use[:, 5]
    noisy = signal + rng.logistic(scale=0.5, size=rows)
    counts = rng.poisson(np.exp(signal / 2)).astype(float)
    if (traits := TRAITS[objective]).classes:
        y = (noisy > 0).astype(float)
    elif traits.link == "log":
        y = counts if objective == "count:poisson" else rng.gamma(2 * counts + 2 * (not traits.closed))
    else:
        y = noisy if traits.link == "identity" else 1 / (1 + np.exp(-noisy))
    names = [f"f{i}" for i in range(features)]
    return split(pd.DataFrame(X, columns=names), y, test_size, f"synthetic, {rows} x {features}", partition, owners)


@dataclass(frozen=True)
class Files:
    """The user's files: one table per party, schema files (one for both, or one each), a table to evaluate on."""

    tables: tuple[Path, Path]
    label: str
    schemas: tuple[Path, ...] = ()
    test: Path | None = None

    @property
    def title(self) -> str:
        return " and ".join(path.name for path in self.tables)

    def columns(self, partition: Partition) -> list[Columns]:
        """Return the columns of each table. Without schema files, text is categorical, and empty cells are missing
        values.

        Raises ConfigError, DataError.
        """
        if self.schemas:
            if len(self.schemas) > 2 or (partition == "vertical" and len(self.schemas) == 1):
                raise ConfigError("--schema must be given once for each party, or, by rows, once for both")
            return [Columns.read(self.schemas[place]) for place in (0, -1)]
        labelled = Columns.inferred(self.label)
        if partition == "vertical":
            return [describe([self.tables[0]], labelled), describe([self.tables[1]], Columns.inferred())]
        return [describe([*self.tables, *([self.test] if self.test else [])], labelled)] * 2


def from_files(files: Files, test_size: float, config: TrainConfig) -> DemoData:
    """Divide by rows, with a third file to evaluate on, or `test_size` of each party's rows."""
    every = [*zip(files.tables, files.columns("horizontal"), strict=True)]
    if files.test:
        every.append((files.test, every[0][1]))
    read = [_labelled(path, columns, config) for path, columns in every]
    missing = tuple(sorted({name for rows in read for name in rows.missing}))
    tables = [(rows.features, np.asarray(rows.labels)) for rows in read]
    for path, (features, _) in zip((path for path, _ in every), tables, strict=True):
        check_same_columns((files.tables[0], tables[0][0]), (path, features))
    if files.test:
        nobody = tables[2][0].iloc[:0], tables[2][1][:0]
        return DemoData((tables[0], tables[1]), (tables[2], nobody), "thresholds", files.title, missing=missing)
    (first, first_held), (second, second_held) = (_hold_out(table, test_size) for table in tables)
    train = first, second
    validation = (first_held, second_held) if len(first_held[0]) + len(second_held[0]) else train
    return DemoData(train, validation, "bins", files.title, missing=missing)


def from_columns(files: Files, test_size: float, config: TrainConfig) -> DemoData:
    """Divide by columns: the same rows in the same order, the label in the first file; `test_size` of them held out."""
    of_first, of_second = files.columns("vertical")
    rows, others = _labelled(files.tables[0], of_first, config), read_table(files.tables[1], of_second)
    if others.labels is not None:
        raise DataError(f"{files.tables[1]}: must have no label column: by columns only the first file has one")
    _check_same_rows(files.tables, rows, others)
    own, foreign, labels = rows.features, others.features, np.asarray(rows.labels)

    def part(rows: np.ndarray) -> tuple[DemoTable, DemoTable]:
        return (_rows_of(own, rows), labels[rows]), (_rows_of(foreign, rows), None)

    training, validation = hold_out(len(labels), test_size)
    train = part(training)
    missing = tuple(sorted({*rows.missing, *others.missing}))
    return DemoData(train, part(validation) if len(validation) else train, "bins", files.title, "vertical", missing)


def _hold_out(table: tuple[pd.DataFrame, np.ndarray], test_size: float) -> tuple[DemoTable, DemoTable]:
    """Return the rows of a table to train on, and those for validation."""
    features, labels = table
    training, validation = ((_rows_of(features, rows), labels[rows]) for rows in hold_out(len(labels), test_size))
    return training, validation


def _labelled(path: Path, columns: Columns, config: TrainConfig) -> TableRows:
    """Read a table with labels. Raises ConfigError if no column is the label, DataError."""
    if columns.named("label") is None:
        raise ConfigError(f"{columns.source} declares no column as the label")
    rows = read_table(path, columns)
    assert rows.labels is not None, "a label column was asked for"
    if config.logistic:
        check_classes(path, columns, rows.labels)
    check_range(path, columns, rows.labels, config.objective)
    return rows


def _check_same_rows(paths: Sequence[Path], first: TableRows, second: TableRows) -> None:
    """Raise DataError unless two tables by columns have the same number of rows and, if there are any, the same ids."""
    n, m = len(first.features), len(second.features)
    if n != m:
        raise DataError(f"{paths[1]}: by columns it must have the {n} rows of {paths[0]}, got {m}")
    if (first.ids is None) != (second.ids is None):
        has, lacks = paths if second.ids is None else paths[::-1]
        raise DataError(f"{has} has an id column, and {lacks} has none: by columns both must have one, or neither")
    if first.ids is not None and second.ids is not None and first.ids.tolist() != second.ids.tolist():
        raise DataError(f"{paths[1]}: its ids, or their order, differ from those of {paths[0]}")
