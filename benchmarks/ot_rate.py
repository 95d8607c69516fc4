"""Measure the rates of oblivious transfer between two processes over TLS, each on its own core; print Markdown.

    python -m benchmarks.ot_rate --calls 5

Both parties extend in both directions at the same time, and all COTs count; figures are medians of several calls.
Set-up and pads are timed separately.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, get_args

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.cores import CORES, keep_to
from benchmarks.program import parse
from mpc.party import Party
from mpc.rounds import parallel
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.ot.correlated import OtKind, set_up
from protocols.ot.pads import pads
from protocols.runtime.processes import run_processes
from protocols.transport.channel import Channel

PARTIES = ("party_a", "party_b")
_KEY = bytes(16)


def measure(kind: OtKind, calls: int, cots: int) -> dict[str, float]:
    """Set-up seconds, COT/s and bits per COT in both directions together, pads/s of one word, of the slower party."""

    def role(rank: int) -> Callable[[dict[str, Channel]], Any]:
        def play(channels: dict[str, Channel]) -> dict[str, float]:
            keep_to(rank, CORES)
            link = channels[PARTIES[1 - rank]]
            # There is no dealer: these steps need no correlated randomness.
            party = Party(rank, link, LocalDealer(rank, (bytes(16), bytes(16))))
            # Compilation and the clearing of memory are not part of the rates.
            _, t = _extend(party, cots, *party.run(set_up(rank, bytes(32), kind, os.urandom)))
            pads(t, 0, 1, _KEY)
            started = time.perf_counter()
            sender, receiver = party.run(set_up(rank, b"\1" * 32, kind, os.urandom))
            set_up_seconds = time.perf_counter() - started
            wire, seconds = link.wire_sent + link.wire_received, []
            for _ in range(calls):
                started = time.perf_counter()
                q, t = _extend(party, cots, sender, receiver)
                seconds.append(time.perf_counter() - started)
            wire, made = link.wire_sent + link.wire_received - wire, q.shape[0] + t.shape[0]
            started = time.perf_counter()
            pads(t, 0, 1, _KEY)
            return {
                "set_up": set_up_seconds,
                "rate": made / statistics.median(seconds),
                "bits": 8 * wire / (calls * made),
                "pads": t.shape[0] / (time.perf_counter() - started),
            }

        return play

    first, second = run_processes({name: role(rank) for rank, name in enumerate(PARTIES)}).values()
    return {name: (max if name == "set_up" else min)(first[name], second[name]) for name in first}


def _extend(party: Party, cots: int, sender: Any, receiver: Any) -> tuple[Any, Any]:
    q, (_, t) = party.run(parallel(sender.extend(cots), receiver.extend(cots)))
    return q, t


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=25, help="of each kind")
    parser.add_argument("--cots", type=int, default=1 << 21, help="of a call, in each direction")
    parser.add_argument("--kinds", nargs="+", choices=get_args(OtKind), default=get_args(OtKind))
    options = parse(parser, arguments, calls=1, cots=1 << 10, kinds=["softspoken"])
    table = Table("kind", "million COT/s", "bits a COT", "set-up s", "million pads/s", box=MARKDOWN)
    for kind in options.kinds:
        m = measure(kind, options.calls, options.cots)
        figures = f"{m['rate'] / 1e6:.1f}", f"{m['bits']:.2f}", f"{m['set_up']:.2f}", f"{m['pads'] / 1e6:.0f}"
        table.add_row(kind, *figures)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
