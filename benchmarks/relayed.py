"""Train between two hosts, with or without a dealer, through a shaping relay: commands with TLS, one process each."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from protocols.runtime.relay import Lines, Route, relay
from protocols.runtime.settings import Link
from protocols.transport.tcp import Address

COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]
NAMES = ("party_a", "party_b")


@dataclass(frozen=True)
class Relayed:
    """A training: the reports of both parties, and its seconds as the slower one saw them."""

    reports: list[dict[str, Any]]
    seconds: float


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()


def configure(
    folder: Path,
    role: str,
    meeting: Address,
    dealer: Address | None,
    train: dict[str, Any],
    link: Link,
    label: bool = True,
) -> Path:
    """Write the role's configuration, with the addresses that it uses, and the link."""
    own = f'train_data = "{role}.csv"\nmodel = "{role}.npz"\n' + 'label = "label"\n' * label
    lines = ['tls = "keys"']
    lines += ["[dealer]", f'address = "{dealer[0]}:{dealer[1]}"'] if dealer else ['offline = "pairwise"']
    for name in NAMES:
        lines += [f"[parties.{name}]", f'address = "{meeting[0]}:{meeting[1]}"', own if name == role else ""]
    lines += ["[link]", f"round_trip = {1e3 * link.round_trip}", f"rate = {link.rate / 1e6}"]
    lines += ["[train]", *(f"{key} = {json.dumps(value)}" for key, value in train.items())]
    path = folder / f"{role}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def train_relayed(
    tables: Sequence[pd.DataFrame], train: dict[str, Any], offline: str, lines: Lines, link: Link
) -> Relayed:
    """Train on a table of each party, whose label, if it has one, is its column `label`."""
    dealing = offline == "dealer"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [*COMMAND, "keygen", "--out", "keys", "--names", "dealer", *NAMES],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        meeting, dealer = free_address(), free_address()
        routes = [Route("party_b", "party_a", meeting)]
        routes += [Route(party, "dealer", dealer) for party in NAMES if dealing]
        with relay(routes, link.round_trip / 2, link.rate, lines) as (to_first, *to_dealer):
            for party, table, place, its_dealer in zip(
                NAMES, tables, (meeting, to_first), to_dealer or (None, None), strict=True
            ):
                table.to_csv(folder / f"{party}.csv", index=False)
                configure(folder, party, place, its_dealer, train, link, "label" in table)
            commands = [["train", "--config", f"{p}.toml", "--party", p, "--json", f"{p}.json"] for p in NAMES]
            if dealing:
                configure(folder, "dealer", meeting, dealer, {}, link)
                commands.insert(0, ["dealer", "--config", "dealer.toml", "--sessions", "1"])
            processes = [
                subprocess.Popen(
                    [*COMMAND, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                for command in commands
            ]
            said = [process.communicate() for process in processes]
        for process, (_, error) in zip(processes, said, strict=True):
            if process.returncode:
                raise SystemExit(error)
        reports = [json.loads((folder / f"{party}.json").read_text()) for party in NAMES]
    whole = [float(found[1]) for out, _ in said if (found := re.search(r"trained in ([\d.]+) s", out))]
    return Relayed(reports, max(whole))
