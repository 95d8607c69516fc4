"""The page and the figure of the benchmark of shards, made from its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.complexity import table
from benchmarks.figures import save, small_multiples

GB, MB, MIB = 1e9, 1e6, 1 << 20
PLANNED = {
    "bytes": ("GB between the parties", GB),
    "bytes_dealt": ("GB dealt", GB),
    "seconds": ("seconds", 1.0),
    "memory": ("peak memory of a worker, MiB", MIB),
}


def cpu_of_rows(point: dict[str, Any]) -> float:
    """CPU seconds that grow with rows, of all processes that have rows: the difference between both sizes."""
    return point["more"]["cpu_seconds"][0] - point["rows"]["cpu_seconds"][0]


def memory_of_rows(point: dict[str, Any]) -> float:
    """Bytes at the peak that grow with rows, of the largest process that has rows."""
    return point["more"]["memory"] - point["rows"]["memory"]


def measured(point: dict[str, Any]) -> dict[str, float]:
    """Figures of a training that a plan states, too."""
    run = point.get("measured") or point["rows"] | {"seconds": point["rows"]["seconds"][0]}
    return {name: run[name] for name in PLANNED}


def draw(study: dict[str, Any], path: Path) -> None:
    """CPU time and memory that grow with rows, by number of shards, beside 1/N of one process."""
    points = study["shards"]
    names = ["no Ray" if not p["shards"] else str(p["shards"]) for p in points]
    cpu = [cpu_of_rows(p) for p in points]
    memory = [memory_of_rows(p) / MIB for p in points]
    figure, axes = small_multiples(1, 2)
    for axis, values, label in (
        (axes[0, 0], cpu, "CPU s, all workers"),
        (axes[0, 1], memory, "MiB, largest worker"),
    ):
        axis.bar(names, values, color="#0072B2", width=0.6)
        axis.set_xlabel("shards per party")
        axis.set_ylabel(label)
    parts = [memory[0] / max(1, p["shards"]) for p in points]
    axes[0, 1].plot(names[1:], parts[1:], color="#D55E00", marker="o", linestyle="--", label="1/N of one process")
    axes[0, 1].set_ylim(0, 1.3 * max(memory))
    axes[0, 1].legend(frameon=False)
    figure.set_size_inches(5.6, 2.4)
    save(figure, path)


def _shards(study: dict[str, Any]) -> str:
    points, rows = study["shards"], []
    one = points[0]
    for p in points:
        cpu, memory = cpu_of_rows(p), memory_of_rows(p)
        spreads = (f"{p[size]['cpu_seconds'][0]:.1f} to {p[size]['cpu_seconds'][1]:.1f}" for size in ("rows", "more"))
        rows.append(
            [
                str(p["shards"]) if p["shards"] else "one process, no Ray",
                f"{p['rows']['rounds']:,}",
                f"{p['rows']['bytes'] / MB:,.1f}",
                *spreads,
                f"{cpu:.1f}",
                f"{cpu / cpu_of_rows(one):.2f}",
                f"{memory / MIB:,.0f}",
                f"{memory / memory_of_rows(one):.2f}",
                f"{p['rows']['memory'] / MIB:,.0f}",
                f"{p['rows']['memory_together'] / MIB:,.0f}",
            ]
        )
    sizes = study["sizes"]
    head = ["shards per party", "rounds", "MB between the parties"]
    head += [f"CPU s, {sizes[size]:,} rows" for size in ("rows", "more")]
    head += ["CPU s of rows", "times one process", "MiB of rows, largest worker", "times one process"]
    return table([*head, "peak of that worker, MiB", "MiB of all processes"], rows, words_first=1)


def _plans(study: dict[str, Any]) -> str:
    rows = []
    runs = [(study["sizes"]["rows"], p["shards"], p) for p in study["shards"] if p["shards"]]
    runs.append((study["large"]["rows"], study["large"]["shards"], study["large"]))
    for count, shards, point in runs:
        cells = []
        for name, (_, unit) in PLANNED.items():
            plan, run = point["planned"][name], measured(point)[name]
            cells.append(f"{plan / unit:,.2f}, {run / unit:,.2f} ({plan / run - 1:+.0%})")
        rows.append([f"{count:,}", str(shards), *cells])
    return table(["rows", "shards", *(label for label, _ in PLANNED.values())], rows)


def kb(memory: float, rows: int) -> str:
    """Memory of one of so many rows."""
    return f"{memory / rows / 1e3:.2f} kB"


def one_of(point: dict[str, Any], rows: int) -> int:
    """Rows of one of the shards."""
    return rows // point["shards"]


def page(study: dict[str, Any]) -> str:
    sizes, large = study["sizes"], study["large"]
    one, most = study["shards"][0], study["shards"][-1]
    quality = large["quality"]
    return f"""# What shards cost

Written by `python -m benchmarks.cluster` from what it measured, `figures/cluster.json`: edit nothing here.

Both parties, their Rays and the dealers share one machine of {study["cores"]} cores: seconds of a run tell little about
a cluster, and what is compared is rounds, bytes, CPU time and memory. Half of the rows are at either party,
{study["features"]} features, depth {study["depth"]}, {study["trees"]} trees, private edges, with a dealer.

## By number of shards

Rounds, bytes, the peak of a worker and the memory of all processes are those of {sizes["rows"]:,} rows. CPU time and
memory "of rows" are what {sizes["more"] - sizes["rows"]:,} rows more take, the difference to {sizes["more"]:,} rows:
what every worker imports, and what it holds in advance, up to a bound, is not in it. CPU time is that of all workers of
both parties, or of both processes, in a second training of the same processes. All rows of the table took turns,
{sizes["runs"]} times. Other work on the machine only adds to CPU time, so that the least counts; the largest stands
beside it. Memory is the median.

{_shards(study)}

In one process a row takes {kb(memory_of_rows(one), sizes["more"] - sizes["rows"])} at either party, and in a worker of
{one_of(most, sizes["rows"]):,} to {one_of(large, large["rows"]):,} rows, below,
{kb(large["measured"]["memory"] - most["rows"]["memory"], one_of(large, large["rows"]) - one_of(most, sizes["rows"]))}.
Masked bins are not in it: they lie in temporary files, which are read piece by piece.

![CPU time and memory by number of shards](figures/cluster.png)

## Many rows on one machine

{large["rows"]:,} rows in {large["shards"]} shards per party, whose workers take turns on the cores, took
{large["seconds"]:,.0f} seconds from start to finish, XGBoost on the pooled rows included. All processes together had at
most {large["memory_together"] / 2**30:.1f} GiB of memory. The largest worker had
{large["measured"]["memory"] / MIB:,.0f} MiB. The larger lead, which in the demo makes up the table and divides it,
had {large["memory_lead"] / MIB:,.0f} MiB.
AUC on held-out rows: {quality["auc"]:.4f}, XGBoost {quality["xgboost"]["auc"]:.4f}.

## Plans

What `sharewood plan --shards` states beforehand, and what was measured. One worker is planned to do all shards in turn,
over a link that takes no time, since the plan measures few rows with all processes on this machine. For the last run it
was told the memory that other processes leave to a party, and the rate of the disk as measured, half of it per party.
Seconds are those of the training, without starting Ray. Of {sizes["runs"]} measurements of the plan the least counts,
and of {sizes["rows"]:,} rows the least of as many runs.

{_plans(study)}
"""
