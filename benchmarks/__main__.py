"""`make bench`: run the pytest-benchmark suite, write its JSON, and print one table beside CrypTen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

OUT = Path("out/bench")


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    results = OUT / "results.json"
    status = pytest.main(
        ["benchmarks", "-o", "python_files=bench_*.py", "-o", "addopts=", "-q", "--benchmark-only"]
        + ["--benchmark-quiet", f"--benchmark-json={results}", *sys.argv[1:]]
    )
    if results.exists():
        print_table(json.loads(results.read_text())["benchmarks"])
    return int(status)


def print_table(benchmarks: list[dict]) -> None:
    """Medians of one run: seconds, the ratio to CrypTen's median, and rounds and bytes, which are exact."""
    table = Table(title="Two processes, one thread each; medians of one run", title_justify="left")
    for column in (
        "operation",
        "n",
        "system",
        "online s",
        "CrypTen / ours",
        "with offline",
        "rounds",
        "MB",
        "dealt MB",
    ):
        table.add_column(column, justify="left" if column in ("operation", "system") else "right")
    measured = [(b["extra_info"], b["stats"]["median"]) for b in benchmarks if "system" in b["extra_info"]]
    crypten = {(info["name"], info["size"]): median for info, median in measured if info["system"] == "crypten"}
    for info, median in sorted(measured, key=lambda m: (m[0]["name"], m[0]["size"], m[0]["system"])):
        row = [info["name"], str(info["size"]), info["system"], f"{median:.4f}"]
        theirs = crypten.get((info["name"], info["size"]))
        if info["system"] != "crypten" and theirs is not None:
            row += [f"{theirs / median:.1f}", f"{theirs / (median + info['offline_seconds']):.1f}"]
            row += [str(info["rounds"]), f"{info['online_bytes'] / 1e6:.2f}", f"{info['offline_bytes'] / 1e6:.2f}"]
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
