"""Print the tables of docs/fedxgbllr.md as Markdown, from docs/figures/fedxgbllr.csv and from the networks.

python -m benchmarks.fedxgbllr_tables docs/figures/fedxgbllr.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from benchmarks.federated_figures import markdown, mean_and_interval
from benchmarks.program import DOCS, parse
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.communication import fedxgbllr_bytes, simfl_bytes
from protocols.baselines.federated.fedxgbllr.config import Architecture, FedXGBllrConfig

# Rows by the paper's table 1; SimFL's and FedXGBllr's MB by its table 3.
PAPER_ROWS = {"a9a": 32_561, "cod_rna": 59_535, "ijcnn1": 49_990, "real-sim": 72_309, "HIGGS": 10**6, "SUSY": 10**6}
PAPER_SIMFL = {"a9a": 150.4, "cod_rna": 249.3, "ijcnn1": 218.4, "real-sim": 323.1, "HIGGS": 4216, "SUSY": 4136}
OWN_ROWS = {"abalone": 4_177, "cpu_small": 8_192, "space_ga": 3_107}
HASHES = 4
SETS = ["a9a", "cod_rna", "abalone", "cpu_small", "space_ga"]
CLASSES = ["a9a", "cod_rna"]
AUTHORS_SETS = ["a9a+a9a.t", *SETS]
DIFFERING = ["a9a", "cod_rna", "cpu_small"]
DIVISIONS = {"equal": "alike", "component": "by the first component", "labels": "by labels"}
# The models behind the columns of a run.
METHODS = {"network": "FedXGBllr", "mean": "mean of margins", "simfl": "SimFL", "centralised": "XGBoost, pooled"}
NETWORKS: list[tuple[Architecture, int]] = [
    ("interpretable", 2),
    ("interpretable", 5),
    ("interpretable", 10),
    ("standard", 5),
    ("fcnn", 5),
]
# Accuracy in percent, or mean squared error, by table 2: with 2, 5 and 10 clients, SimFL with 2, centralised.
PAPER: dict[str, tuple[tuple[float, float, float], float | str, float]] = {
    "a9a": ((85.1, 85.1, 84.7), 84.9, 84.9),
    "cod_rna": ((97.0, 96.5, 95.8), 94.0, 93.9),
    "abalone": ((3.6, 4.4, 4.9), "", 1.3),
    "cpu_small": ((8.0, 8.5, 9.5), "", 6.7),
    "space_ga": ((0.024, 0.033, 0.034), "", 0.024),
}
PAPER_ABLATION = {
    "a9a": "85.1, 83.9, 82.8",
    "cod_rna": "96.5, 96.3, 94.7",
    "abalone": "4.4, 4.4, 5.8",
    "cpu_small": "8.5, 9.2, 12.6",
    "space_ga": "0.033, 0.034, 0.044",
}
# Total parameters and MB of passes, parameters and both, by the paper's table 5.
PAPER_SIZES = [
    (16193, 0.01, 0.06, 0.07),
    (6785, 0.01, 0.03, 0.04),
    (3905, 0.01, 0.02, 0.03),
    (32257, 0.73, 0.12, 0.86),
    (128513, 0.01, 0.49, 0.50),
]


def runs_of(runs: pd.DataFrame, data: str, clients: int, architecture: str = "interpretable") -> pd.DataFrame:
    """Return the runs of one cell, with the default training and equal clients; the trees of a9a are regularised."""
    chosen = (runs["data"] == data) & (runs["clients"] == clients) & (runs["architecture"] == architecture)
    return runs[chosen & (runs["start"] == "mean") & (runs["divided"] == "equal")]


def authors_runs(runs: pd.DataFrame, data: str, clients: int, architecture: str = "interpretable") -> pd.DataFrame:
    """Return the runs of one cell with the authors' parameters and equal clients."""
    chosen = (runs["data"] == data) & (runs["clients"] == clients) & (runs["architecture"] == architecture)
    return runs[chosen & (runs["local"] == "100 batches") & (runs["divided"] == "equal") & (runs["reg_alpha"] == 5)]


def scores(runs: pd.DataFrame, column: str) -> str:
    """Format mean and interval: percent for classes, otherwise mean squared error."""
    return mean_and_interval(runs[column], _digits(runs))


def mean_and_range(runs: pd.DataFrame, column: str) -> str:
    """Format the mean, and the lowest and highest of a few runs."""
    values, digits = runs[column], _digits(runs)
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def _digits(runs: pd.DataFrame) -> int:
    return 4 if (runs["data"] == "space_ga").all() else 2


