"""Write the page and the figure of the study of heterogeneous parties from its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.complexity import table
from benchmarks.figures import STYLES, save, small_multiples

MODES = {"joint": "sharewood, joint edges", "private": "sharewood"}


def differences(study: dict[str, Any], source: str, division: str) -> dict[str, tuple[float, float]]:
    """Return, for each kind of edges, mean and standard error over the seeds of the difference to XGBoost.

    AUC: ours less XGBoost's; RMSE: relative to XGBoost's. A seed's folds are averaged first.
    """
    of_source = study["scores"][source]
    out = {}
    for mode in MODES:
        by_seed = [
            np.mean([f[mode] / f["xgboost"] - 1 if of_source["numbers"] else f[mode] - f["xgboost"] for f in folds])
            for folds in of_source["divisions"][division]
        ]
        out[mode] = float(np.mean(by_seed)), float(np.std(by_seed, ddof=1) / np.sqrt(len(by_seed)))
    return out


def draw(study: dict[str, Any], path: Path) -> None:
    """Draw a panel per set, with a line per division and a mark with its standard error per kind of edges."""
    names = list(study["scores"])
    figure, axes = small_multiples(1, len(names))
    figure.set_size_inches(2.1 * len(names) + 1.2, 2.6)
    labels = list(dict.fromkeys(d for s in study["scores"].values() for d in s["divisions"]))
    for column, name in enumerate(names):
        axis, of_source = axes[0, column], study["scores"][name]
        for shift, (mode, style) in zip((-0.15, 0.15), MODES.items(), strict=True):
            shown = [(labels.index(d) + shift, *differences(study, name, d)[mode]) for d in of_source["divisions"]]
            y, x, error = (np.array(values) for values in zip(*shown, strict=True))
            scale = 100 if of_source["numbers"] else 1
            marks = {"color": STYLES[style]["color"], "marker": STYLES[style]["marker"], "markersize": 4}
            axis.errorbar(scale * x, y, xerr=scale * error, linestyle="none", linewidth=1, label=mode, **marks)
        axis.axvline(0, color="#444444", linewidth=0.8)
        axis.set_title(name)
        axis.set_xlabel("RMSE, % above XGBoost's" if of_source["numbers"] else "AUC less XGBoost's")
        axis.set_ylim(len(labels) - 0.5, -0.5)
        axis.set_yticks(range(len(labels)), labels if column == 0 else [""] * len(labels))
    handles, words = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, [f"{w} edges" for w in words], loc="outside upper center", ncols=2, frameon=False)
    save(figure, path)


def _quality(study: dict[str, Any]) -> str:
    rows = []
    for source, of_source in study["scores"].items():
        for division, runs in of_source["divisions"].items():
            theirs = np.mean([np.mean([f["xgboost"] for f in folds]) for folds in runs])
            of_modes = differences(study, source, division).values()
            unit, scale = ("%", 100) if of_source["numbers"] else ("", 1)
            digits = 2 if of_source["numbers"] else 4
            cells = [f"{scale * mean:+.{digits}f}{unit} ({scale * error:.{digits}f})" for mean, error in of_modes]
            rows.append([source, division, f"{theirs:.4f}", *cells])
    return table(["set", "rows are divided", "XGBoost", "joint edges", "private edges"], rows, words_first=2)


def _advice(study: dict[str, Any]) -> str:
    (joint, of_joint), (private, of_private) = differences(study, "made up, classes", "one class each").values()
    return f"""\
If each party has rows of only one class, set `edges="joint"`: private edges misplace rows of the other party, and
thus of the other class. AUC on the generated rows differs from XGBoost's by {private:+.4f} ({of_private:.4f}) with
private and by {joint:+.4f} ({of_joint:.4f}) with joint edges. If quantiles must remain secret, a larger `local_bins`
helps."""


def _many(study: dict[str, Any]) -> str:
    of_many = study["many"]
    rows = []
    for division, found in of_many["divisions"].items():
        each = [np.array(values) for values in found.values()]
        cells = [f"{x.mean():+.4f} ({x.std(ddof=1) / np.sqrt(len(x)):.4f})" for x in each]
        rows.append([division, *cells])
    counts = [f"{count} local bins" for count in next(iter(of_many["divisions"].values()))]
    return f"""\
If a party has 100,000 rows, every local bin costs it that many words of set-up, and the default is 64 local bins. AUC
less that of XGBoost after training on {of_many["rows"]:,} generated rows, mean and standard error over
{of_many["seeds"]} seeds:

{table(["rows are divided", *counts], rows, words_first=1)}

The two differ by less than the seeds do, but for parties with one class each: there `local_bins=128` is better, and
`edges="joint"` best."""


def _checked(study: dict[str, Any]) -> str:
    rows = [
        [c["division"], c["mode"], *(f"{value:.4f}" for value in (c["secure"], c[c["mode"]], c["xgboost"]))]
        for c in study["checked"]
    ]
    return table(["rows are divided", "edges", "between processes", "twin", "XGBoost"], rows, words_first=2)


def page(study: dict[str, Any], cost: str) -> str:
    """Return the page, with the tables of cost as `benchmarks.edges_cost` has written them."""
    b, folds = study["boosting"], study["folds"]
    count, depth, rate, bins = (b[name] for name in ("n_estimators", "max_depth", "learning_rate", "max_bin"))
    return f"""# Parties whose rows differ

`python -m benchmarks.heterogeneity` writes this page from its measurements in `figures/heterogeneity.json`; do not edit
it by hand; `python -m benchmarks.edges_cost` writes the tables of cost. [Bins by rows](secure_tree.md#bins-by-rows)
explains the two kinds of edges.

## Quality

The table compares Sharewood with XGBoost's `hist` on the pooled rows with the same parameters, on held-out rows
predicted by thresholds. It shows the mean and the standard error of the difference over {study["seeds"]} seeds: in AUC
for classes, where more is better, and in per cent of RMSE for numbers, where less is better. Models have {count} trees
of depth {depth}, learning rate {rate} and {bins} bins; private edges have the default `local_bins`, {4 * bins}.

The data sets are generated rows ({folds} times 4,000 to train on and 12,000 held out) and three public sets: breast
(569 x 30) and student (395 x 13, grades) in {folds} folds, and default_credit with 6,000 rows to train on and 24,000
held out. "One class each" divides numbers at their median. Shifted covariates and disjoint ranges concern the first
feature.

![difference to XGBoost for every division](figures/heterogeneity.png)

{_quality(study)}

{_advice(study)}

These trainings are those of the twin. The next table repeats some of them between two processes and a dealer, with the
AUC on the same held-out rows. The gradients are rounded at random, so two trainings of one kind differ this much:

{_checked(study)}

## Many rows

{_many(study)}

## Cost

Two party processes and a dealer ran on one machine over TLS on loopback, with 32 bins and with both kinds of edges in
turn. Seconds are medians of three runs.
Bytes are those on the wire in both directions, and dealt bytes are those to both parties. Dealing continues while trees
are grown, so offline and online overlap; "elapsed" is the time per tree of both, in a training of three trees.

<!-- cost -->

{cost}

<!-- end of cost -->

The cost per row is the same for both kinds: g and h of every row, and the rows of each node. The cost per candidate is
half with joint edges, so the more rows per candidate, the smaller the difference. Set-up sends the bins as a masked
matrix with one word per row and bin, of which private edges need four times as many. Joint edges take rounds in set-up:
a comparison and an opening for each of the 32 bits of a value, and as many again if features have values so frequent
that edges remain for other values.
"""
