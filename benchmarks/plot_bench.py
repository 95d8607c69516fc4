"""Draw the figures of one run of `make bench`: operations beside CrypTen, and the stages of a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.figures import STYLES, legend, line, mark_sizes, save, small_multiples

Benchmarks = list[dict[str, Any]]
X_LABELS = {"argmax of rows of 32": "values", "matrix product": "rows of either matrix"}


def values(benchmarks: Benchmarks, suite: str) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return the measurements at each size, by name and system."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for b in benchmarks:
        info = b["extra_info"]
        if info.get("suite") == suite:
            point = {"n": info["size"], "seconds": b["stats"]["median"], **info}
            found.setdefault(info["name"], {}).setdefault(info["system"], []).append(point)
    return found


def draw(benchmarks: Benchmarks, suite: str, path: Path, x_label: str = "n") -> None:
    """Draw two rows of panels with a column per name: seconds and megabytes against n.

    Solid lines are online; dashed lines are online and offline together, which coincide for CrypTen's inline provider.
    """
    found = values(benchmarks, suite)
    if not found:
        return
    figure, axes = small_multiples(2, len(found), sharex="col", sharey="row")
    for column, (name, systems) in enumerate(found.items()):
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel(X_LABELS.get(name, x_label))
        for system, points in systems.items():
            online = [(p["n"], p["seconds"]) for p in points]
            both = [(p["n"], p["seconds"] + p["offline_seconds"]) for p in points if "offline_seconds" in p]
            line(axes[0, column], online, system)
            line(axes[0, column], both, system, dashed=True)
            line(axes[1, column], [(p["n"], p["online_bytes"] / 1e6) for p in points], system)
            dealt = [(p["n"], (p["online_bytes"] + p["offline_bytes"]) / 1e6) for p in points if p["offline_bytes"]]
            line(axes[1, column], dealt, system, dashed=True)
        mark_sizes(axes[1, column], [int(p["n"]) for points in systems.values() for p in points])
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("MB, both directions")
    shown = [s for s in STYLES if any(s in systems for systems in found.values())]
    legend(figure, shown, "online", "online and offline")
    save(figure, path)


def draw_all(benchmarks: Benchmarks, out: Path) -> None:
    draw(benchmarks, "operation", out / "operations")
    draw(benchmarks, "tree", out / "tree_stages", "rows")
