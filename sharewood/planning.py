"""`sharewood plan`: correlated randomness, rounds, bytes, and the time that a network takes for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from protocols.randomness.sizes import dealt_bytes
from secure_tree.config import TrainConfig
from secure_tree.planning import plan_training
from sharewood.calibration import Computing

# Round trip in seconds, bits a second in each direction.
NETWORKS = {"LAN": (0.5e-3, 1e9), "WAN": (40e-3, 100e6)}
FRAME_BYTES = 90


def plan(
    config: TrainConfig, rows: tuple[int, int], features: int, computing: Computing | None = None
) -> dict[str, Any]:
    """Bytes dealt by kind and party, and for both phases rounds, wire bytes, network seconds; with `computing`, all.

    The seconds of a phase are those of the network and those that its computing takes on one machine: neither phase
    computes while it waits for what it needs next. The dealer has one uplink, which sends to either party in turn.
    Both parties speak at the same time in a round, so that it takes half a round trip. FRAME_BYTES stand for a
    frame's head, its tag and the TLS record around it; larger messages have more records, at 0.15%.
    """
    by_kind: dict[str, Counter[str]] = {}
    rounds, sent, received = 0, 0, 0
    for demand in plan_training(config, rows, features):
        rounds += demand.times * demand.rounds
        sent += demand.times * demand.sent
        received += demand.times * demand.received
        for kind, (first, second) in dealt_bytes(demand.kinds).items():
            both = by_kind.setdefault(kind, Counter())
            both.update(party_0=demand.times * first, party_1=demand.times * second)
    dealt = [sum(count[who] for count in by_kind.values()) for who in ("party_0", "party_1")]
    busiest = max(sent, received) + rounds * FRAME_BYTES
    seconds = {
        name: {
            "offline": 8 * sum(dealt) / rate + round_trip,
            "online": rounds * round_trip / 2 + 8 * busiest / rate,
        }
        for name, (round_trip, rate) in NETWORKS.items()
    }
    computed = None
    if computing:
        trees = config.n_estimators
        computed = {"offline": trees * computing.offline, "online": computing.setup + trees * computing.online}
    kinds = {kind: dict(count) for kind, count in by_kind.items()}
    report = {
        "data": {"rows": list(rows), "features": features},
        "config": config.model_dump(),
        "offline": {
            "bytes_by_kind": kinds,
            "bytes_dealer": sum(dealt),
        },
        "online": {"rounds": rounds, "bytes": sent + received + 2 * rounds * FRAME_BYTES},
        "network_seconds": seconds,
    }
    if computed is not None:
        report["computing_seconds"] = computed
        report["seconds"] = {
            name: {phase: waited + computed[phase] for phase, waited in phases.items()}
            for name, phases in seconds.items()
        }
    return report


def print_plan(report: dict[str, Any], names: tuple[str, str]) -> None:
    """The plan as tables on the terminal."""
    console = Console()
    table = Table(title="From the dealer", title_justify="left")
    for column in ("kind", *(f"bytes to {name}" for name in names)):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind, count in sorted(report["offline"]["bytes_by_kind"].items()):
        table.add_row(kind, f"{count['party_0']:,}", f"{count['party_1']:,}")
    console.print(table)
    online = report["online"]
    console.print(f"between the parties: {online['rounds']:,} rounds, {online['bytes']:,} bytes in both directions")
    times = Table(title="Time, an estimate in seconds", title_justify="left")
    for column in ("network", "phase", "waiting for it", "computing", "in all"):
        times.add_column(column, justify="left" if column in ("network", "phase") else "right")
    for name, (round_trip, rate) in NETWORKS.items():
        for phase, waited in report["network_seconds"][name].items():
            figures = (waited, report["computing_seconds"][phase], report["seconds"][name][phase])
            network = f"{name}, {1e3 * round_trip:g} ms round trip, {rate / 1e6:g} Mbit/s"
            times.add_row(network, phase, *(f"{figure:.2f}" for figure in figures))
    console.print(times)
    console.print("Computing was measured on this machine, with both parties and the dealer on it.")
