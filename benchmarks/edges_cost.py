"""Measure what a tree costs by rows with private and with joint edges, and by columns: seconds, rounds, bytes, memory.

python -m benchmarks.edges_cost           measures; writes docs/figures/edges_cost.json and the tables made from it
python -m benchmarks.edges_cost --page    writes the tables from the existing JSON

The tables are those of README, "Measured", and of docs/heterogeneity.md, "Cost". Both kinds of edges take turns.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.edges_cost_tables import costs, measured
from benchmarks.program import DOCS, ROOT, parse, write_between
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.runtime.local import DEALER, PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

# Rows, features and depth, as in the README.
SIZES = ((569, 30, 3), (10_000, 20, 4), (100_000, 20, 4))
SMALLEST = ((40, 3, 2),)
MODES = ("joint", "private")


def measure(rows: int, features: int, depth: int, trees: int, edges: str | None = None) -> dict[str, Any]:
    """Measure a training: elapsed seconds, peak memory; by stage seconds, rounds, bytes in both directions, dealt
    bytes. Without `edges`, data is by columns, half of them at each party.

    Seconds are those of the slower party, except online: there, they are those of the party that waited less for the
    dealer. Dealing continues while trees are grown, so stages overlap.
    """

    def job(party: Party) -> dict[str, Any]:
        shape: dict[str, Any] = {"n_estimators": trees, "max_depth": depth, "max_bin": 32}
        if edges:
            X, y = made_up_rows(rows // 2 + (rows % 2) * (1 - party.rank), features, party.rank)
            model = SecureXGBClassifier(**shape, edges=edges)
        else:
            X, y = made_up_rows(rows, features, 0)
            X = X[:, party.rank :: 2]
            model = SecureXGBClassifier(**shape, partition="vertical")
        start = perf_counter()
        model.fit(party, X, y if edges or party.rank == 0 else None)
        elapsed = perf_counter() - start
        stages = {
            name: {"seconds": s.seconds, "rounds": s.rounds, "bytes": s.bytes_sent, "dealt": s.bytes_dealt}
            for name, s in party.stages.items()
        }
        return {"elapsed": elapsed, "stages": stages}

    outcome = run_session(job)
    results = [outcome[name]["result"] for name in PARTIES]
    first, second = (result["stages"] for result in results)
    stages = {
        name: {
            "seconds": (min if name == "online" else max)(first[name]["seconds"], second[name]["seconds"]),
            "rounds": first[name]["rounds"],
            **{what: first[name][what] + second[name][what] for what in ("bytes", "dealt")},
        }
        for name in first
    }
    memory = max(outcome[name]["memory_peak_bytes"] for name in (*PARTIES, DEALER))
    return {**stages, "elapsed": max(result["elapsed"] for result in results), "memory": memory}


def compare(sizes: tuple[tuple[int, int, int], ...], trees: int, repeats: int) -> list[dict[str, Any]]:
    """Measure every size with both kinds of edges in turn; return medians of the seconds of each stage."""
    warm_up()
    out = []
    for rows, features, depth in sizes:
        runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
        for _ in range(repeats):
            for mode in MODES:
                runs[mode].append(measure(rows, features, depth, trees, mode))
        for mode, ran in runs.items():
            of_mode = ran[-1]
            of_mode["elapsed"] = median(m["elapsed"] for m in ran)
            for stage in ("setup", "offline", "online"):
                of_mode[stage]["seconds"] = median(m[stage]["seconds"] for m in ran)
            out.append({"rows": rows, "features": features, "depth": depth, "edges": mode, "trees": trees, **of_mode})
            print(out[-1], flush=True)
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT, help="has README.md and docs; by default this checkout")
    options = parse(parser, arguments, quick=True, repeats=1)
    kept = options.out / "docs" / "figures" / "edges_cost.json"
    if not options.page:
        sizes, trees = (SMALLEST, 1) if options.quick else (SIZES, 3)
        points = compare(sizes, trees, options.repeats)
        rows, features, depth = sizes[0]
        columns = {"trees": trees, **measure(rows, features, depth, trees)}
        kept.parent.mkdir(parents=True, exist_ok=True)
        study = {"cores": os.cpu_count(), "points": points, "columns": columns}
        kept.write_text(json.dumps(study, indent=1) + "\n")
    study = json.loads(kept.read_text())
    write_between(ROOT / "README.md", "measured", measured(study), options.out / "README.md")
    write_between(DOCS / "heterogeneity.md", "cost", costs(study["points"]), options.out / "docs" / "heterogeneity.md")


if __name__ == "__main__":
    main()
