"""Figures and tables of a run show the measurements."""

import json

from rich.console import Console

from benchmarks.__main__ import table
from benchmarks.bench_page import DOCS, at_largest, kept, page, run_of
from benchmarks.plot_bench import draw_all


def entry(system, size, seconds, **offline):
    info = {"suite": "operation", "system": system, "name": "product", "size": size, "rounds": 2}
    return {
        "extra_info": {**info, "online_bytes": 80 * size, "offline_bytes": 0, **offline},
        "stats": {"median": seconds},
    }


RUN = [
    *(entry("sharewood", n, n / 1e5, offline_seconds=n / 1e5, offline_bytes=9 * n) for n in (1_000, 10_000)),
    *(entry("CrypTen", n, n / 1e4) for n in (1_000, 10_000)),
    entry("CrypTen, third party", 10_000, 1.5),
]


def test_figures_are_written_for_what_was_measured(tmp_path):
    draw_all(RUN, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"operations.png", "operations.pdf"}


def test_the_table_has_the_ratios():
    console = Console(width=170)
    with console.capture() as printed:
        console.print(table(RUN))
    (ours,) = (row for row in printed.get().splitlines() if " sharewood " in row and "10,000" in row)
    cells = [cell.strip() for cell in ours.strip("│").split("│")]
    assert cells[:8] == ["product", "10,000", "sharewood", "0.1000", "0.1000", "2", "0.80", "0.09"]
    assert cells[8:] == ["10.0", "5.0", "15.0", "7.5"]


def run(processor, benchmarks):
    return run_of(
        {
            "machine_info": {"cpu": {"brand_raw": processor}},
            "commit_info": {"id": "0123456789"},
            "benchmarks": benchmarks,
        }
    )


def of(name):
    return json.loads((DOCS / "figures" / f"{name}.json").read_text())


def test_the_page_is_written_from_the_figures():
    assert (DOCS / "benchmarks.md").read_text() == page(of("benchmarks"), of("papers"), of("spu")), (
        "python -m benchmarks.bench_page --page writes it anew"
    )


def test_the_page_shows_the_largest_size():
    ours = entry("sharewood, no TLS", 10_000, 0.05, offline_seconds=0.05)
    ((key, systems),) = at_largest(kept([*RUN, ours]), "operation").items()
    assert key == ("product", 10_000)
    assert systems["sharewood"]["seconds"] == 0.1 and systems["CrypTen, third party"]["seconds"] == 1.5
    text = page(run("here", [*RUN, ours]), of("papers"), of("spu"))
    (row,) = (line for line in text.splitlines() if " / " in line and "10,000" in line)
    assert row == "| product | 10,000 | 10.0 / 5.0 | 15.0 / 7.5 | 20.0 / 10.0 | 30.0 / 15.0 |"
