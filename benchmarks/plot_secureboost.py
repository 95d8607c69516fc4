"""Draw the chapter's figures 3-2-3 and 3-2-4 at this machine's scale, with Okamoto-Uchiyama and 2048-bit keys.

    python -m benchmarks.plot_secureboost [--redraw | --long]

3-2-3  training loss against trees: SecureBoost, XGBoost and scikit-learn's GBDT on default_credit_hetero
3-2-4  CPU seconds per tree, guest and host together, the smaller of two trees: against depth, the host's features and
       rows, on generated rows; each with the straight line nearest to the points

Writes docs/figures/secureboost_curves.json and the drawings beside it; --redraw draws the existing JSON, and --long
adds the chapter's thousands of features to it, which take ten minutes on two cores.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks.bench_secureboost import GUEST_COLUMNS, made_up_rows, measure
from benchmarks.program import DOCS, parse
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.baselines.secureboost.objectives import loss
from protocols.runtime.processes import run_processes
from protocols.transport.channel import Channel
from tests.protocols.baselines.secureboost.parties import hetero

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

LOSS_TREES, LOSS_ROWS = 30, 30_000
DEPTHS, DEPTH_ROWS, DEPTH_COLUMNS = (1, 2, 3, 4, 5, 6), 30_000, 20
COLUMNS, COLUMN_ROWS = (10, 20, 40, 80, 160, 320, 640, 1280), 10_000
MANY_COLUMNS = (2500, 5000)
ROWS, ROW_COLUMNS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000), 100
FEW_ROWS = 60
PANELS = {
    "depth": ("depth of the tree", f"(a) {DEPTH_ROWS:,} rows, {DEPTH_COLUMNS} host features"),
    "features": ("host features", f"(b) {COLUMN_ROWS:,} rows, depth 3"),
    "rows": ("rows", f"(c) {ROW_COLUMNS} host features, depth 3"),
}
LINES: dict[str, dict[str, Any]] = {
    "SecureBoost": {"color": "#0072B2", "linewidth": 4, "alpha": 0.5},
    "XGBoost": {"color": "#D55E00", "linestyle": "--"},
    "GBDT": {"color": "black", "linestyle": ":"},
}


def secureboost_losses(config: SecureBoostConfig, blocks: list[np.ndarray], y: np.ndarray) -> list[float]:
    def guest(channels: dict[str, Channel]) -> list[float]:
        losses: list[float] = []
        Guest(channels).train(config, blocks[0], y, lambda _, m: losses.append(loss(config, m, y)))
        return losses

    roles = {"guest": guest, "host": lambda c: Host(c["guest"]).train(blocks[1]).records.column}
    return run_processes(roles)["guest"]


def loss_against_trees(trees: int, rows: int) -> dict[str, list[float]]:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.metrics import log_loss
    from xgboost import XGBClassifier

    guest, host, y = (np.asarray(part)[:rows] for part in hetero("default_credit"))
    X = np.hstack([guest, host])
    parameters = {"n_estimators": trees, "max_depth": 3, "learning_rate": 0.3}
    boosted = {**parameters, "max_bin": 32, "min_child_weight": 0.5, "base_score": y.mean()}  # GBDT also starts there
    config = SecureBoostConfig.of(**boosted, min_split_loss=0, guest_only="none", encryption="ou")
    curves = {"SecureBoost": secureboost_losses(config, [guest, host], y)}
    plain = XGBClassifier(**boosted)
    plain.fit(X, y, eval_set=[(X, y)], verbose=False)
    curves["XGBoost"] = plain.evals_result()["validation_0"]["logloss"]
    gbdt = GradientBoostingClassifier(**parameters, random_state=0).fit(X, y)
    curves["GBDT"] = [float(log_loss(y, p[:, 1])) for p in gbdt.staged_predict_proba(X)]
    return curves


def tree_seconds(rows: int, columns: int, depth: int) -> float:
    X, y = made_up_rows(rows, GUEST_COLUMNS + columns)
    config = SecureBoostConfig.of(n_estimators=3, max_depth=depth, max_bin=32, guest_only="none", encryption="ou")
    return min(measure(config, X, y)["cpu_seconds"])


def measured() -> dict[str, Any]:
    return {
        "loss": loss_against_trees(LOSS_TREES, LOSS_ROWS),
        "depth": [(d, tree_seconds(DEPTH_ROWS, DEPTH_COLUMNS, d)) for d in DEPTHS],
        "features": [(c, tree_seconds(COLUMN_ROWS, c, 3)) for c in COLUMNS],
        "rows": [(r, tree_seconds(r, ROW_COLUMNS, 3)) for r in ROWS],
    }


def measured_few() -> dict[str, Any]:
    """Return the same curves of two points each, which are those of the first curve of times."""
    seconds = [(depth, tree_seconds(FEW_ROWS, 2, depth)) for depth in (1, 2)]
    return {"loss": loss_against_trees(2, FEW_ROWS), **dict.fromkeys(("depth", "features", "rows"), seconds)}


def draw_loss(curves: dict[str, list[float]], folder: Path) -> None:
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, style in LINES.items():
        axis.plot(range(1, len(curves[name]) + 1), curves[name], label=name, **style)
    axis.set(xlabel="trees", ylabel="training log-loss", title="default_credit_hetero, 30,000 rows, depth 3")
    axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axis.legend(frameon=False)
    figure.savefig(folder / "secureboost_loss.png", dpi=150)


def draw_time(curves: dict[str, list[tuple[float, float]]], folder: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for axis, (name, (label, title)) in zip(axes, PANELS.items(), strict=True):
        x, seconds = np.array(curves[name]).T
        line = np.polynomial.Polynomial.fit(x, seconds, 1)
        axis.plot(x, line(x), "--", color="#D55E00", label=f"straight line, $R^2$ = {r_squared(seconds, line(x)):.3f}")
        axis.plot(x, seconds, "o", color="#0072B2", label="measured")
        axis.set(xlabel=label, ylabel="CPU seconds per tree", title=title, ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.legend(frameon=False, loc="upper left")
    figure.savefig(folder / "secureboost_time.png", dpi=150)


def r_squared(y: np.ndarray, fitted: np.ndarray) -> float:
    return float(1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redraw", action="store_true", help="draw existing measurements")
    parser.add_argument("--long", action="store_true", help="add thousands of features to existing measurements")
    parser.add_argument("--few", action="store_true", help="measure two small points only")
    parser.add_argument("--out", type=Path, default=DOCS)
    given = parse(parser, arguments, few=True)
    folder = given.out / "figures"
    kept = folder / "secureboost_curves.json"
    if not (given.redraw or given.long):
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(measured_few() if given.few else measured(), indent=1) + "\n")
    curves = json.loads(kept.read_text())
    if given.long:
        few = [point for point in curves["features"] if point[0] not in MANY_COLUMNS]
        curves["features"] = few + [(c, tree_seconds(COLUMN_ROWS, c, 3)) for c in MANY_COLUMNS]
        kept.write_text(json.dumps(curves, indent=1) + "\n")
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": "medium"})
    draw_loss(curves["loss"], folder)
    draw_time(curves, folder)


if __name__ == "__main__":
    main()
