"""Make the tables (Markdown, on standard output) and figures of docs/virtual_samples.md from their CSV files.

python -m benchmarks.federated_figures docs/figures
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.federated_virtual_samples import NODES, split
from benchmarks.program import DOCS, parse

# Rows and features of the sets.
SIZES = {"rare": (100_000, 30), "default_credit": (30_000, 23)}
ORDER = ["2", "5", "10", "20", "50", "100", "405", "original"]
METRICS = ["accuracy", "auc", "f1", "auprc", "auprc_train", "loss_train"]
PEERS = ["GBDT", "Random Forest", "XGBoost"]
DRAWN = ORDER[1:]  # with 2 clusters F1 may be 0
SHOWN = ["10", "405", "original"]


def markdown(header: list[str], lines: list[list[Any]]) -> str:
    """Format header and lines as a table."""
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in (header, *lines)]
    return "\n".join([rows[0], "|---" * len(header) + "|", *rows[1:]])


def mean_and_interval(values: pd.Series, digits: int) -> str:
    """Format mean and half-width of the 95 % interval of the mean, by Student's t."""
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    return f"{values.mean():.{digits}f} ± {half_width(values):.{digits}f}"


def half_width(values: pd.Series) -> float:
    """Return half of the 95 % interval of the mean, by Student's t."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5)


def table_1(runs: pd.DataFrame) -> str:
    """Return table 1, with AUPRC on test and training rows and the training loss."""
    header = ["model", "clusters", "seeds", "accuracy", "AUC", "F1", "AUPRC", "AUPRC, train", "loss, train"]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    groups = [("federated", c, p) for c in ORDER for p in ("before", "after")]
    groups += [(peer, "", "") for peer in PEERS]
    for method, clusters, phase in groups:
        rows = runs[(runs["method"] == method) & (runs["clusters"] == clusters) & (runs["phase"] == phase)]
        if len(rows):
            cells = [mean_and_interval(rows[m], 5 if m in ("accuracy", "loss_train") else 4) for m in METRICS]
            name = f"{method} {phase} update" if phase else method
            lines.append(" | ".join([f"| {name}", clusters, str(len(rows)), *cells]) + " |")
    return "\n".join(lines)


def paired_loss(runs: pd.DataFrame) -> str:
    """Return F1 of the original dimension minus that of 405 clusters, seed by seed."""
    phrases = []
    for phase in ("before", "after"):
        f1 = runs[(runs["method"] == "federated") & (runs["phase"] == phase)].pivot(
            index="seed", columns="clusters", values="f1"
        )
        loss = f1["original"] - f1["405"]
        phrases.append(f"{phase} update {mean_and_interval(loss, 4)}")
    return f"F1(original) - F1(405), {len(loss)} seeds: " + ", ".join(phrases)


def traffic(runs: Mapping[str, pd.DataFrame]) -> str:
    """Return the bytes that all nodes send before the update, beside those of their rows, by set and clusters."""
    lines: list[list[object]] = []
    for name, (rows, features) in SIZES.items():
        of_set = runs[name]
        sent = of_set[(of_set["method"] == "federated") & (of_set["phase"] == "before")]
        training = len(split(rows, 0)[2])
        for clusters in ORDER[:-1]:
            sums = sent[sent["clusters"] == clusters]["received_bytes"].astype(float).mean()
            agreement = NODES * 960 * features * (int(clusters) - 1)
            figures = [4 * training * (features + 1), sums, agreement]
            lines.append([name, f"{figures[0] / 1e6:.1f}", clusters, *(f"{each / 1e6:.1f}" for each in figures[1:])])
    return markdown(["set", "the rows, MB", "clusters", "sums, MB", "agreement, MB"], lines)


def figure_4(runs: pd.DataFrame, name: str, out: Path) -> None:
    """Draw F1 against clusters, beside the peers, with intervals; `name` is that of the table."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 4))
    for phase, shift in (("before", -0.1), ("after", 0.1)):
        rows = runs[(runs["method"] == "federated") & (runs["phase"] == phase)]
        groups = [rows[rows["clusters"] == c]["f1"] for c in DRAWN]
        places = [place + shift for place in range(len(DRAWN))]
        mean, half = [g.mean() for g in groups], [half_width(g) for g in groups]
        axes.errorbar(places, mean, half, marker="o", capsize=3, label=f"federated, {phase} update")
    for place, peer in enumerate(PEERS, len(DRAWN)):
        f1 = runs[runs["method"] == peer]["f1"]
        axes.errorbar([place], [f1.mean()], [half_width(f1)], marker="s", capsize=3, color="black")
    axes.axvline(len(DRAWN) - 0.5, color="grey", linewidth=0.8)
    axes.set(ylabel="F1 on test", xticks=range(len(DRAWN) + len(PEERS)))
    axes.set_xticklabels([*DRAWN, *(peer.replace(" ", "\n") for peer in PEERS)])
    axes.set_xlabel("clusters of a feature; right of the line, centralised")
    axes.set_title(f"{name}: mean of {runs['seed'].nunique()} seeds and its 95 % interval", fontsize=10)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncol=2)
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def figure_5(curves: dict[str, Any], peers: dict[str, Any], name: str, out: Path) -> None:
    """Draw the training loss by number of trees, for the first seed."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 4))
    lines = {f"federated, {c}": (curves[f"{c} after"]["loss"], "-") for c in SHOWN}
    lines |= {peer: (peers[peer]["loss"], style) for peer, style in (("XGBoost", "--"), ("GBDT", ":"))}
    for label, (losses, style) in lines.items():
        color = None if style == "-" else "black"
        axes.plot(range(1, len(losses) + 1), losses, style, color=color, label=label)
    axes.axvline(len(curves["405 before"]["loss"]), color="grey", linewidth=0.8)
    lowest, highest = (pick(pick(losses) for losses, _ in lines.values()) for pick in (min, max))
    axes.set_yscale("log" if highest > 5 * lowest else "linear")
    axes.set(xlabel="trees (update after the line)", ylabel="cross-entropy on training rows, nats")
    axes.set_title(f"{name}: training loss, seed 0", fontsize=10)
    axes.legend(fontsize=8)
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def figures_6_and_7(runs: pd.DataFrame, curves: dict[str, Any], phase: str, name: str, out: Path) -> None:
    """Draw precision and recall on training and test rows for the first seed, with the area under each curve."""
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(8.5, 3.8), sharey=True)
    first = runs[(runs["method"] == "federated") & (runs["phase"] == phase) & (runs["seed"] == 0)].set_index("clusters")
    for axes, rows, area in zip(both, ("train", "test"), ("auprc_train", "auprc"), strict=True):
        for clusters in SHOWN:
            curve = curves[f"{clusters} {phase}"][rows]
            label = f"{clusters}: {float(first[area][clusters]):.3f}"
            axes.step(curve["recall"], curve["precision"], where="post", label=label)
        axes.set(xlabel="recall", title=f"{name}, {rows}, {phase} update, seed 0")
        axes.title.set_fontsize(10)
        axes.legend(fontsize=8, title="clusters: AUPRC", title_fontsize=8, loc="lower left")
    both[0].set_ylabel("precision")
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def read_runs(path: Path) -> pd.DataFrame:
    """Read the lines that `benchmarks.federated_virtual_samples` wrote."""
    runs = pd.read_csv(path, dtype={"clusters": str}, keep_default_na=False)
    return runs.astype(dict.fromkeys([*METRICS, "seed"], float))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="has the CSV files")
    parser.add_argument("--out", type=Path, help="of the figures; by default the same folder")
    options = parse(parser, arguments)
    folder = options.folder or DOCS / "figures"
    out = options.out or folder
    out.mkdir(parents=True, exist_ok=True)
    tables = {name: read_runs(folder / f"virtual_samples_{name}.csv") for name in SIZES}
    for name, runs in tables.items():
        curves, peers = (
            json.loads((folder / f"virtual_samples_{name}_{kind}.json").read_text()) for kind in ("curves", "peers")
        )
        print(f"\n## {name}\n\n{table_1(runs)}\n\n{paired_loss(runs)}")
        figure_4(runs, name, out / f"virtual_samples_{name}_f1.png")
        figure_5(curves, peers, name, out / f"virtual_samples_{name}_loss.png")
        for phase in ("before", "after"):
            figures_6_and_7(runs, curves, phase, name, out / f"virtual_samples_{name}_auprc_{phase}.png")
    more = pd.concat([read_runs(folder / f"virtual_samples_rare{part}.csv") for part in ("", "_405")])
    print(f"\nrare, {paired_loss(more[more['clusters'].isin(['405', 'original'])])}\n\n{traffic(tables)}")


if __name__ == "__main__":
    main()
