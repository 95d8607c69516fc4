"""Figures 3-2-3 and 3-2-4 of the seed, redrawn for this machine with Okamoto-Uchiyama and 2048-bit keys.

    python -m benchmarks.plot_secureboost    writes docs/figures/secureboost_*.png, out/bench/secureboost_plots.json

3-2-3  training loss against trees: SecureBoost, XGBoost and scikit-learn's GBDT on the same 10,000 rows
3-2-4  CPU seconds a tree, guest and host together: against depth, features (the host's) and rows
"""

import json
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.bench_secureboost import GUEST_COLUMNS, made_up_rows, measure
from protocols.runtime.launch import run_processes
from protocols.secureboost import Guest, Host, SecureBoostConfig
from protocols.secureboost.objectives import loss

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
LOSS_ROWS, LOSS_TREES = 10_000, 20
DEPTHS, DEPTH_ROWS, DEPTH_COLUMNS = (1, 2, 3, 4, 5, 6), 5_000, 20
COLUMNS, COLUMN_ROWS = (10, 20, 40, 80, 160, 320), 2_000
ROWS, ROW_COLUMNS = (1_000, 2_000, 4_000, 8_000, 16_000), 50


def secureboost_losses(config: SecureBoostConfig, X: np.ndarray, y: np.ndarray) -> list[float]:
    def guest(channels):
        losses = []
        Guest(channels).train(config, X[:, :GUEST_COLUMNS], y, lambda _, m: losses.append(loss(config, m, y)))
        return losses

    roles = {"guest": guest, "host": lambda c: Host(c["guest"]).train(X[:, GUEST_COLUMNS:]).records.column}
    return run_processes(roles)["guest"]


def loss_against_trees() -> dict[str, list[float]]:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.metrics import log_loss
    from xgboost import XGBClassifier

    X, y = made_up_rows(LOSS_ROWS, 20)
    parameters = {"n_estimators": LOSS_TREES, "max_depth": 3, "learning_rate": 0.3}
    config = SecureBoostConfig.of(**parameters, max_bin=32, min_split_loss=0, guest_only="none", encryption="ou")
    curves = {"SecureBoost": secureboost_losses(config, X, y)}
    plain = XGBClassifier(**parameters, max_bin=32, min_child_weight=0.5, base_score=0.5)
    plain.fit(X, y, eval_set=[(X, y)], verbose=False)
    curves["XGBoost"] = plain.evals_result()["validation_0"]["logloss"]
    gbdt = GradientBoostingClassifier(**parameters, random_state=0).fit(X, y)
    curves["GBDT"] = [float(log_loss(y, p[:, 1])) for p in gbdt.staged_predict_proba(X)]
    return curves


def tree_seconds(rows: int, columns: int, depth: int) -> float:
    X, y = made_up_rows(rows, GUEST_COLUMNS + columns)
    config = SecureBoostConfig.of(n_estimators=2, max_depth=depth, max_bin=32, guest_only="none", encryption="ou")
    return measure(config, X, y)["cpu_seconds"]


def main() -> None:
    curves = loss_against_trees()
    panels = {
        "depth": {d: tree_seconds(DEPTH_ROWS, DEPTH_COLUMNS, d) for d in DEPTHS},
        "features": {c: tree_seconds(COLUMN_ROWS, c, 3) for c in COLUMNS},
        "rows": {r: tree_seconds(r, ROW_COLUMNS, 3) for r in ROWS},
    }
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, values), style in zip(curves.items(), ("-", "--", ":"), strict=True):
        axis.plot(range(1, len(values) + 1), values, style, label=name)
    axis.set(xlabel="trees", ylabel="training log-loss", title=f"{LOSS_ROWS:,} rows, 20 features, depth 3")
    axis.legend()
    figure.savefig(FIGURES / "secureboost_loss.png", dpi=120)
    titles = {
        "depth": f"(a) {DEPTH_ROWS:,} rows, {DEPTH_COLUMNS} host features",
        "features": f"(b) {COLUMN_ROWS:,} rows, depth 3",
        "rows": f"(c) {ROW_COLUMNS} host features, depth 3",
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for axis, (name, seconds) in zip(axes, panels.items(), strict=True):
        axis.plot(list(seconds), list(seconds.values()), "o-")
        axis.set(xlabel=name, ylabel="CPU seconds a tree", title=titles[name], ylim=(0, None))
    figure.savefig(FIGURES / "secureboost_time.png", dpi=120)
    path = Path("out/bench/secureboost_plots.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"loss": curves, "cpu_seconds": panels}, indent=2))


if __name__ == "__main__":
    main()
