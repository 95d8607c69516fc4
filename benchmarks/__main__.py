"""`make bench`: run the pytest-benchmark suite; write its JSON and figures, and print its tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.plot_bench import draw_all

OUT = Path("out/bench")
TITLES = {
    "operation": "Operations beside CrypTen, whose provider deals within its online seconds",
    "protocol": "Every protocol",
    "tree": "A tree and its stages: n rows, 20 features, 32 bins, depth 4",
}


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    results = OUT / "results.json"
    status = pytest.main(
        ["benchmarks", "-o", "python_files=bench_*.py", "-o", "addopts=", "-q", "--benchmark-only"]
        + ["--benchmark-quiet", f"--benchmark-json={results}", *sys.argv[1:]]
    )
    if results.exists():
        benchmarks = json.loads(results.read_text())["benchmarks"]
        draw_all(benchmarks, OUT)
        console = Console(width=140)
        for suite in TITLES:
            console.print(table(benchmarks, suite))
    return int(status)


def table(benchmarks: list[dict[str, Any]], suite: str) -> Table:
    """Medians of one run: seconds, the ratio of CrypTen's median to them, and rounds and bytes, which are exact."""
    measured = [(b["extra_info"], b["stats"]["median"]) for b in benchmarks if b["extra_info"].get("suite") == suite]
    crypten = {(info["name"], info["size"]): median for info, median in measured if info["system"] == "CrypTen"}
    columns = ["name", "n", "system", "online s", "offline s", "rounds", "MB", "dealt MB"]
    if crypten:
        columns += ["CrypTen / ours", "with offline"]
    shown = Table(title=f"{TITLES[suite]}; two processes, one thread each", title_justify="left")
    for column in columns:
        shown.add_column(column, justify="left" if column in ("name", "system") else "right")
    order = {name: place for place, name in enumerate(dict.fromkeys(info["name"] for info, _ in measured))}
    for info, median in sorted(measured, key=lambda m: (order[m[0]["name"]], m[0]["size"], m[0]["system"])):
        offline = info.get("offline_seconds")
        row = [info["name"], f"{info['size']:,}", info["system"], f"{median:.4f}"]
        row += ["" if offline is None else f"{offline:.4f}", str(info["rounds"])]
        row += [f"{info[kind] / 1e6:.2f}" for kind in ("online_bytes", "offline_bytes")]
        theirs = crypten.get((info["name"], info["size"]))
        if theirs is not None and offline is not None:
            row += [f"{theirs / median:.1f}", f"{theirs / (median + offline):.1f}"]
        shown.add_row(*row)
    return shown


if __name__ == "__main__":
    sys.exit(main())
