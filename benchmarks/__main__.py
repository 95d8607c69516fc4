"""Time every protocol, the stages of a tree and the channels, and compare the basic operations with CrypTen."""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.plot_bench import draw_all

OUT = Path("out/bench")
# Systems for comparison, and the names of the ratios to them.
RIVALS = {"CrypTen": "CrypTen / ours", "CrypTen, third party": "third party / ours"}
HEADING = (
    "Medians; two processes, one thread each. CrypTen has no TLS, and deals online: by party 0, which then knows every "
    "mask, or by a third party, like our dealer"
)
TITLES = {
    "operation": "Beside CrypTen",
    "protocol": "Every protocol",
    "tree": "A tree: n x 20, 32 bins, depth 4",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        usage="%(prog)s [-h] [--out DIR] [--smallest] [pytest's options, such as -k product]",
        description=__doc__,
        epilog="\n".join(["further programs, each with --help:", *_programs()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"of the JSON and the figures; default {OUT}")
    parser.add_argument("--smallest", action="store_true", help="run each benchmark once, at its smallest size")
    options, further = parser.parse_known_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.json"
    results.unlink(missing_ok=True)
    status = pytest.main(
        [str(Path(__file__).parent), "-o", "python_files=bench_*.py", "-o", "addopts=", "-q", "--benchmark-only"]
        + ["--benchmark-quiet", f"--benchmark-json={results}", *["--smallest"] * options.smallest, *further]
    )
    if results.exists():
        benchmarks = json.loads(results.read_text())["benchmarks"]
        draw_all(benchmarks, options.out)
        Console(width=170).print(table(benchmarks))
    return int(status)


def programs() -> dict[str, str]:
    """Return the first line of each further program of this package, by module."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    del found["__main__"]
    return found


def _programs() -> Iterator[str]:
    """Return a line for each program."""
    found = programs()
    width = max(map(len, found))
    for name, line in found.items():
        yield f"  benchmarks.{name:{width}}  {line}"


def table(benchmarks: list[dict[str, Any]]) -> Table:
    """Print the medians of one run: seconds, the ratios of CrypTen's to them, and exact rounds and bytes."""
    shown = Table(title=HEADING, title_justify="left")
    columns = [
        "name",
        "n",
        "system",
        "online s",
        "offline s",
        "rounds",
        "MB",
        "dealt MB",
        *(column for rival in RIVALS.values() for column in (rival, "with offline")),
    ]
    for column in columns:
        shown.add_column(column, justify="left" if column in ("name", "system") else "right")
    for suite, title in TITLES.items():
        measured = [
            (b["extra_info"], b["stats"]["median"]) for b in benchmarks if b["extra_info"].get("suite") == suite
        ]
        if measured:
            shown.add_section()
            shown.add_row(f"[bold]{title}")
            for row in _rows(measured):
                shown.add_row(*row)
    return shown


def _rows(measured: list[tuple[dict[str, Any], float]]) -> Iterator[list[str]]:
    """Return the rows of one suite, by name, size and system."""
    medians = {(info["system"], info["name"], info["size"]): median for info, median in measured}
    order = {name: place for place, name in enumerate(dict.fromkeys(info["name"] for info, _ in measured))}
    for info, median in sorted(measured, key=lambda m: (order[m[0]["name"]], m[0]["size"], m[0]["system"])):
        offline = info.get("offline_seconds")
        row = [info["name"], f"{info['size']:,}", info["system"], f"{median:.4f}"]
        row += ["" if offline is None else f"{offline:.4f}", str(info["rounds"])]
        row += [f"{info[kind] / 1e6:.2f}" for kind in ("online_bytes", "offline_bytes")]
        for rival in RIVALS:
            theirs = medians.get((rival, info["name"], info["size"]))
            if theirs is None or offline is None:
                row += ["", ""]
            else:
                row += [f"{theirs / median:.1f}", f"{theirs / (median + offline):.1f}"]
        yield row


if __name__ == "__main__":
    sys.exit(main())
