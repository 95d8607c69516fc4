"""Charts as inline SVG in the colours of the page, light or dark: drawn by matplotlib, coloured by CSS variables.

Without matplotlib, which is an extra, a sentence stands in place of each chart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

from mpc.host.extras import install
from sharewood.page.units import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholder colours, which are replaced by variables of the page's style sheet.
_VARIABLES = {
    "#010101": "--ink",
    "#020202": "--muted",
    "#030303": "--rule",
    "#040404": "--ours",
    "#050505": "--theirs",
}
_INK, _MUTED, _RULE, _OURS, _THEIRS = _VARIABLES
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "xtick.color": _RULE,
    "xtick.labelcolor": _MUTED,
    "ytick.color": _RULE,
    "ytick.labelcolor": _MUTED,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
Whose = Literal["ours", "theirs", "chance"]
Axes = Literal["unit", "points", "values"]
_SIZE = (5.2, 3.5)
_TICKS = 8
# Characters of a name beside a chart.
_LABEL = 28


@dataclass(frozen=True)
class ChartLine:
    """One line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    whose: Whose = "ours"
    dashed: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing, and a caption for readers who cannot see it. whole: as wide as the page."""

    name: str
    svg: Markup
    caption: str
    whole: bool = False


def lines(name: str, caption: str, drawn: Sequence[ChartLine], x: str, y: str, axes: Axes = "points") -> Chart:
    """Draw lines over one pair of axes: both from 0 to 1, or x with ticks at the points, or as the values need."""

    def draw(figure: Figure) -> None:
        plot = figure.add_subplot()
        for line in drawn:
            colour = {"ours": _OURS, "theirs": _THEIRS, "chance": _MUTED}[line.whose]
            mark = "o" if len(line.x) == 1 or line.marked else None
            width = 1.0 if line.whose == "chance" else None
            style = "--" if line.dashed else "-"
            plot.plot(line.x, line.y, color=colour, linestyle=style, linewidth=width, marker=mark, label=line.name)
        plot.set(xlabel=x, ylabel=y)
        if axes == "unit":
            plot.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        elif axes == "points":
            points = sorted({x for line in drawn for x in line.x})
            plot.set_xticks([points[i] for i in some(len(points), _TICKS)])
        plot.legend(loc="best")

    return Chart(name, _svg(name, draw, _SIZE), caption)


def some(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` places, evenly spaced, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist()


def bars(name: str, caption: str, values: Mapping[str, float]) -> Chart:
    """Draw horizontal bars with their values beside them, the first at the top."""

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        shown = axes.barh(range(len(values)), list(values.values()), color=_OURS, height=0.62)
        axes.set_yticks(range(len(values)), list(map(_label, values)))
        axes.bar_label(shown, fmt=number, padding=3, color=_INK, fontsize=9)
        axes.set_xlim(1.15 * min(*values.values(), 0), 1.15 * max(*values.values(), 1e-12))
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.tick_params(axis="y", length=0, labelcolor=_INK)
        axes.invert_yaxis()

    return Chart(name, _svg(name, draw, (5.2, 0.5 + 0.36 * len(values))), caption)


def heat(name: str, caption: str, rows: Mapping[str, Sequence[float]], columns: Sequence[str]) -> Chart:
    """Draw numbers as cells, the first row at the top: of one colour above 0 and of another below; NaN is hatched.

    Rows may be shorter than `columns`, whose names are shown below them.
    """
    most = max((abs(v) for row in rows.values() for v in row if v == v), default=0) or 1.0
    upright = max(map(len, columns), default=0) > 3

    def draw(figure: Figure) -> None:
        from matplotlib.patches import Rectangle

        axes = figure.add_subplot()
        for place, row in enumerate(rows.values()):
            for column, value in enumerate(row):
                style: dict[str, Any] = {"facecolor": "none", "hatch": "////", "edgecolor": _RULE, "linewidth": 0}
                if value == value:
                    style = {"facecolor": _OURS if value > 0 else _THEIRS, "alpha": 0.08 + 0.5 * abs(value) / most}
                axes.add_patch(Rectangle((column, place), 0.94, 0.9, clip_on=False, **style))
                if value == value:
                    said = number(value, 2)
                    axes.text(column + 0.47, place + 0.5, said, ha="center", va="center", fontsize=7)
        axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
        axes.set_yticks(np.arange(len(rows)) + 0.45, list(map(_label, rows)))
        axes.set_xticks(np.arange(len(columns)) + 0.47, list(map(_label, columns)), rotation=90 if upright else 0)
        axes.grid(visible=False)
        axes.tick_params(length=0, labelcolor=_INK, labelsize=8)
        axes.spines[:].set_visible(False)

    size = max(7.0, 2.5 + 0.42 * len(columns)), (1.9 if upright else 0.6) + 0.3 * len(rows)
    return Chart(name, _svg(name, draw, size), caption, whole=True)


def boxes(name: str, caption: str, values: Mapping[str, Sequence[float]]) -> Chart:
    """Draw five ascending quantiles of each row, the first row at the top: a box between the second and the fourth.

    Each row has a scale of its own, between its first and last quantile, which stand beside it.
    """

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, five in enumerate(values.values()):
            low, high = five[0], five[-1]
            at = [(v - low) / (high - low) if high > low else 0.5 for v in five]
            axes.plot([at[0], at[-1]], [place, place], color=_MUTED, linewidth=1)
            axes.barh(place, at[3] - at[1], left=at[1], height=0.56, facecolor=_OURS, alpha=0.45)
            axes.plot([at[2], at[2]], [place - 0.28, place + 0.28], color=_INK)
            axes.text(-0.03, place, number(low), ha="right", va="center", fontsize=8)
            axes.text(1.03, place, number(high), ha="left", va="center", fontsize=8)
        axes.set(xlim=(-0.3, 1.3), ylim=(len(values) - 0.5, -0.5))
        axes.set_yticks(range(len(values)), list(map(_label, values)))
        axes.set_xticks([])
        axes.grid(visible=False)
        axes.tick_params(axis="y", length=0, labelcolor=_INK)
        axes.spines[:].set_visible(False)

    return Chart(name, _svg(name, draw, (5.2, 0.4 + 0.3 * len(values))), caption)


def spans(
    name: str, caption: str, rows: Mapping[str, Sequence[tuple[str, float, float]]], phases: Mapping[str, str]
) -> Chart:
    """Draw the phases of each row's work, (phase, begin, end), from left to right in seconds.

    The first row is at the top; `phases` are the names of phases in the legend.
    """
    colours = dict(zip(phases, (_MUTED, _THEIRS, _OURS, _INK), strict=False))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, drawn in enumerate(rows.values()):
            for phase, colour in colours.items():
                parts = [(begin, end - begin) for which, begin, end in drawn if which == phase]
                axes.broken_barh(
                    parts, (place - 0.31, 0.62), facecolor=colour, label=phases[phase] if not place else None
                )
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set_xlabel("seconds")
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0, labelcolor=_INK)
        axes.invert_yaxis()
        figure.legend(loc="outside upper center", ncols=len(colours))

    return Chart(name, _svg(name, draw, (7.0, 1.0 + 0.32 * len(rows))), caption)


def _label(text: str) -> str:
    """Shorten a name from a table in the middle; dollars in it begin no formula."""
    half = _LABEL // 2
    short = text if len(text) <= _LABEL else f"{text[: half - 1]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"
    return short.replace("$", r"\$")


def _svg(name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> Markup:
    if find_spec("matplotlib") is None:
        return Markup("<p>Not drawn, for lack of matplotlib: <code>{}</code></p>").format(install("report"))
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    text = io.StringIO()
    with rc_context(_STYLE):  # type: ignore[arg-type]  # its names are literals there
        figure = Figure(figsize=size, layout="constrained")
        figure.patch.set_visible(False)
        draw(figure)
        for axes in figure.axes:
            axes.patch.set_visible(False)
        nothing: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=nothing)
    return Markup(_inline(text.getvalue(), name))


def _inline(document: str, name: str) -> str:
    """Turn an SVG file into an element of an HTML page, without namespaces or styles; ids begin with `name`."""
    root = ElementTree.fromstring(document)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(key.split("}")[-1], _coloured(_own_ids(key, value, name)))
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in ("metadata", "style")]:
            parent.remove(child)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-caption")
    return ElementTree.tostring(root, encoding="unicode")


def _own_ids(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    return re.sub(r"#(?=[A-Za-z]\w*\))|^#(?=[A-Za-z])", f"#{name}-", value)


def _coloured(value: str) -> str:
    for colour, variable in _VARIABLES.items():
        value = value.replace(colour, f"var({variable})")
    # The page chooses the typeface; sizes remain.
    return re.sub(r"font: ([\d.]+)px [^;]*", r"font-size: \1px", value)
