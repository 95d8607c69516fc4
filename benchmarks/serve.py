"""Measure the latency of the prediction service: two services and a dealer over TLS, on loopback and with a delay.

    python -m benchmarks.serve [--rows 1 100 10000] [--round-trip 0 40] [--clients 1 8] [--repeats 50]
                               [--trees 20] [--depth 4] [--features 20] [--ahead 256]
                               [--offline dealer|pairwise] [--partition horizontal|vertical] [--halves]
                               [--method thresholds|bins] [--out FILE]

Each client sends requests of `rows` rows one after the other; `clients` run at the same time. With `--halves`, they are
no party, and send halves of the rows to both services. Seconds are those of the client. A relay adds a round trip
between any two of the three hosts. Requests of 10,000 rows are repeated less often. Prints the table as Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from benchmarks.relayed import free_address
from mpc.party import Party
from protocols.runtime.relay import Route, relay
from protocols.transport.certificates import make_credentials
from secure_tree import SecureXGBClassifier
from sharewood import run_local
from sharewood.client import Client
from sharewood.tables.files import write_frame

ROLES = "party_a", "party_b", "dealer"
RATE = 1e9
CLIENT = "client.toml"
_COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]
_START = 600.0


@dataclass(frozen=True)
class Measured:
    """Requests of a number of rows from a number of clients at once."""

    round_trip_ms: float
    clients: int
    rows: int
    requests: int
    p50_ms: float
    p99_ms: float
    rows_per_second: float


def train(folder: Path, options: argparse.Namespace) -> pd.DataFrame:
    """Make halves of a model on generated rows, by columns also party B's table, and rows for party A's clients."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(max(options.rows), options.features)).astype(np.float32)
    y = (X[:, 0] + X[:, -1] > 0).astype(int)
    vertical = options.partition == "vertical" and not options.halves
    half = options.features // 2
    own = [slice(None, half), slice(half, None)] if vertical else [slice(None)] * 2
    tables = [pd.DataFrame(X[:, part]).add_prefix("x") for part in own]
    few = slice(0, 500)

    def job(party: Party) -> None:
        shape: dict[str, Any] = {"n_estimators": options.trees, "max_depth": options.depth, "max_bin": 8}
        model = SecureXGBClassifier(partition="vertical" if vertical else "horizontal", **shape)
        labels = y[few] if party.rank == 0 or not vertical else None
        model.fit(party, tables[party.rank][few], labels).save(folder / f"{party.rank}.npz")

    run_local(job)
    if vertical:
        for table in tables:
            table.insert(0, "id", [f"r{i}" for i in range(len(table))])
        write_frame(folder / "table.csv", tables[1])
    return tables[0]


@contextmanager
def services(folder: Path, delay: float, options: argparse.Namespace, reasons: int = 0) -> Iterator[str]:
    """Start the hosts, and return the address of party A's service, which gives `reasons`, when it is ready."""
    meeting, dealer, *http = [free_address() for _ in range(4)]
    routes = [Route("b", "a", meeting), Route("a", "d", dealer), Route("b", "d", dealer)]
    processes = []
    with relay(routes, delay, RATE) if delay else nullcontext([of.address for of in routes]) as places:
        seen = {"party_a": (meeting, places[1]), "party_b": (places[0], places[2]), "dealer": (meeting, dealer)}
        for role, (met, dealt) in seen.items():
            place = _text(http[role == "party_b"])
            lines = [
                'tls = "keys"',
                f'offline = "{options.offline}"',
                f'[dealer]\naddress = "{_text(dealt)}"',
                f'[parties.party_a]\naddress = "{_text(met)}"\nmodel = "0.npz"\nlabel = "y"',
                '[parties.party_b]\nmodel = "1.npz"\npredict_data = "table.csv"',
                f'[train]\npartition = "{options.partition}"',
                f'[predict]\nreasons = {reasons}\nmethod = "{options.method}"',
                f'[serve]\naddress = "{place}"\nahead = {options.ahead}\nanswer_within = 600',
                f"halves = {str(options.halves).lower()}\n",
                *([f"[link]\nround_trip = {2e3 * delay}\nrate = {RATE / 1e6}\n"] if delay else []),
            ]
            (folder / f"{role}.toml").write_text("\n".join(lines))
            arguments = [role] if role == "dealer" else ["serve", "--party", role]
            log = (folder / f"{role}.log").open("a")
            command = [*_COMMAND, *arguments, "--config", f"{role}.toml"]
            processes.append(subprocess.Popen(command, cwd=folder, stderr=log))
        try:
            urls = [f"http://{_text(place)}" for place in http]
            for url in urls:
                _until_ready(url, folder)
            sections = [f'[services.{role}]\naddress = "{_text(p)}"\n' for role, p in zip(ROLES[:2], http, strict=True)]
            (folder / CLIENT).write_text("".join(sections))
            yield urls[0]
        finally:
            for process in processes:
                process.terminate()
                process.wait()


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _until_ready(url: str, folder: Path) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        try:
            if httpx.get(f"{url}/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the service did not become ready: {(folder / 'party_a.log').read_text()}")


