"""Write the page and the figure of the scaling study from its JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.complexity import table
from benchmarks.figures import legend, line, mark_sizes, save, small_multiples

# By factor: the label of its axis, and the value there; for depth, the number of leaves.
FACTORS: dict[str, tuple[str, Callable[[int], int]]] = {
    "rows": ("rows n", lambda value: value),
    "features": ("features d", lambda value: value),
    "bins": ("bins K", lambda value: value),
    "depth": ("leaves 2^depth", lambda value: 2**value),
}
MEASURES: dict[str, Callable[[dict[str, Any], float], float]] = {
    "online s": lambda p, idle: p["online_seconds"],
    "offline s": lambda p, idle: p["offline_seconds"],
    "set-up s": lambda p, idle: p["setup_seconds"],
    "online MB": lambda p, idle: p["online_bytes"] / 1e6,
    "dealt MB": lambda p, idle: p["dealt_bytes"] / 1e6,
    "party's memory, MB": lambda p, idle: (p["party_memory"] - idle) / 1e6,
    "dealer's memory, MB": lambda p, idle: (p["dealer_memory"] - idle) / 1e6,
}
Curve = list[tuple[float, float]]


def curve(study: dict[str, Any], factor: str, measure: str) -> Curve:
    """Return the (size, value) pairs of one measure along one factor."""
    size, value = FACTORS[factor][1], MEASURES[measure]
    return [(size(p[factor]), value(p, study["idle_memory"])) for p in study["axes"][factor]]


def fit(points: Curve) -> tuple[float, float, float] | None:
    """Fit value = c size^e by least squares of logarithms: e, R^2, and e between the two largest sizes only."""
    if min(value for _, value in points) <= 0:
        return None
    x, y = np.log(np.array(points)).T
    exponent, constant = np.polyfit(x, y, 1)
    spread = ((y - y.mean()) ** 2).sum()
    explained = 1 - ((y - exponent * x - constant) ** 2).sum() / spread if spread else 1.0
    return float(exponent), float(explained), float((y[-1] - y[-2]) / (x[-1] - x[-2]))


def draw(study: dict[str, Any], path: Path) -> None:
    """Draw time, bytes and memory (rows of panels) against every factor (columns)."""
    panels = (
        ("seconds per tree", "online s", "offline s"),
        ("MB per tree", "online MB", "dealt MB"),
        ("peak memory, MB", "party's memory, MB", "dealer's memory, MB"),
    )
    figure, axes = small_multiples(len(panels), len(FACTORS), sharex="col", sharey="row")
    for column, (factor, (label, _)) in enumerate(FACTORS.items()):
        for row, (_, solid, dashed) in enumerate(panels):
            line(axes[row, column], curve(study, factor, solid), "sharewood")
            line(axes[row, column], curve(study, factor, dashed), "sharewood", dashed=True)
        mark_sizes(axes[-1, column], [int(x) for x, _ in curve(study, factor, "online s")])
        axes[-1, column].set_xlabel(label)
    for row, (label, _, _) in enumerate(panels):
        axes[row, 0].set_ylabel(label)
    legend(figure, ["sharewood"], "online; party", "offline; dealer")
    save(figure, path)


def _fits(study: dict[str, Any]) -> str:
    rows = []
    for measure in MEASURES:
        fits = [fit(curve(study, factor, measure)) for factor in FACTORS]
        cells = ["-" if f is None else f"{f[0]:.2f} ({f[1]:.3f}), {f[2]:.2f}" for f in fits]
        rows.append([measure, *cells])
    return table(["", *(label for label, _ in FACTORS.values())], rows, words_first=1)


def _figures(study: dict[str, Any], factor: str) -> str:
    rows = []
    for p in study["axes"][factor]:
        values = [(m, of(p, study["idle_memory"])) for m, of in MEASURES.items()]
        rows.append([f"{p[factor]:,}", *(f"{v:,.3f}" if m.endswith(" s") else f"{v:,.1f}" for m, v in values)])
    return table([factor, *MEASURES], rows)


def page(study: dict[str, Any], large: str) -> str:
    """Return the page; `large` is the table that `python -m benchmarks.large` writes."""
    base = study["base"]
    where = f"{base['rows']:,} rows, {base['features']} features, {base['bins']} bins, depth {base['depth']}"
    sections = "\n\n".join(f"### {factor.capitalize()}\n\n{_figures(study, factor)}" for factor in FACTORS)
    return f"""# How training grows

`python -m benchmarks.scaling` writes this page from its measurements in `figures/scaling.json`; do not edit it by hand.

Data is by rows, with half of the rows at each party. Two party processes and a dealer run on one machine with
{study["cores"]} cores and TLS on loopback. The base point is {where};
one factor is varied at a time. Rows are varied at {study["row_features"]} features, so that a million of them fit into
the machine's memory. Edges are private, with as many local bins as edges; [another page](heterogeneity.md#cost) shows
what finer bins cost and joint edges save.

Each point is one training of {study["trees"]} trees. Seconds and bytes are per tree, including its share of finishing
the model; seconds are those of the slower party. Set-up takes place once per training. Bytes are those on the wire:
online bytes between the parties in both directions, dealt bytes to both parties. Memory is the peak of a process minus
that of an idle process, {study["idle_memory"] / 1e6:,.0f} MB.

![time, bytes and memory against rows, features, bins and leaves](figures/scaling.png)

## Exponents

The table gives e of value = c size^e, by least squares of logarithms over all sizes (R^2), and then between the two
largest sizes only. If a constant part matters, such as the latency of rounds, the second figure is the better guide to
larger sizes. "-" means no more memory than an idle process.

{_fits(study)}

## Long and wide tables

`python -m benchmarks.large --out docs` writes this table: three processes on the same machine, trees of depth 4 and 32
bins, by rows with half of the rows at each party, by columns with half of the features. The seconds of a tree include
dealing. Memory counts pages of files, which the system takes back when it needs them. XGBoost has as many trees.
The row of ten million, with five trees, takes `--sizes 10000000-joint`, four minutes and 20 GB.

<!-- large -->

{large}

<!-- end of large -->

A feature costs the same whether it tells anything or not: 1,000 features take twice what 500 take. Before a training on
hundreds of columns, [explore](explore.md) them, and train on those that the screening keeps.

## Figures

{sections}
"""
