"""A plan as tables and sentences on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from mpc.comparison.comparison_keys import SEED_BITS
from secure_tree.public.config import TrainConfig
from sharewood.cost.plan import NETWORKS, Exchanged, Networks, Seconds, Times, TrainingPlan


def print_plan(
    plan: TrainingPlan, names: tuple[str, str], networks: Networks = NETWORKS, details: bool = False
) -> None:
    """Print a plan for which computation was measured: what a training takes in all; with `details`, by phase."""
    assert plan.times is not None, "computing was measured"
    console, paired = Console(), plan.pairwise
    table = Table(title="A training in all, an estimate in seconds", title_justify="left")
    for column in ("", "network", "round trip", "Mbit/s", "one line per host", "a line per pair"):
        table.add_column(column, justify="left" if column in ("", "network") else "right")
    for how, times in (("with a dealer", plan.times), ("without", paired.times)):
        for name, (round_trip, rate) in networks.items() if times else ():
            assert times is not None
            row = times.totals[name]
            link = f"{1e3 * round_trip:g} ms", f"{rate / 1e6:g}"
            table.add_row(how, name, *link, f"about {row['host']:,.0f}", f"about {row['pair']:,.0f}")
    console.print(table)
    if details:
        _print_dealt(console, plan, names)
    if keyed := plan.offline.key_nodes:
        console.print(
            f"comparison keys: {keyed:,} nodes; an attacker with T evaluations of AES finds the seed of one with "
            f"probability T / 2^{SEED_BITS - math.log2(keyed):.1f}"
        )
    _print_exchanged(console, "With a dealer", plan.online, plan.config, plan.data.rows)
    if details:
        _print_network(console, "With a dealer", networks, plan.network_seconds, plan.times)
    _print_exchanged(console, "Without a dealer", paired.online, plan.config, plan.data.rows)
    console.print(
        f"Without a dealer, offline: {paired.transfers:,} oblivious transfers, {paired.rounds:,} rounds, "
        f"{paired.bytes:,} bytes in both directions"
    )
    if details:
        _print_network(console, "Without a dealer", networks, paired.network_seconds, paired.times)
    console.print(
        "Computing time was measured on this machine, with all processes on it. With one line per host, all its "
        "connections share the bandwidth."
    )
    if not details:
        console.print("--details prints seconds by phase, and what the dealer sends, by kind.")
    if plan.config.early_stopping_rounds:
        console.print(
            f"The plan has all {plan.config.n_estimators} rounds of trees: a training that stops early takes less."
        )


def _print_dealt(console: Console, plan: TrainingPlan, names: tuple[str, str]) -> None:
    table = Table(title="From the dealer", title_justify="left")
    for column in ("kind", *(f"bytes to {name}" for name in names)):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind, count in sorted(plan.offline.bytes_by_kind.items()):
        table.add_row(kind, f"{count['party_0']:,}", f"{count['party_1']:,}")
    table.add_section()
    counts = plan.offline.bytes_by_kind.values()
    table.add_row("in all", *(f"{sum(count[party] for count in counts):,}" for party in ("party_0", "party_1")))
    console.print(table)


def _print_exchanged(console: Console, how: str, online: Exchanged, config: TrainConfig, rows: Sequence[int]) -> None:
    console.print(
        f"{how}, online: {online.rounds:,} rounds, {online.bytes:,} bytes between the parties, both directions"
    )
    console.print(
        f"of these in set-up, with {config.binning(rows)}: {online.setup_rounds:,} rounds, {online.setup_bytes:,} bytes"
    )


def _print_network(console: Console, how: str, networks: Networks, waiting: Seconds, times: Times | None) -> None:
    table = Table(title=f"{how}: time, an estimate in seconds", title_justify="left")
    for column in ("network", "phase", "waiting for it", "computing", "in all"):
        table.add_column(column, justify="left" if column in ("network", "phase") else "right")
    for name in networks:
        for phase, waited in waiting[name].items():
            computed = (times.computing_seconds[phase], times.seconds[name][phase]) if times else ()
            table.add_row(name, phase, *(f"{figure:.2f}" for figure in (waited, *computed)))
    console.print(table)
