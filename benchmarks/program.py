"""What all programs of this package have: a smallest size for the tests, and tables between marks of a page."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# For Python children that run a program of this folder.
CHILD = os.environ | {"PYTHONPATH": str(ROOT)}
DOCS = ROOT / "docs"


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None, **smallest: Any) -> argparse.Namespace:
    """Parse the arguments, by default those of the process. With `--smallest`, defaults are those of `smallest`."""
    parser.add_argument("--smallest", action="store_true", help="run once, at the smallest size, as the tests do")
    options = parser.parse_args(arguments)
    if options.smallest:
        parser.set_defaults(**smallest)
        options = parser.parse_args(arguments)
    return options


def between(page: Path, name: str) -> tuple[str, str, str]:
    """Return what a page has before, between and after the marks of `name`. Raises ValueError if it has none."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.read_text().partition(first)
    text, ended, after = rest.partition(last)
    if not found or not ended:
        raise ValueError(f"{page} must have the lines {first.strip()} and {last}")
    return before + first, text.strip(), last + after


def table(first: str, figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return a table in Markdown with a row for each measurement, headed `first`, and a column for each figure."""
    columns = list(next(iter(figures.values())))
    lines = [f"| {first} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name, of in figures.items():
        cells = [f"{of[c]:,.0f}" if of[c] >= 100 or c == "rounds" else f"{of[c]:.1f}" for c in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def costs(names: Sequence[str], *parties: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the cost of some stages of both parties: rounds, MB between them, MB dealt to both, and seconds."""
    one, _ = both = [[stages[name] for name in names] for stages in parties]
    return {
        "rounds": sum(stage["rounds"] for stage in one),
        "MB": sum(stage["bytes_sent"] + stage["bytes_received"] for stage in one) / 1e6,
        "MB dealt": sum(stage["bytes_dealt"] for stages in both for stage in stages) / 1e6,
        "s": max(sum(stage["seconds"] for stage in stages) for stages in both),
    }


def write_between(page: Path, name: str, text: str, to: Path | None = None) -> None:
    """Replace what a page has between the marks of `name`; write the page to `to`, by default in its place."""
    before, _, after = between(page, name)
    place = to or page
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{before}\n{text.strip()}\n\n{after}")
