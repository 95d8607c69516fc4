"""Propose a schema file for tables: a type per column, categories, missing values, and what to look at.

The proposal is TOML that `Columns.read` accepts. A column that cannot be a feature as it is (dates, free text, a second
id) is proposed as ignored; a comment says why. The tables are those of one party, such as rows to train on and rows to
predict, and one schema fits all of them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpc.errors import DataError
from mpc.host.files import shown_path
from mpc.host.frames import pd
from secure_tree.agreement.messages import is_printable
from sharewood.tables.columns import ID, ColumnRole
from sharewood.tables.describing import MOST_CATEGORIES
from sharewood.tables.files import MISSING, read_cells, shown, unusual_kind
from sharewood.tables.tables import LIKE_AN_ID

log = logging.getLogger("sharewood")

# Names of the label that commands assume by default.
_LABELS = "label", "y"
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
# The fraction of numbers in a column from which its texts are considered mistakes.
_MOSTLY = 0.5
_HUGE, _FAR = 1e9, 1e3
# A column with so few different whole numbers may hold codes.
_FEW_CODES = 12
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Proposal:
    """The type of one column, and remarks for the person who checks it."""

    name: str
    type: ColumnRole
    categories: tuple[str, ...] = ()
    missing: bool = False
    remarks: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the line of the schema file, after a comment for each remark."""
        parts = [f"type = {_quoted(self.type)}"]
        if self.missing:
            parts.append("missing = true")
        if self.categories:
            parts.append(f"categories = [{', '.join(map(_quoted, self.categories))}]")
        value = _quoted(self.type) if len(parts) == 1 else f"{{ {', '.join(parts)} }}"
        key = self.name if _BARE.fullmatch(self.name) else _quoted(self.name)
        return "\n".join([*(f"# {_quoted(self.name)}: {remark}" for remark in self.remarks), f"{key} = {value}"])


def propose(paths: Sequence[Path], label: str | None = None, weight: str | None = None) -> list[Proposal]:
    """Propose a type for each column of the tables, in their order. Raises DataError."""
    tables = [read_cells(path, None) for path in paths]
    names = list(dict.fromkeys(name for table in tables for name in table))
    for role, name in (("label", label), ("weight", weight)):
        if name is not None and name not in names:
            raise DataError(f"--{role}: no table has a column {name!r}; the columns are {', '.join(names)}")
    if label is None:
        label = next((name for name in _LABELS if name in names), None)
    id_column = _id_of(tables, [name for name in names if name not in (label, weight)])
    found = []
    for name in names:
        parts = [table[name] for table in tables if name in table]
        if name in (label, weight):
            found.append(_role(name, "label" if name == label else "weight", parts))
        elif name == id_column:
            found.append(Proposal(name, "id"))
        elif len(parts) < len(tables):
            lacks = ", ".join(shown_path(path) for path, table in zip(paths, tables, strict=True) if name not in table)
            found.append(Proposal(name, "ignore", remarks=(f"not a column of {lacks}",)))
        else:
            found.append(_feature(name, parts))
    return _apart(found)


def document(paths: Sequence[Path], proposals: Sequence[Proposal]) -> str:
    """Return the proposal as a schema file."""
    head = [f"# Proposed by sharewood schema for {', '.join(shown_path(path) for path in paths)}. Check each line."]
    if not any(each.type == "label" for each in proposals):
        head.append("# No column is the label: by rows, and at the party with the labels by columns, name one.")
    return "\n".join([*head, "", *(each.line() for each in proposals)]) + "\n"


def _role(name: str, role: ColumnRole, parts: Sequence[pd.Series]) -> Proposal:
    values = _Values.of(parts)
    remarks = []
    if values.texts:
        remarks.append(f"must be numbers, got texts such as {shown(values.texts[0])}: classes are 0, 1, ...")
    if values.missing:
        remarks.append("must not be missing, and is in some rows")
    return Proposal(name, role, remarks=tuple(remarks))


def _id_of(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> str | None:
    """Return the column that identifies rows: `id`, or one that is named like an id and differs in every row."""
    for name in [ID, *(name for name in names if LIKE_AN_ID.search(name))]:
        parts = [table[name] for table in tables if name in table]
        if len(parts) == len(tables) and all(map(_identifies, parts)):
            return name
    return None


def _identifies(column: pd.Series) -> bool:
    """Return whether values are text or whole numbers, and differ in every row."""
    if unusual_kind(column) or column.isna().any() or not column.is_unique:
        return False
    numbers = pd.to_numeric(column, errors="coerce").dropna().to_numpy(np.float64)
    return bool(column.dtype.kind not in "fb" and (numbers == np.floor(numbers)).all())


def _feature(name: str, parts: Sequence[pd.Series]) -> Proposal:
    if kind := next(filter(None, map(unusual_kind, parts)), None):
        return Proposal(name, "ignore", remarks=(f"values of type {kind} are not supported: derive numbers from them",))
    values = _Values.of(parts)
    if not values.count:
        return Proposal(name, "ignore", remarks=("has no values",))
    if values.texts:
        return (_mixed if values.numbers.size >= _MOSTLY * values.count else _text)(name, values)
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(values.numbers.astype(np.float32)).all())
    if not finite:
        return Proposal(name, "ignore", remarks=("has infinite values, or values too large for float32: replace them",))
    return Proposal(name, "numeric", missing=values.missing, remarks=tuple(_remarks(name, values)))


