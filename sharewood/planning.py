"""`sharewood plan`: correlated randomness, rounds, bytes, and the time that a network takes for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from protocols.randomness.sizes import dealt_bytes
from secure_tree.config import TrainConfig
from secure_tree.planning import Sizes, plan_training

# Round trip in seconds, bits a second in each direction.
NETWORKS = {"LAN": (0.5e-3, 1e9), "WAN": (40e-3, 100e6)}
FRAME_BYTES = 90


def plan(config: TrainConfig, sizes: Sizes) -> dict[str, Any]:
    """Bytes dealt by kind and party, and for both phases rounds, wire bytes and network seconds (no computing).

    Both parties speak at the same time in a round, so that it takes half a round trip. FRAME_BYTES stand for a
    frame's head, its tag and the TLS record around it; larger messages have more records, at 0.15%.
    """
    by_kind: dict[str, Counter[str]] = {}
    rounds, sent, received = 0, 0, 0
    for demand in plan_training(config, sizes):
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
    kinds = {kind: dict(count) for kind, count in by_kind.items()}
    return {
        "data": {"rows": list(sizes.rows), "features": [len(names) for names in sizes.names]},
        "config": config.model_dump(),
        "offline": {
            "bytes_by_kind": kinds,
            "bytes_dealer": sum(dealt),
        },
        "online": {"rounds": rounds, "bytes": sent + received + 2 * rounds * FRAME_BYTES},
        "network_seconds": seconds,
    }


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
    for name, (round_trip, rate) in NETWORKS.items():
        seconds = report["network_seconds"][name]
        console.print(
            f"{name}, {1e3 * round_trip:g} ms round trip and {rate / 1e6:g} Mbit/s: "
            f"offline {seconds['offline']:.2f} s, online {seconds['online']:.2f} s on the network alone"
        )
