"""Tables (Markdown, on standard output) and figures of docs/virtual_samples.md and docs/fedxgbllr.md from their CSV.

python -m benchmarks.federated_figures docs/figures
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

ORDER = ["10", "20", "50", "100", "405", "original"]
METRICS = ["accuracy", "auc", "f1", "auprc"]


def mean_and_interval(values: pd.Series, digits: int) -> str:
    """Mean and half-width of the 95 % interval of the mean, by Student's t."""
    from scipy.stats import t

    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    half = t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    return f"{values.mean():.{digits}f} ± {half:.{digits}f}"


def table_1(runs: pd.DataFrame) -> str:
    """Seed 000's table 1, with F1 and AUPRC beside accuracy and AUC."""
    lines = ["| model | clusters | seeds | accuracy | AUC | F1 | AUPRC |", "|---|---|---|---|---|---|---|"]
    groups = [("federated", c, p) for c in ORDER for p in ("before", "after")]
    groups += [(peer, "", "") for peer in ("GBDT", "Random Forest", "XGBoost")]
    for method, clusters, phase in groups:
        rows = runs[(runs["method"] == method) & (runs["clusters"] == clusters) & (runs["phase"] == phase)]
        if len(rows):
            cells = [mean_and_interval(rows[m], 5 if m == "accuracy" else 4) for m in METRICS]
            name = f"{method} {phase} update" if phase else method
            lines.append(" | ".join([f"| {name}", clusters, str(len(rows)), *cells]) + " |")
    return "\n".join(lines)


def paired_loss(runs: pd.DataFrame) -> str:
    """F1 of the original dimension less that of 405 clusters, seed by seed."""
    said = []
    for phase in ("before", "after"):
        f1 = runs[(runs["method"] == "federated") & (runs["phase"] == phase)].pivot(
            index="seed", columns="clusters", values="f1"
        )
        said.append(f"{phase} update {mean_and_interval(f1['original'] - f1['405'], 4)}")
    return "F1(original) - F1(405): " + ", ".join(said)


def figure_4(runs: pd.DataFrame, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    places = list(range(len(ORDER)))
    for phase in ("before", "after"):
        rows = runs[(runs["method"] == "federated") & (runs["phase"] == phase)]
        groups = [rows[rows["clusters"] == c]["f1"] for c in ORDER]
        half = [2.262 * g.std() / len(g) ** 0.5 for g in groups]
        axes.errorbar(places, [g.mean() for g in groups], half, marker="o", capsize=3, label=f"{phase} update")
    for peer, style in (("GBDT", ":"), ("Random Forest", "-."), ("XGBoost", "--")):
        rows = runs[runs["method"] == peer]
        if len(rows):
            axes.axhline(rows["f1"].mean(), linestyle=style, color="grey", label=f"{peer}, {len(rows)} seeds")
    axes.set(xlabel="clusters a feature", ylabel="F1 on test", xticks=places, xticklabels=ORDER)
    axes.legend(fontsize=8)
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def figure_5(curves: dict, peers: dict, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for clusters in ("10", "405", "original"):
        losses = curves[f"{clusters} after"]["loss"]
        axes.plot(range(1, len(losses) + 1), losses, label=f"federated, {clusters}")
    for peer, style in (("GBDT", ":"), ("XGBoost", "--")):
        if peer in peers:
            losses = peers[peer]["loss"]
            axes.plot(range(1, len(losses) + 1), losses, style, color="black", label=peer)
    axes.axvline(len(curves["405 before"]["loss"]), color="grey", linewidth=0.8)
    axes.set(xlabel="trees (update after the line)", ylabel="cross-entropy on the training rows, nats", yscale="log")
    axes.legend(fontsize=8)
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def figures_6_and_7(curves: dict, phase: str, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    for axes, rows in zip(both, ("train", "test"), strict=True):
        for clusters in ("10", "405", "original"):
            curve = curves[f"{clusters} {phase}"][rows]
            axes.step(curve["recall"], curve["precision"], where="post", label=clusters)
        axes.set(xlabel="recall", ylabel="precision", title=f"{rows}, {phase} update")
    both[0].legend(fontsize=8, title="clusters")
    figure.savefig(out, dpi=120, bbox_inches="tight")
    plt.close(figure)


def fedxgbllr_table(runs: pd.DataFrame) -> str:
    """Mean and interval of the scores, by set, local work, architecture and number of clients."""
    lines = [
        "| set | local work | network | clients | runs | score | after round 1 | centralised XGBoost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    keys = ["data", "local", "rounds", "architecture", "clients"]
    for (data, local, rounds, architecture, clients), rows in runs.groupby(keys, sort=False):
        digits = 2 if data == "a9a" else 4 if data == "space_ga" else 2
        scores = [mean_and_interval(rows[c], digits) for c in ("score", "score_round_1", "centralised")]
        cells = [data, f"{local}, {rounds} rounds", architecture, str(clients), str(len(rows)), *scores]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name in ("rare", "default_credit"):
        runs = pd.read_csv(folder / f"virtual_samples_{name}.csv", dtype={"clusters": str}, keep_default_na=False)
        runs[[*METRICS, "seed"]] = runs[[*METRICS, "seed"]].astype(float)
        curves, peers = (
            json.loads((folder / f"virtual_samples_{name}_{kind}.json").read_text()) for kind in ("curves", "peers")
        )
        print(f"\n## {name}\n\n{table_1(runs)}\n\n{paired_loss(runs)}")
        figure_4(runs, folder / f"virtual_samples_{name}_f1.png")
        figure_5(curves, peers, folder / f"virtual_samples_{name}_loss.png")
        for phase in ("before", "after"):
            figures_6_and_7(curves, phase, folder / f"virtual_samples_{name}_auprc_{phase}.png")
    print(f"\n## FedXGBllr\n\n{fedxgbllr_table(pd.read_csv(folder / 'fedxgbllr.csv'))}")


if __name__ == "__main__":
    main()