def table_2(runs: pd.DataFrame) -> str:
    lines: list[list[object]] = []
    for data in SETS:
        for place, clients in enumerate((2, 5, 10)):
            cell, (paper, simfl, centralised) = runs_of(runs, data, clients), PAPER[data]
            figures = [scores(cell, method) for method in METHODS]
            said = [paper[place], simfl if clients == 2 else "", centralised]
            lines.append([data, clients, len(cell), *figures, ", ".join(map(str, filter(None, said)))])
    return markdown(["set", "clients", "runs", *METHODS.values(), "paper"], lines)


def probabilities(runs: pd.DataFrame) -> str:
    """Return log loss and calibration error of the sets with classes."""
    lines: list[list[object]] = []
    for data in CLASSES:
        for clients in (2, 5, 10):
            cell = runs_of(runs, data, clients)
            for measure, name in (("logloss", "log loss"), ("calibration", "calibration error")):
                figures = [mean_and_interval(cell[f"{measure}_{method}"], 4) for method in METHODS]
                lines.append([data, clients, name, *figures])
    return markdown(["set", "clients", "measure", *METHODS.values()], lines)


def authors_parameters(runs: pd.DataFrame) -> str:
    """Return the results with the authors' parameters, beside our own training of the same seeds."""
    lines: list[list[object]] = []
    for data in AUTHORS_SETS:
        paper = PAPER[data.split("+")[0]]
        for place, clients in enumerate((2, 5, 10)):
            cell = authors_runs(runs, data, clients)
            own = runs_of(runs, data, clients)
            own = own[own["seed"].isin(cell["seed"])]
            figures = [mean_and_range(cell, column) for column in ("network", "mean", "centralised")]
            line = [data, clients, len(cell), *figures, mean_and_range(own, "network"), paper[0][place], paper[2]]
            lines.append(line)
    header = ["set", "clients", "runs", "FedXGBllr", "mean of margins", "XGBoost, pooled", "our training"]
    return markdown([*header, "paper", "paper, pooled"], lines)


def differing(runs: pd.DataFrame) -> str:
    """Return the results for five clients that differ: means over two seeds, and of classes also the log loss."""
    lines: list[list[object]] = []
    of_five = runs[(runs["clients"] == 5) & (runs["architecture"] == "interpretable") & runs["seed"].isin((0, 1))]
    for data in DIFFERING:
        for divided, name in DIVISIONS.items():
            cell = of_five[(of_five["data"] == data) & (of_five["divided"] == divided)]
            own = cell[cell["start"] == "mean"]
            # Of a9a, the trees are the same; of the others, the authors' are regularised if clients are equal.
            authors = cell[(cell["local"] == "100 batches") & (cell["reg_alpha"] == own["reg_alpha"].iloc[0])]
            labels = own[own["seed"] == 0]["label_means"].iloc[0]
            shown = "" if pd.isna(labels) else ", ".join(_label(data, float(each)) for each in labels.split())
            methods = ((own, "network"), (authors, "network"), (own, "mean"), (own, "centralised"))
            figures = [_with_loss(each, column) for each, column in methods]
            lines.append([data, name, shown, *figures])
    header = ["set", "clients", "labels of the clients", "our training", "100 batches", "mean of margins"]
    return markdown([*header, "XGBoost, pooled"], lines)


def _label(data: str, mean: float) -> str:
    return f"{100 * mean:.0f} %" if data in CLASSES else f"{mean:.0f}"


def _with_loss(runs: pd.DataFrame, column: str) -> str:
    if runs.empty:
        return ""
    loss = f", {runs[f'logloss_{column}'].mean():.3f}" if (runs["data"].isin(CLASSES)).all() else ""
    return f"{runs[column].mean():.2f}{loss}"


def papers_setting(runs: pd.DataFrame) -> str:
    """Return the results of 100 epochs from Kaiming's weights, with the last round kept: 2 clients, seed 0."""
    lines: list[list[object]] = []
    for data in SETS:
        cell = runs[(runs["data"] == data) & (runs["local"] == "100 epochs")]
        if cell.empty:
            continue
        figures: list[object] = [scores(cell, column) for column in ("round_1", "last_round", "mean")]
        for measure in ("logloss", "calibration"):
            for method in ("network", "mean"):
                figures.append(f"{cell[f'{measure}_{method}'].mean():.4f}" if data in CLASSES else "")
        lines.append([data, *figures])
    header = ["set", "round 1", "round 10", "mean of margins", "log loss", "of the mean", "calibration", "of the mean"]
    return markdown(header, lines)