def _remarks(name: str, values: _Values) -> list[str]:
    numbers, remarks = values.numbers, []
    different = np.unique(numbers)
    if len(different) == 1 < len(numbers):
        remarks.append(f"constant, {different[0]:g} wherever it has a value: ignore it, unless it varies elsewhere")
    size = np.abs(numbers)
    if (largest := float(size.max())) >= _HUGE or largest > _FAR * max(float(np.quantile(size, 0.99)), 1.0):
        remarks.append(f"has values as far as {numbers[int(size.argmax())]:g}: do they stand for missing ones?")
    whole = bool((numbers == np.floor(numbers)).all())
    if whole and LIKE_AN_ID.search(name) and len(different) == len(numbers) > 1:
        remarks.append("has a different whole number in each row, like an id: ignore it unless it tells something")
    elif whole and 2 < len(different) <= min(_FEW_CODES, len(numbers) / 3):
        remarks.append(f"has {len(different)} different whole numbers: make it categorical if they are codes")
    return remarks


def _text(name: str, values: _Values) -> Proposal:
    texts = values.all_texts
    if all(_DATE.match(text.strip()) for text in texts):
        return Proposal(name, "ignore", remarks=(f"dates, such as {shown(texts[0])}: derive numbers, such as days",))
    if len(texts) > MOST_CATEGORIES:
        kind = "an id" if len(texts) == values.rows else "free text"
        remark = f"{len(texts)} different texts, like {kind}: group them to use them as categories"
        return Proposal(name, "ignore", remarks=(remark,))
    if not all(map(is_printable, texts)):
        return Proposal(name, "ignore", remarks=("has texts with control characters: replace them",))
    if "=" in name:
        return Proposal(name, "ignore", remarks=("the name of a categorical column must not contain '=': rename it",))
    remarks = (f"constant, {shown(texts[0])} wherever it has a value",) if len(texts) == 1 else ()
    return Proposal(name, "categorical", tuple(texts), values.empty, remarks)


def _mixed(name: str, values: _Values) -> Proposal:
    remark = f"numbers, and texts such as {shown(values.texts[0])}: replace these, by empty cells if they mean missing"
    if len(values.all_texts) > MOST_CATEGORIES:
        return Proposal(name, "ignore", remarks=(remark,))
    proposal = _text(name, values)
    return Proposal(name, proposal.type, proposal.categories, proposal.missing, (*proposal.remarks, remark))


def _apart(found: list[Proposal]) -> list[Proposal]:
    """Ignore columns that have the name of an indicator of a categorical column."""
    known = [each.name for each in found if each.type == "categorical"]
    remark = "has the name of a category's indicator: rename it"
    return [
        Proposal(each.name, "ignore", remarks=(remark,))
        if each.type in ("numeric", "categorical") and any(each.name.startswith(f"{name}=") for name in known)
        else each
        for each in found
    ]


@dataclass(frozen=True)
class _Values:
    """The values of a column in all tables: numbers, the different texts that are none, and whether some are missing.

    all_texts: every different value as text. empty: whether cells are empty, which is all that is missing in texts.
    """

    rows: int
    count: int
    numbers: np.ndarray
    texts: list[str]
    all_texts: list[str]
    missing: bool
    empty: bool

    @classmethod
    def of(cls, parts: Sequence[pd.Series]) -> _Values:
        column = pd.concat(list(parts), ignore_index=True)
        present = column.dropna()
        texts = present.astype(str)
        if present.dtype.kind == "O":
            words = texts.str.strip()
            logical = words.str.lower()
            # As pandas reads a column of them.
            if len(present) and logical.isin(["true", "false"]).all() and words.isin(_LOGICAL).all():
                present = logical.map({"true": 1.0, "false": 0.0})
        named = present.isin(MISSING) if present.dtype.kind == "O" else pd.Series(False, present.index)
        numbers = pd.to_numeric(present, errors="coerce")
        strange = texts[(numbers.isna() & ~named).to_numpy()]
        values = numbers.dropna().to_numpy(np.float64, na_value=np.nan)
        different = sorted(map(str, pd.unique(texts)))
        count = int((~named).sum())
        return cls(
            len(column),
            count,
            values,
            sorted(map(str, pd.unique(strange))),
            different,
            bool(column.isna().any() or named.any()),
            bool(column.isna().any()),
        )


_LOGICAL = "True", "TRUE", "true", "False", "FALSE", "false"


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, except that TOML also escapes DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
