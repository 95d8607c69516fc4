"""Measure how training scales with rows, features, bins and depth, between processes, one factor at a time.

python -m benchmarks.scaling            measures; writes docs/figures/scaling.json, the figure and docs/scaling.md
python -m benchmarks.scaling --page     writes figure and page from the existing JSON
python -m benchmarks.scaling --quick --out DIR      a few small sizes, written to DIR
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.program import DOCS, between, parse
from benchmarks.scaling_page import draw, page
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.runtime.local import DEALER, PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

TREES = 2


@dataclass(frozen=True)
class Study:
    """Sizes: a base point, and the values of each factor. Rows are varied at fewer features, so that a million fit."""

    base: dict[str, int]
    axes: dict[str, tuple[int, ...]]
    row_features: int


FULL = Study(
    base={"rows": 10_000, "features": 20, "bins": 32, "depth": 4},
    axes={
        "rows": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        "features": (5, 10, 20, 40, 80),
        "bins": (8, 16, 32, 64, 128),
        "depth": (1, 2, 3, 4, 5, 6),
    },
    row_features=4,
)
QUICK = Study(
    base={"rows": 200, "features": 3, "bins": 4, "depth": 2},
    axes={"rows": (100, 200), "features": (3, 6), "bins": (4, 8), "depth": (1, 2)},
    row_features=2,
)


def measure(sizes: dict[str, int]) -> dict[str, Any]:
    """Measure the cost per tree of TREES: seconds of the slower party, bytes in both directions, dealt, peak memory."""

    def job(party: Party) -> dict[str, Any]:
        n = sizes["rows"] // 2 + (sizes["rows"] % 2) * (1 - party.rank)
        X, y = made_up_rows(n, sizes["features"], party.rank)
        shape: dict[str, Any] = {"max_depth": sizes["depth"], "max_bin": sizes["bins"], "local_bins": sizes["bins"]}
        SecureXGBClassifier(n_estimators=TREES, **shape).fit(party, X, y)
        return {name: [s.seconds, s.bytes_sent + s.bytes_received, s.bytes_dealt] for name, s in party.stages.items()}

    outcome = run_session(job)
    results = [outcome[name]["result"] for name in PARTIES]
    slower = {name: max(r[name][0] for r in results) for name in results[0]}
    return {
        **sizes,
        "setup_seconds": slower["setup"],
        "offline_seconds": slower["offline"] / TREES,
        # The other party waited for this one while this one waited for the dealer.
        "online_seconds": min(r["online"][0] for r in results) / TREES,
        "online_bytes": results[0]["online"][1] / TREES,
        "dealt_bytes": sum(r["offline"][2] for r in results) / TREES,
        "party_memory": max(outcome[name]["memory_peak_bytes"] for name in PARTIES),
        "dealer_memory": outcome[DEALER]["memory_peak_bytes"],
    }


def run(study: Study) -> dict[str, Any]:
    """Measure every point of the study, and the memory of an idle process."""
    warm_up()
    idle = run_session(lambda party: None)[PARTIES[0]]["memory_peak_bytes"]
    points: dict[str, list[dict[str, Any]]] = {}
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for axis, values in study.axes.items():
        for value in values:
            fewer = {"features": study.row_features} if axis == "rows" else {}
            sizes = study.base | fewer | {axis: value}
            key = tuple(sizes.values())
            if key not in known:
                known[key] = measure(sizes)
                shown = {k: round(v, 3) for k, v in known[key].items() if k.endswith("seconds")}
                print(sizes, shown, flush=True)
            points.setdefault(axis, []).append(known[key])
    facts = {"base": study.base, "row_features": study.row_features, "trees": TREES, "cores": os.cpu_count()}
    return {**facts, "idle_memory": idle, "axes": points}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, quick=True)
    measured = options.out / "figures" / "scaling.json"
    if not options.page:
        measured.parent.mkdir(parents=True, exist_ok=True)
        measured.write_text(json.dumps(run(QUICK if options.quick else FULL), indent=1) + "\n")
    study = json.loads(measured.read_text())
    draw(study, options.out / "figures" / "scaling")
    (options.out / "scaling.md").write_text(page(study, between(DOCS / "scaling.md", "large")[1]))


if __name__ == "__main__":
    main()
