"""The demo's report as tables on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "logloss": "log loss",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
}


def print_report(report: dict[str, Any], out: Path) -> None:
    """Quality beside XGBoost, cost by phase, and what each party learned."""
    console = Console()
    data, config = report["data"], report["config"]
    console.print(
        f"\n[bold]{data['title']}[/bold], {data['partition']}: {data['rows'][0]} rows at party_a, {data['rows'][1]} at "
        f"party_b, {data['features']} features in all; {config['n_estimators']} trees of depth {config['max_depth']}, "
        f"{config['max_bin']} bins\n"
    )
    console.print(_quality(report))
    console.print(_cost(report))
    console.print("[bold]What each party learned[/bold] besides row counts, feature names and parameters:")
    for name, revealed in zip(("party_a", "party_b"), report["revealed"], strict=True):
        console.print(f"  {name}: {'; '.join(revealed) or 'nothing'}")
    console.print("  dealer: the shapes of the computation\n")
    console.print(f"Each party's half of the model, and this report as JSON and as a page, are in {out}/")


def _quality(report: dict[str, Any]) -> Table:
    table = Table(title=f"Quality on {report['data']['judged_on']}", title_justify="left")
    table.add_column("measure")
    table.add_column("Sharewood, on secret shares", justify="right")
    table.add_column("XGBoost, on pooled rows", justify="right")
    mine = report["quality"]
    for key, name in NAMES.items():
        if mine.get(key) is not None:
            table.add_row(name, f"{mine[key]:.4f}", f"{mine['xgboost'][key]:.4f}")
    return table


def _cost(report: dict[str, Any]) -> Table:
    table = Table(title="Cost (TLS on this machine; bytes in both directions)", title_justify="left")
    for column in ("phase", "seconds", "rounds", "between the parties", "from the dealer"):
        table.add_column(column, justify="left" if column == "phase" else "right")
    setup, offline, online, predict = (report[k] for k in ("setup", "offline", "online", "predict"))
    table.add_row("setup, once", f"{setup['seconds']:.2f}", f"{setup['rounds']}", f"{megabytes(setup['bytes'])}", "")
    table.add_row(
        "offline, before the data is used",
        f"{offline['seconds']:.2f}",
        "0",
        megabytes(offline["bytes_parties"]),
        megabytes(offline["bytes_dealer"]),
    )
    table.add_row("online", f"{online['seconds']:.2f}", str(online["rounds"]), megabytes(online["bytes"]), "")
    table.add_row(
        "  per tree",
        f"{online['seconds_per_tree']:.3f}",
        f"{online['rounds_per_tree']:.0f}",
        megabytes(online["bytes_per_tree"]),
        "",
    )
    table.add_row(
        f"prediction of {predict['rows']} rows",
        f"{predict['seconds']:.3f}",
        str(predict["rounds"]),
        megabytes(predict["bytes"]),
        "",
    )
    return table


def megabytes(count: float) -> str:
    """Bytes in MB."""
    return f"{count / 1e6:.2f} MB"
