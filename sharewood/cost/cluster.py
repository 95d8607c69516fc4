"""`sharewood plan --shards | --workers | --memory`: a training whose rows lie in shards at each party.

What a training takes has a part that does not depend on the rows, and one that is linear in them. Both are found from
two plans of fewer rows (sharewood/cost/plan.py) and from two small trainings on this machine, with a worker on Ray. The
part of the rows is laid out over shards and workers, the other one counts once, and what a process takes at its start
once per shard. At 10^6 rows this line meets planned bytes to 0.2%. Corrections of each shard's histograms are left out.

Masked bins lie in temporary files. Where a worker's memory does not hold them as well, they are written to its disk in
the set-up, and what is beyond the memory is read for every level of every tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from rich.console import Console
from rich.table import Table

from mpc.errors import ConfigError
from protocols.offline.supply import WINDOW
from protocols.runtime.settings import FROM_DEALER, Maker, Offline
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost.calibration import Computing, calibrate
from sharewood.cost.plan import Networks, PlannedTables, plan, plan_pairwise
from sharewood.report.figures import Figures

# Rows of the larger table that are planned, and that are trained on: of so many, masked bins lie in a file and material
# that is held ahead fills its window, so that the line through memory is that of more rows.
PLANNED = 60_000, 200_000
COMPUTED = 30_000, 100_000
PHASES = "setup", "offline", "online"
GIB = 1 << 30
GB = 1e9

StageSeconds = dict[str, float]


@dataclass(frozen=True)
class Cluster(Figures):
    """What each party has: shards, workers that run one shard at a time, the GiB of memory of one. Of both: bits a
    second of the link in each direction, its round trip in seconds, bytes a second of a worker's disk, and prices of a
    worker's hour and of a GB sent.
    """

    shards: int | None = None
    workers: int | None = None
    memory: float | None = None
    link: float = 10e9
    round_trip: float = 10e-3
    hour_price: float = 0.0
    gigabyte_price: float = 0.0
    disk: float = 500e6

    def __post_init__(self) -> None:
        for name in ("shards", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        if self.shards and self.workers and self.workers > self.shards:
            raise ConfigError(
                f"workers must be at most the number of shards, {self.shards}, got {self.workers}: a worker without a "
                "shard does nothing"
            )


@dataclass(frozen=True)
class LinearCost:
    """fixed + of_rows x, where x is the share of all rows."""

    fixed: float
    of_rows: float

    @classmethod
    def through(cls, first: tuple[float, float], second: tuple[float, float]) -> LinearCost:
        """Two points (x, y). Where noise hides one of the parts, all that the second point has is of the rows: too much
        rather than too little, as x grows.
        """
        (x0, y0), (x1, y1) = first, second
        slope = (y1 - y0) / (x1 - x0) if x0 < x1 else 0.0
        fixed = y1 - slope * x1
        return cls(fixed, slope) if slope >= 0 and fixed >= 0 else cls(0.0, y1 / x1)

    def at(self, x: float) -> float:
        return self.fixed + self.of_rows * x


@dataclass(frozen=True)
class Estimate(Figures):
    """rounds: of a shard, which all shards do at once; bytes: between the parties, both
    directions, and of these offline; bytes_dealer. memory: the most of a worker; files: its temporary ones, in bytes.
    shards_needed: for the memory of the cluster, if one is stated. Seconds by phase: what the network takes, what
    computing takes that is linear in the rows, what else computing takes, what the disk takes, and the sum, of which
    offline goes on beside online.
    """

    rounds: int
    bytes: int
    bytes_offline: int
    bytes_dealer: int
    memory: int
    files: int
    shards_needed: int | None
    network_seconds: StageSeconds
    row_seconds: StageSeconds
    other_seconds: StageSeconds
    disk_seconds: StageSeconds
    seconds: StageSeconds
    total_seconds: float
    worker_hours: float
    price: float


@dataclass(frozen=True)
class ClusterPlan(Figures):
    """A training, the clusters, and what it takes there, with a dealer or without (`offline`)."""

    data: PlannedTables
    config: TrainConfig
    cluster: Cluster
    offline: Maker
    shards: int
    workers: int
    estimate: Estimate


def plan_cluster(
    config: TrainConfig,
    sizes: Sizes,
    cluster: Cluster,
    offline: Offline = FROM_DEALER,
    measure: Callable[[TrainConfig, Sizes], Computing] | None = None,
) -> ClusterPlan:
    """What a training of these sizes takes. `measure` computes some of its rows, by default on this machine.

    Raises ConfigError where no number of shards fits the memory, or Ray is not installed.
    """
    finer = config.finer(sizes.rows)
    # Parts of the rows have the local bins of all of them.
    of_parts = config if finer == 1 else config.model_copy(update={"local_bins": config.max_bin * finer})
    measured, starts = measure or (lambda config, some: calibrate(config, some, offline, shards=1)), list[float]()

    def figures(some: Sizes) -> dict[str, float]:
        found = asdict(measured(of_parts, some))
        starts.append(found.pop("start"))
        return found

    computing = _through(COMPUTED, sizes, figures)
    needed = _needed(cluster, computing["memory"])
    shards = cluster.shards or max(cluster.workers or 1, needed or 1)
    workers = cluster.workers or shards
    networks = {"trips": (cluster.round_trip, math.inf), "bytes": (0.0, cluster.link)}
    planned = _through(PLANNED, sizes, lambda some: _planned(of_parts, some, offline, networks))
    tables = PlannedTables(list(sizes.rows), [len(names) for names in sizes.names])
    estimate = _estimate(config, cluster, shards, workers, planned, computing, min(starts), needed)
    return ClusterPlan(tables, config, cluster, offline.maker, shards, workers, estimate)


def _through(
    rows: tuple[int, int], sizes: Sizes, figures: Callable[[Sizes], dict[str, float]]
) -> dict[str, LinearCost]:
    """Lines through the figures of two parts of all rows."""
    (x0, first), (x1, second) = ((x, figures(some)) for x, some in (_part(sizes, count) for count in rows))
    return {name: LinearCost.through((x0, first[name]), (x1, second[name])) for name in first}


def _planned(config: TrainConfig, sizes: Sizes, offline: Offline, networks: Networks) -> dict[str, float]:
    """Rounds, bytes, and by phase seconds for round trips and for bytes. Raises ConfigError."""
    if not offline.pairwise:
        with_dealer = plan(config, sizes, ot=offline.ot, networks=networks)
        online, waiting = with_dealer.online, with_dealer.network_seconds
        rounds, ahead, dealt = 0, 0, with_dealer.offline.bytes_dealer
    else:
        pair = plan_pairwise(config, sizes, offline.ot, networks=networks)
        online, waiting = pair.online, pair.network_seconds
        rounds, ahead, dealt = pair.rounds, pair.bytes, 0
    found: dict[str, float] = {
        "rounds": online.rounds + rounds,
        "bytes": online.bytes + ahead,
        "ahead": ahead,
        "dealt": dealt,
    }
    return found | {f"{kind} {phase}": spent for kind, phases in waiting.items() for phase, spent in phases.items()}


def _part(sizes: Sizes, rows: int) -> tuple[float, Sizes]:
    """Sizes of which the larger table has at most so many rows, and what share of all rows that is."""
    x = min(1.0, rows / max(sizes.rows))

    def fewer(count: int) -> int:
        return max(1, round(x * count))

    held = sizes.validation_rows
    some = None if held is None else (held[0] and max(5, fewer(held[0])), held[1] and max(5, fewer(held[1])))
    return x, replace(sizes, rows=(fewer(sizes.rows[0]), fewer(sizes.rows[1])), validation_rows=some)


def _needed(cluster: Cluster, memory: LinearCost) -> int | None:
    """The shards that fit the memory of a worker."""
    if cluster.memory is None:
        return None
    room = cluster.memory * GIB - memory.fixed - WINDOW
    if room <= 0:
        least = math.ceil((memory.fixed + WINDOW) / GIB)
        raise ConfigError(f"memory must be above {least} GiB for a worker of this training, got {cluster.memory:g}")
    return max(1, math.ceil(memory.of_rows / room))


def _estimate(
    config: TrainConfig,
    cluster: Cluster,
    shards: int,
    workers: int,
    lines: dict[str, LinearCost],
    computing: dict[str, LinearCost],
    start: float,
    needed: int | None,
) -> Estimate:
    at_once, turns = 1 / shards, math.ceil(shards / workers)
    times = {"setup": 1, "offline": config.n_estimators, "online": config.n_estimators}
    network = {p: turns * lines[f"trips {p}"].at(at_once) + lines[f"bytes {p}"].at(1.0) for p in PHASES}
    rows = {p: times[p] * computing[p].of_rows * turns * at_once for p in PHASES}
    other = {p: times[p] * computing[p].fixed for p in PHASES}
    other["setup"] += turns * start
    # In the set-up a party receives little but masked bins.
    files = lines["bytes setup"].of_rows * cluster.link / 8 * at_once
    memory = computing["memory"].at(at_once)
    room = math.inf if cluster.memory is None else max(0.0, cluster.memory * GIB - memory)
    beyond = max(0.0, turns * files - room)
    levels = config.trees * config.max_depth
    disk = dict.fromkeys(PHASES, 0.0)
    if beyond:
        disk |= {"setup": turns * files / cluster.disk, "online": levels * beyond / cluster.disk}
    seconds = {p: network[p] + rows[p] + other[p] + disk[p] for p in PHASES}
    total = seconds["setup"] + max(seconds["offline"], seconds["online"])
    sent, dealt = (round(lines[name].at(1.0)) for name in ("bytes", "dealt"))
    hours = 2 * workers * total / 3600
    # Material that is there ahead of its use: of a dealer, one party's part of all; made, up to the bound.
    ahead = WINDOW if lines["ahead"].at(1.0) else min(WINDOW, lines["dealt"].at(at_once) / 2)
    return Estimate(
        rounds=round(lines["rounds"].at(at_once)),
        bytes=sent,
        bytes_offline=round(lines["ahead"].at(1.0)),
        bytes_dealer=dealt,
        memory=round(memory + ahead),
        files=round(files),
        shards_needed=needed,
        network_seconds=network,
        row_seconds=rows,
        other_seconds=other,
        disk_seconds=disk,
        seconds=seconds,
        total_seconds=total,
        worker_hours=hours,
        price=hours * cluster.hour_price + (sent + dealt) / GB * cluster.gigabyte_price,
    )


def print_cluster_plan(planned: ClusterPlan) -> None:
    """On the terminal."""
    console, cluster, data = Console(), planned.cluster, planned.data
    console.print(
        f"{data.rows[0]:,} and {data.rows[1]:,} rows, {data.features[0]} and {data.features[1]} features, "
        f"{planned.config.n_estimators} rounds of trees; each party has {planned.shards} shards on {planned.workers} "
        f"workers; the link has {cluster.link / 1e9:g} Gbit/s each way and a round trip of "
        f"{1e3 * cluster.round_trip:g} ms"
    )
    estimate = planned.estimate
    console.print(
        f"{'With' if planned.offline == 'dealer' else 'Without'} a dealer: {estimate.rounds:,} rounds, "
        f"{estimate.bytes / GB:,.1f} GB between the parties"
        + (f", {estimate.bytes_offline / GB:,.1f} GB of it offline" if estimate.bytes_offline else "")
        + (f", {estimate.bytes_dealer / GB:,.1f} GB from the dealer" if estimate.bytes_dealer else "")
    )
    console.print(
        f"memory of a worker: {estimate.memory / GIB:,.1f} GiB, and {estimate.files / GIB:,.1f} GiB of temporary files"
        + ("" if cluster.memory is None else f"; {cluster.memory:g} GiB need {estimate.shards_needed} shards")
    )
    table = Table(title="Time, an estimate in seconds", title_justify="left")
    for column in ("phase", "network", "computing, rows", "computing, other", "disk", "in all"):
        table.add_column(column, justify="left" if column == "phase" else "right")
    for phase in PHASES:
        computing = estimate.row_seconds, estimate.other_seconds
        parts = (estimate.network_seconds, *computing, estimate.disk_seconds, estimate.seconds)
        table.add_row(phase, *(f"{part[phase]:,.1f}" for part in parts))
    console.print(table)
    price = f", {estimate.price:,.2f} at the prices given" if cluster.hour_price or cluster.gigabyte_price else ""
    console.print(
        f"{estimate.total_seconds:,.0f} seconds in all, as offline goes on beside online; "
        f"{estimate.worker_hours:,.1f} hours of workers of both parties{price}"
    )
    console.print("Computing time was measured on this machine, with few rows and all processes on it.")
