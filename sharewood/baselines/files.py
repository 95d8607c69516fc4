"""The files of `sharewood fed`: numeric features, a label if one is requested, and ids in a column `id`."""

from __future__ import annotations

from pathlib import Path

from mpc.errors import DataError
from sharewood.tables.columns import Columns
from sharewood.tables.tables import TableRows, check_classes, check_range, read_table


def read_file(path: Path, label: str | None, objective: str, only_labels: bool = False) -> TableRows:
    """Read one party's file, in which features may be missing.

    Raises DataError if a label does not suit the objective, or if there is no feature and `only_labels` is false.
    """
    columns = Columns.inferred(label)
    rows = read_table(path, columns, lambda _: True)
    if rows.labels is not None and objective == "count:poisson":
        check_range(path, columns, rows.labels, objective)
    if rows.labels is not None and objective == "binary:logistic":
        check_classes(path, columns, rows.labels)
    if not rows.features.shape[1] and not only_labels:
        raise DataError(f"{path}: there is no column besides {'the label and ' if label else ''}the id")
    return rows
