"""The style of the benchmarks' figures: small multiples on logarithmic axes, one colour and mark per system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullLocator

# Okabe and Ito's palette, which colour-blind readers can distinguish.
# Coinciding lines remain visible, because the one drawn first is wider.
STYLES: dict[str, dict[str, Any]] = {
    "sharewood": {"color": "#0072B2", "marker": "o", "linewidth": 2.0, "markersize": 5.0},
    "sharewood, joint edges": {"color": "#009E73", "marker": "s", "linewidth": 1.0, "markersize": 2.8},
    "sharewood, no TLS": {"color": "#56B4E9", "marker": "D", "linewidth": 1.0, "markersize": 2.6},
    "CrypTen": {"color": "#D55E00", "marker": "^", "linewidth": 1.2, "markersize": 3.8},
    "CrypTen, third party": {"color": "#E69F00", "marker": "v", "linewidth": 1.0, "markersize": 3.0},
}
LABELS = {system: system.replace("sharewood", "Sharewood") for system in STYLES}
LOOK = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,
}


def small_multiples(rows: int, columns: int, **more: Any) -> tuple[Any, Any]:
    """Return a figure of rows x columns panels, and its array of axes, which is always two-dimensional."""
    plt.rcParams.update(LOOK)  # type: ignore[arg-type]  # the stub lists every key
    size = 1.5 * columns + 0.4, 1.6 * rows + 0.5
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **more)


def line(axis: Any, points: Sequence[tuple[float, float]], system: str, dashed: bool = False) -> None:
    """Draw a measured line on logarithmic axes, without values of 0."""
    shown = sorted(point for point in points if point[1] > 0)
    how = {"linestyle": "--", "markerfacecolor": "white"} if dashed else {"linestyle": "-"}
    axis.set(xscale="log", yscale="log")
    if shown:
        axis.plot(*zip(*shown, strict=True), **STYLES[system], **how)


def mark_sizes(axis: Any, sizes: Sequence[int]) -> None:
    """Set ticks of the horizontal axis at the measured sizes, or at every other size if there are many."""
    measured = sorted(set(sizes))
    axis.set_xticks(measured if len(measured) <= 5 else measured[::-2])
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.xaxis.set_minor_locator(NullLocator())


def legend(figure: Any, systems: Sequence[str], solid: str, dashed: str) -> None:
    """Add one legend above all panels: the systems, and then the meaning of solid and dashed lines."""
    handles = [Line2D([], [], **STYLES[s], label=LABELS[s]) for s in systems]
    for style, meaning in (("-", solid), ("--", dashed)):
        handles.append(Line2D([], [], color="#444444", linestyle=style, label=meaning))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def save(figure: Any, path: Path) -> None:
    """Save path.png for the screen and path.pdf for print."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=200)
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
    plt.close(figure)
