"""Training over shards: what depends on their number, and what does not; and two million rows on one machine.

python -m benchmarks.cluster            measures; writes docs/figures/cluster.json, the figure and docs/cluster_cost.md
python -m benchmarks.cluster --page     writes figure and page from the JSON that is there
python -m benchmarks.cluster --quick --out DIR      a few thousand rows, once, all of it to DIR

Each training runs in new processes, which first train on a few rows, twice. The first of these trainings takes longer;
the difference counts towards the seconds of a training, but not towards its CPU time. All numbers of shards and both
sizes take turns, three times, and twice for CPU time. Other work on the machine only adds to seconds, so the least of
the runs of a size is reported, with the largest beside it. For peak memory it is the median. What grows with rows is
the difference between the two sizes. In both sizes, the masked bins of every worker are in files, and the material
that it holds ahead fills its window, so the rest does not depend on rows. The memory of a run is that of all of its
processes at one time, including Ray and the dealers: the largest sum of their PSS, read five times a second.

CPU time is measured in runs of their own, in which a loop of the lowest priority keeps every core busy. A core that
shares its execution units with a busy one needs more CPU time for the same work, so without the loops, a training with
more processes at work would appear to do more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster_page import draw, page
from benchmarks.program import CHILD, parse
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost.calibration import Computing, calibrate
from sharewood.cost.cluster import Cluster, plan_cluster
from sharewood.report.shards import with_workers
from sharewood.warming_up import warm_up

DOCS = Path(__file__).parents[1] / "docs"
FEATURES, DEPTH, TREES = 20, 4, 2
WARM = 2_000
# With 0 shards, each party is one process, without Ray.
FULL: dict[str, Any] = {
    "rows": 200_000,
    "more": 400_000,
    "large": 2_000_000,
    "runs": 3,
    "cpu_runs": 2,
    "shards": (0, 1, 2, 4),
}
QUICK: dict[str, Any] = {"rows": 2_000, "more": 4_000, "large": 8_000, "runs": 1, "cpu_runs": 1, "shards": (0, 2)}
HELD_OUT = 0.05
CONFIG = TrainConfig.of(n_estimators=TREES, max_depth=DEPTH)
LOOPBACK = 100e9  # bits a second: loopback takes no time that is not computing


def train(rows: int, shards: int) -> dict[str, Any]:
    """What one training takes: rounds of party A with B, bytes in both directions, seconds of party A, among them what
    the first training of a process takes longer, and of each process that has rows CPU seconds and peak memory.
    """

    def job(party: Party) -> dict[str, Any]:
        X, y = made_up_rows(rows // 2, FEATURES, party.rank)
        model = SecureXGBClassifier(n_estimators=TREES, max_depth=DEPTH)
        began, few = time.perf_counter(), slice(WARM // 2)
        model.fit(party, X[few], y[few])
        first = time.perf_counter() - began
        model.fit(party, X[few], y[few])
        start = max(0.0, 2 * first - (time.perf_counter() - began))
        before = _spent(party)
        model.fit(party, X, y)
        after = _spent(party)
        return {"start": start, **{name: _less(after[name], before[name]) for name in after}}

    outcome = run_session(job, shards=shards)
    first, second = (outcome[name]["result"] for name in PARTIES)
    of_rows = [each for name in PARTIES for each in outcome[name].get("workers", [outcome[name]])]
    return {
        "rounds": first["rounds"],
        "bytes": first["bytes"],
        "bytes_dealt": first["bytes_dealt"] + second["bytes_dealt"],
        "seconds": first["start"] + first["seconds"][0] + max(first["seconds"][1:]),
        "cpu_seconds": first["cpu_seconds"] + second["cpu_seconds"],
        "memory": [each["memory_peak_bytes"] for each in of_rows],
    }


def _spent(party: Party) -> dict[str, Any]:
    """So far: rounds, bytes, seconds of set-up, offline and online, and CPU seconds of each process that has rows."""
    workers = party.workers.costs() if party.workers else []
    stages = with_workers(party.stages, workers)
    return {
        "rounds": sum(stage.rounds for stage in stages.values()),
        "bytes": sum(stage.bytes_sent + stage.bytes_received for stage in stages.values()),
        "bytes_dealt": sum(stage.bytes_dealt for stage in stages.values()),
        "seconds": [party.stages[name].seconds for name in ("setup", "offline", "online")],
        "cpu_seconds": [each["cpu_seconds"] for each in workers] or [time.process_time()],
    }


def _less(after: Any, before: Any) -> Any:
    return [a - b for a, b in zip(after, before, strict=True)] if isinstance(after, list) else after - before


def watched(*command: object) -> tuple[str, int, float]:
    """Run Python; what it printed, the most memory of it and its descendants at one time, and its seconds."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True, env=CHILD)
    most = 0
    while child.poll() is None:
        most = max(most, sum(map(_memory, _with_descendants(child.pid))))
        time.sleep(0.2)
    assert child.stdout is not None, "it is a pipe"
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    return child.stdout.read(), most, time.perf_counter() - began


