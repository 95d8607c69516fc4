"""Measure the cost of joint and private edges: the same training between processes with each kind in turn."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.runtime.session import DEALER, PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

# Rows, features and depth, as in the README.
SIZES = ((569, 30, 3), (10_000, 20, 4), (100_000, 20, 4))
MODES = ("joint", "private")


def measure(rows: int, features: int, depth: int, edges: str, trees: int) -> dict[str, Any]:
    """Measure a training: elapsed seconds, peak memory; by stage seconds, rounds, bytes in both directions, dealt
    bytes.

    Seconds are those of the slower party, except online: there, they are those of the party that waited less for the
    dealer. Dealing continues while trees are grown, so stages overlap.
    """

    def job(party: Party) -> dict[str, Any]:
        n = rows // 2 + (rows % 2) * (1 - party.rank)
        X, y = made_up_rows(n, features, party.rank)
        start = perf_counter()
        SecureXGBClassifier(n_estimators=trees, max_depth=depth, max_bin=32, edges=edges).fit(party, X, y)
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
    warm_up("bits")
    out = []
    for rows, features, depth in sizes:
        runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
        for _ in range(repeats):
            for mode in MODES:
                runs[mode].append(measure(rows, features, depth, mode, trees))
        for mode, measured in runs.items():
            of_mode = measured[-1]
            of_mode["elapsed"] = median(m["elapsed"] for m in measured)
            for stage in ("setup", "offline", "online"):
                of_mode[stage]["seconds"] = median(m[stage]["seconds"] for m in measured)
            out.append({"rows": rows, "features": features, "depth": depth, "edges": mode, "trees": trees, **of_mode})
            print(out[-1], flush=True)
    return out
