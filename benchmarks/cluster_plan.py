"""What `sharewood plan` expects of a run over shards, against what the run took.

sharewood demo --rows 200000 --features 20 --depth 4 --shards 4 --test-size 0 --json report.json
python -m benchmarks.cluster_plan report.json [--workers 1]

Prints each figure beside the plan's, and ends with status 1 where one is off by more than 25%. On one machine shards
share the cores on which a small training is measured for the plan, so that by default one worker does all of them in
turn, over a link that takes no time.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from secure_tree.config import TrainConfig
from secure_tree.planning import Sizes
from sharewood.cluster_plan import Cluster, plan_cluster

MOST_OFF = 0.25
LOOPBACK = 100e9


def compare(report: dict[str, Any], workers: int) -> list[tuple[str, float, float]]:
    """The JSON of a demo -> figures, each as planned and as measured."""
    rows, features = report["data"]["rows"], report["data"]["features"]
    config = TrainConfig.of(**{k: v for k, v in report["config"].items() if v is not None})
    sizes = Sizes.numeric((rows[0], rows[1]), features)
    shards = report.get("shards") or 1
    without = "dealer" not in report["memory_peak_bytes"]
    cluster = Cluster(shards, min(workers, shards), link=LOOPBACK, round_trip=0.0)
    found = plan_cluster(config, sizes, cluster, "pairwise" if without else "dealer").estimate
    setup, online, offline = (report[phase] for phase in ("setup", "online", "offline"))
    peaks = [_largest(report["memory_peak_bytes"][party]) for party in ("party_a", "party_b")]
    sent = setup["bytes"] + online["bytes"] + offline["bytes_dealer"] + offline["bytes_parties"]
    return [
        ("bytes, of the dealer too", found.bytes + found.bytes_dealer, sent),
        ("seconds of set-up", found.seconds["setup"], setup["seconds"]),
        ("seconds online", found.seconds["online"], online["seconds"]),
        ("memory of a worker", found.memory, max(peaks)),
    ]


def _largest(peaks: int | dict[str, int]) -> int:
    return peaks if isinstance(peaks, int) else max(peaks.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    worst = 0.0
    for name, planned, measured in compare(json.loads(arguments.report.read_text()), arguments.workers):
        off = planned / measured - 1
        worst = max(worst, abs(off))
        print(f"{name:30} planned {planned:18,.1f}  measured {measured:18,.1f}  {off:+.0%}")
    return int(worst > MOST_OFF)


if __name__ == "__main__":
    sys.exit(main())