def table_3(runs: pd.DataFrame) -> str:
    """Return traffic for 10 clients, 500 trees of depth 8, 10 rounds: MB of 10^6 bytes, means over table 2's runs."""
    lines: list[list[object]] = []
    for data, rows in (PAPER_ROWS | OWN_ROWS).items():
        simfl = simfl_bytes(10, rows, HASHES, 500, 8) / 1e6
        line: list[object] = [
            data,
            f"{rows:,}",
            f"{simfl:.1f}",
            PAPER_SIMFL.get(data, ""),
            6.0 if data in PAPER_ROWS else "",
        ]
        if data in SETS:
            cell = runs_of(runs, data, 10)
            trees, network = cell["tree_bytes"].mean(), 4 * cell["parameters"].mean()
            measured = (cell["sent_bytes"] + cell["received_bytes"]).mean() / 1e6
            formula = fedxgbllr_bytes(10, 500, trees / 500, 10, network) / 1e6
            line += [f"{trees / 1e6:.2f}", f"{formula:.1f}", f"{measured:.1f}", f"{simfl / measured:.1f}"]
        lines.append(line + [""] * (9 - len(line)))
    header = ["set", "rows", "SimFL, formula", "SimFL, paper", "FedXGBllr, paper"]
    return markdown([*header, "500 trees", "FedXGBllr, formula (6)", "FedXGBllr, measured", "factor"], lines)


def table_4(runs: pd.DataFrame) -> str:
    """Return means, and by seed the difference of the other two networks from the interpretable one.

    a9a has the authors' parameters, the other sets our own training. A network with fewer than three runs is left out.
    """
    lines: list[list[object]] = []
    for data in SETS:
        of = authors_runs if data == "a9a" else runs_of
        cells = [of(runs, data, 5, a).set_index("seed") for a in ("interpretable", "standard", "fcnn")]
        enough = [cell for cell in cells if len(cell) > 2]
        seeds = sorted(set.intersection(*(set(cell.index) for cell in enough))) if len(enough) > 1 else []
        if not seeds or len(cells[0]) <= 2:
            continue
        own, *others = [cell.loc[seeds] if len(cell) > 2 else None for cell in cells]
        assert own is not None
        both = [
            c if c is None else f"{scores(c, 'last_round')} ({scores(_less(c, own), 'last_round')})" for c in others
        ]
        lines.append([data, len(seeds), scores(own, "last_round"), *both, PAPER_ABLATION[data]])
        measures = {"logloss": "log loss", "calibration": "calibration error"} if data in CLASSES else {}
        for measure, name in measures.items():
            column = f"{measure}_network"
            figures = [cell if cell is None else mean_and_interval(cell[column], 4) for cell in (own, *others)]
            lines.append([f"{data}, its {name}", len(seeds), *figures, ""])
    lines = [["" if cell is None else cell for cell in line] for line in lines]
    return markdown(["set", "runs", "k = s = n", "k = 3, s = 1", "fully connected", "paper, in this order"], lines)


def _less(runs: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(last_round=runs["last_round"] - own["last_round"])


def sizes(architecture: Architecture, clients: int) -> tuple[int, float, float, float]:
    """Return parameters; MiB of one row's outputs of all layers, forward and back; of the parameters; of both."""
    import torch

    config = FedXGBllrConfig.of(architecture=architecture)
    network = cnn.build(clients, config.trees_per_client(clients), config)
    parameters = sum(p.numel() for p in network.parameters())
    x, outputs = torch.zeros(1, config.total_trees), 0
    for layer in network:
        x = layer(x)
        outputs += 0 if isinstance(layer, torch.nn.Unflatten) else x.numel()
    passes, weights = 2 * 4 * outputs / 2**20, 4 * parameters / 2**20
    return parameters, passes, weights, passes + weights


def table_5() -> str:
    lines: list[list[object]] = []
    for (architecture, clients), paper in zip(NETWORKS, PAPER_SIZES, strict=True):
        parameters, *megabytes = sizes(architecture, clients)
        pairs = [f"{ours:.3f} ({theirs:.2f})" for ours, theirs in zip(megabytes, paper[1:], strict=True)]
        lines.append([architecture, clients, f"{parameters:,} ({paper[0]:,})", *pairs])
    return markdown(["network", "clients", "parameters (paper)", "passes, MiB", "parameters, MiB", "total, MiB"], lines)


TABLES = [table_2, probabilities, authors_parameters, differing, papers_setting, table_3, table_4]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=DOCS / "figures" / "fedxgbllr.csv")
    runs = pd.read_csv(parse(parser, arguments).runs)
    print("\n\n".join([table(runs) for table in TABLES] + [table_5()]))


if __name__ == "__main__":
    main()