def _with_descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    found, new = {pid}, {pid}
    while new := {child for child, parent in parents.items() if parent in new} - found:
        found |= new
    return found


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def of_shards(sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure trainings of both sizes by number of shards."""
    runs = _in_turns(sizes, sizes["runs"])
    with busy_cores():
        cpu = _in_turns(sizes, sizes["cpu_runs"])
    points = []
    for shards in sizes["shards"]:
        of_sizes = {size: _summary(runs[shards, size], cpu[shards, size]) for size in ("rows", "more")}
        points.append({"shards": shards, **of_sizes})
        if shards:
            points[-1]["planned"] = planned(sizes["rows"], shards, sizes["runs"])
    return points


def _in_turns(sizes: dict[str, Any], times: int) -> dict[tuple[int, str], list[dict[str, Any]]]:
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for _ in range(times):
        for shards in sizes["shards"]:
            for size in ("rows", "more"):
                runs.setdefault((shards, size), []).append(_one(sizes[size], shards))
                print(shards, runs[shards, size][-1], flush=True)
    return runs


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with a loop of the lowest priority."""
    loop = "import os; os.nice(19)\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def _one(rows: int, shards: int) -> dict[str, Any]:
    printed, together, _ = watched("-m", "benchmarks.cluster", "--one", rows, shards)
    return json.loads(printed.splitlines()[-1]) | {"memory_together": together}


def _summary(runs: list[dict[str, Any]], busy: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the runs of a size: least and largest CPU seconds of all processes that have rows, in the `busy` runs;
    least and largest seconds; median of the peak memory of the largest process that has rows, and of all processes.
    """
    cpu = [sum(run["cpu_seconds"]) for run in busy]
    seconds = [run["seconds"] for run in runs]
    return {
        **{name: runs[0][name] for name in ("rounds", "bytes", "bytes_dealt")},
        "cpu_seconds": [min(cpu), max(cpu)],
        "seconds": [min(seconds), max(seconds)],
        "memory": median(max(run["memory"]) for run in runs),
        "memory_together": median(run["memory_together"] for run in runs),
    }


def planned(rows: int, shards: int, runs: int, memory: float | None = None) -> dict[str, float]:
    """What `sharewood plan` says of it, if shards take turns on this machine, over a link that takes no time. `memory`:
    GiB that a party has for them and for its files.
    """
    cluster = Cluster(shards, 1, memory, link=LOOPBACK, round_trip=0.0, disk=_disk() / 2 if memory else 500e6)
    sizes = Sizes.numeric((rows // 2, rows - rows // 2), FEATURES)
    found = plan_cluster(CONFIG, sizes, cluster, measure=lambda config, some: _computing(config, some, runs)).estimate
    return {
        "bytes": found.bytes,
        "bytes_dealt": found.bytes_dealer,
        "seconds": found.total_seconds,
        "memory": found.memory,
    }


@cache
def _computing(config: TrainConfig, some: Sizes, runs: int) -> Computing:
    """The least of as many measurements as there are runs: all plans rest on the same small trainings."""
    found = [calibrate(config, some, shards=1) for _ in range(runs)]
    return Computing(*(min(getattr(each, field.name) for each in found) for field in fields(Computing)))


def _disk(size: int = 1 << 31) -> float:
    """Bytes a second that a temporary file of this size is written and read at."""
    block = memoryview(bytes(1 << 22))
    with tempfile.TemporaryFile(buffering=0) as file:
        began = time.perf_counter()
        for _ in range(size // len(block)):
            file.write(block)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        while file.read(len(block)):
            pass
        return 2 * size / (time.perf_counter() - began)


def large(rows: int, shards: int, runs: int) -> dict[str, Any]:
    """`sharewood demo` over shards: memory, seconds, and the metric beside XGBoost's on the pooled rows."""
    size = ("--rows", rows, "--features", FEATURES, "--depth", DEPTH, "--trees", TREES, "--test-size", HELD_OUT)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _, together, seconds = watched(
            "-c",
            "from sharewood.cli import main; main()",
            "demo",
            *size,
            "--shards",
            shards,
            "--json",
            report,
            "--out",
            folder,
        )
        told = json.loads(report.read_text())
    peaks = [told["memory_peak_bytes"][name] for name in PARTIES]
    measured = {
        "bytes": told["setup"]["bytes"] + told["online"]["bytes"],
        "bytes_dealt": told["offline"]["bytes_dealer"],
        "seconds": told["setup"]["seconds"] + told["online"]["seconds"],
        "memory": max(size for each in peaks for process, size in each.items() if process != "lead"),
    }
    # What other processes leave to a party's worker and files.
    left = measured["memory"] + (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") - together) / 2
    return {
        "rows": round(rows * (1 - HELD_OUT)),
        "shards": shards,
        "seconds": seconds,
        "memory_together": together,
        "memory_lead": max(each["lead"] for each in peaks),
        "quality": told["quality"],
        "measured": measured,
        "planned": planned(round(rows * (1 - HELD_OUT)), shards, runs, left / 2**30),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--only", choices=("shards", "large"), help="measure this part, and keep the other one")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parse(parser, arguments, quick=True)
    if options.one:
        warm_up()
        print(json.dumps(train(*options.one)))
        return
    measured, sizes = options.out / "figures" / "cluster.json", QUICK if options.quick else FULL
    if not options.page:
        measured.parent.mkdir(parents=True, exist_ok=True)
        study = json.loads(measured.read_text()) if options.only and measured.exists() else {}
        study |= {"sizes": sizes, "features": FEATURES, "depth": DEPTH, "trees": TREES, "cores": os.cpu_count()}
        if options.only != "large":
            study["shards"] = of_shards(sizes)
        if options.only != "shards":
            study["large"] = large(sizes["large"], sizes["shards"][-1], sizes["runs"])
        measured.write_text(json.dumps(study, indent=1) + "\n")
    study = json.loads(measured.read_text())
    draw(study, options.out / "figures" / "cluster")
    (options.out / "cluster_cost.md").write_text(page(study))


if __name__ == "__main__":
    main()