@contextmanager
def asking(url: str, rows: pd.DataFrame, reasons: int = 0) -> Iterator[Callable[[], int]]:
    """Yield what asks party A's service for predictions of rows, and their reasons, and returns their number."""
    asked = {"rows": rows.to_dict("records"), **({"reasons": reasons} if reasons else {})}
    content, body = {"Content-Type": "application/json"}, json.dumps(asked)
    with httpx.Client(timeout=600) as client:

        def ask() -> int:
            answer = client.post(f"{url}/v1/predict", content=body, headers=content)
            answer.raise_for_status()
            return len(answer.json()["predictions"])

        yield ask


@contextmanager
def asking_both(file: Path, rows: pd.DataFrame) -> Iterator[Callable[[], int]]:
    """Yield what asks both services by halves of rows."""
    features = rows.to_numpy()
    with Client(file) as client:
        yield lambda: len(client.predict_proba(features))


def measure(
    new: Callable[[], AbstractContextManager[Callable[[], int]]],
    round_trip: float,
    clients: int,
    count: int,
    repeats: int,
) -> Measured:
    """Send requests repeatedly, from clients that `new` makes; the first one of each does not count."""

    def requests(ask: Callable[[], int]) -> list[float]:
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            assert ask() == count
            times.append(time.perf_counter() - began)
        return times

    with ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
        asks = [stack.enter_context(new()) for _ in range(clients)]
        for ask in asks:
            ask()
        began = time.perf_counter()
        times = [each for some in pool.map(requests, asks) for each in some]
        whole = time.perf_counter() - began
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    return Measured(round_trip, clients, count, len(times), float(p50), float(p99), count * len(times) / whole)


def per_batch(url: str) -> str:
    """Return the bytes of the session and the rows of batches so far, as the service counts them."""
    found = re.findall(
        r"^(sharewood_(?:session|batch_rows|material)\S*) (\S+)$", httpx.get(f"{url}/metrics").text, re.M
    )
    return ", ".join(f"{name} {float(value):,.0f}" for name, value in found if "created" not in name)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--round-trip", type=float, nargs="+", default=[0.0, 40.0], help="milliseconds")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--ahead", type=float, default=256.0)
    parser.add_argument("--offline", choices=["dealer", "pairwise"], default="dealer")
    parser.add_argument("--partition", choices=["horizontal", "vertical"], default="horizontal")
    parser.add_argument("--method", choices=["thresholds", "bins"], default="thresholds")
    parser.add_argument("--halves", action="store_true", help="clients are no party")
    parser.add_argument("--out", type=Path)
    options = parse(
        parser, arguments, rows=[1], round_trip=[0.0], clients=[1], repeats=1, trees=1, depth=1, features=2, ahead=8.0
    )
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for role, credentials in make_credentials(ROLES).items():
            credentials.save(folder / "keys", role)
        table = train(folder, options)
        for round_trip in options.round_trip:
            with services(folder, round_trip / 2e3, options) as url:
                for count in options.rows:
                    rows = table.head(count)
                    new = partial(asking_both, folder / CLIENT, rows) if options.halves else partial(asking, url, rows)
                    for clients in options.clients if count < 1000 else [1]:
                        repeats = options.repeats if count < 1000 else max(3, options.repeats // 10)
                        found.append(measure(new, round_trip, clients, count, repeats))
                        print(found[-1], file=sys.stderr)
                print(per_batch(url), file=sys.stderr)
    columns = ["round trip, ms", "clients", "rows per request", "requests", "p50, ms", "p99, ms", "rows per second"]
    shown = Table(*columns, box=MARKDOWN)
    for each in found:
        shown.add_row(*(f"{value:,.4g}" if value < 100 else f"{value:,.0f}" for value in asdict(each).values()))
    Console(width=160).print(shown)
    if options.out:
        options.out.write_text(json.dumps([asdict(each) for each in found], indent=1))


if __name__ == "__main__":
    main()
