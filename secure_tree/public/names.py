"""Names of features: an indicator of a categorical column is named `column=category`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_IS = "="


def indicator(column: str, category: str) -> str:
    """Return the name of an indicator."""
    return f"{column}{_IS}{category}"


def is_indicator(name: str) -> bool:
    """Return whether the name is that of an indicator. No numeric column may have a = in its name."""
    return _IS in name


def covers(declared: str, name: str) -> bool:
    """Return whether the declared column is the feature itself, or the column of which the feature is an indicator."""
    return name == declared or name.startswith(declared + _IS)


def column_of(name: str) -> str:
    """Return the column behind a feature: of an indicator, its column, otherwise the feature itself."""
    return name.partition(_IS)[0]


def category_of(name: str) -> str:
    """Return the category that an indicator is of."""
    return name.partition(_IS)[2]


def columns_behind(names: Iterable[str], present: Sequence[str]) -> dict[str, list[str]]:
    """Features of a model -> the table's columns behind them, with their categories; [] for a numeric column."""
    columns: dict[str, list[str]] = {}
    for name in names:
        column, found, category = name.partition(_IS)
        if name in present or not found:
            columns[name] = []
        else:
            columns.setdefault(column, []).append(category)
    return columns
