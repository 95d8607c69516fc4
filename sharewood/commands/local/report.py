"""Compare runs by their reports: differences of configuration, quality and cost.

Example: sharewood report march.json april.json --page comparison.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mpc.errors import DataError
from mpc.host.files import write_bytes
from secure_tree.model.storage import read_json
from sharewood.job.apart import check_apart
from sharewood.logs import in_json, say_document
from sharewood.page.units import number, seconds, size
from sharewood.report.figures import MEASURES

_WHAT = "report of Sharewood in JSON"
_COSTS = ("setup", "offline", "online", "predict_offline", "predict")
# The keys of a report that a comparison shows, by heading; `config` shows only differences.
_HEADINGS = {
    "run": "Run",
    "data": "Data",
    "config": "Configuration, where it differs",
    "quality": "Quality",
    **dict.fromkeys(_COSTS, "Cost"),
    "memory_peak_bytes": "Memory",
}
# How much of a digest is shown: the key's and 16 digits.
_DIGEST = 25
Figures = dict[str, str]


def report(
    reports: Annotated[list[Path], typer.Argument(help="Reports in JSON, written by --json.")],
    page: Annotated[Path | None, typer.Option(help="Also write the comparison as a page to this file.")] = None,
) -> None:
    check_apart({"--page": page}, {f"report {number}": path for number, path in enumerate(reports, 1)})
    sections = compared([_read(path) for path in reports])
    names = _short_names(reports)
    if in_json():
        say_document({"names": names, "sections": sections})
    console = Console(quiet=in_json())
    for title, rows in sections.items():
        table = Table("", *names, title=title, title_justify="left")
        for name, values in rows.items():
            table.add_row(name, *values)
        console.print(table)
    if page:
        from sharewood.page import comparison_page

        write_bytes(page, comparison_page(names, sections).encode())
        console.print(f"wrote {page}", soft_wrap=True)


def compared(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Map heading -> name of a figure -> its value in each report, "" if a report has none."""
    sections: dict[str, dict[str, list[str]]] = {}
    for key, heading in _HEADINGS.items():
        figures = [_figures(key, report) for report in reports]
        for name in dict.fromkeys(name for each in figures for name in each):
            values = [each.get(name, "") for each in figures]
            if key != "config" or len(set(values)) > 1:
                sections.setdefault(heading, {})[name] = values
    return sections


def _read(path: Path) -> dict[str, Any]:
    report = read_json(path, _WHAT)
    if not isinstance(report, dict) or not isinstance(report.get("run"), dict) or "config" not in report:
        raise DataError(f"{path}: must be a {_WHAT}, as --json of demo, train or predict writes it")
    return report


def _figures(key: str, report: Mapping[str, Any]) -> Figures:
    """Format the figures of one part of a report."""
    part = report.get(key)
    if key == "quality":
        return _quality(report, part)
    if not isinstance(part, dict):
        return {}
    if key in _COSTS:
        return _costs(key.replace("_", " "), part)
    if key == "memory_peak_bytes":
        return {f"peak of {name}": size(value) for name, value in part.items()}
    flat = {name.replace("_", " ") if key != "config" else name: text for name, text in _flat(part)}
    return {name: _begun(text) if name.startswith("digests: ") else text for name, text in flat.items()}


def _begun(digest: str) -> str:
    """The beginning of a digest, which is enough to tell two from each other."""
    return digest if len(digest) <= _DIGEST else digest[:_DIGEST] + "..."


def _flat(part: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Flatten names and values; those of nested objects have the object's name as a prefix."""
    found = []
    for name, value in part.items():
        if isinstance(value, dict):
            found += _flat(value, f"{before}{name}: ")
        else:
            found.append((before + name, _shown(value)))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _quality(report: Mapping[str, Any], measures: Any) -> Figures:
    """Return the metrics, and for a training the last one on held-out rows."""
    found = {}
    for name, figure in _flat(measures) if isinstance(measures, dict) else ():
        *outer, measure = name.split(": ")
        found[": ".join([*outer, MEASURES.get(measure, measure)])] = figure
    trees = report.get("rounds_of_trees")
    if isinstance(trees, dict):
        metric = MEASURES.get(str(report.get("metric")), str(report.get("metric")))
        found["rounds of trees kept"] = str(trees["kept"])
        if trees.get("metric") is not None:
            found[f"{metric} on held-out rows"] = f"{trees['metric']:.4f}"
    return found


def _costs(stage: str, part: Mapping[str, Any]) -> Figures:
    units = {"seconds": seconds, "rounds": lambda value: f"{value:,.0f}", "bytes": size, "bytes_dealt": size}
    found = {f"{stage}: {key.replace('_', ' ')}": show(part[key]) for key, show in units.items() if part.get(key)}
    if part.get("seconds_per_tree"):
        found[f"{stage}: ms per round of trees"] = number(1e3 * part["seconds_per_tree"])
    return found


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Return the files' names, or their paths if names coincide."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
