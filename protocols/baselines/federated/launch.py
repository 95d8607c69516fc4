"""A federated training on this machine: in Flower's simulation, or between real processes on loopback.

Both run the same server and participants, from `protocols.baselines.federated.apps`, on the same files.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from mpc import errors
from mpc.errors import PeerFailure, PeerTimeout, PeerVanished, SharewoodError
from protocols.runtime.workers.ray_cluster import ray_cluster

SUPERLINK = "superlink"
APP = Path(__file__).parent / "app"
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
_START_SECONDS = 60
_GRACE_SECONDS = 10
_POLL_SECONDS = 0.2

Say = Callable[[str], None]
Facts = dict[str, Any]


@dataclass(frozen=True)
class FlowerJob:
    """`run` is the run configuration without `report`, `nodes` the node configuration of each supernode."""

    run: Mapping[str, str | int | float | bool]
    nodes: Sequence[Mapping[str, str | int]]


def simulate(job: FlowerJob, say: Say) -> Facts:
    """Run `job` in Flower's simulation; return the facts of `apps.serve`. Raises what the server raised."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module="google.protobuf.runtime_version")
    warnings.filterwarnings("ignore", module="ray")
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    from protocols.baselines.federated.apps import participant, serve
    from protocols.baselines.federated.flower import client_app_of

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    outcome: dict[str, Any] = {}
    server = ServerApp()

    ended = Event()

    def attempt(grid: Grid) -> None:
        try:
            outcome["facts"] = serve(grid, job.run, say)
        except Exception as error:
            outcome["error"] = error

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        # Flower waits for this function also where its nodes do not start, so that nothing would ever answer it.
        serving = Thread(target=attempt, args=(grid,), daemon=True)
        serving.start()
        while serving.is_alive() and not ended.is_set():
            serving.join(_POLL_SECONDS)

    cpus = min(len(job.nodes), os.cpu_count() or 1)
    # Flower uses a Ray that is running already.
    with ray_cluster(workers=cpus):
        try:
            run_simulation(
                server_app=server,
                client_app=client_app_of(lambda context: participant(job.nodes[_place(context)], job.run)),
                num_supernodes=len(job.nodes),
                backend_config={"client_resources": {"num_cpus": 1}},
            )
        except RuntimeError as error:
            raise PeerFailure(f"Flower's simulation failed: {error.__cause__ or error}") from error
        finally:
            ended.set()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["facts"]


def _place(context: Any) -> int:
    """Return the number of this simulated supernode."""
    return int(context.node_config["partition-id"])


def deploy(job: FlowerJob, folder: Path, say: Say) -> Facts:
    """Run `job` with a superlink and a supernode for each node; their logs and files are in `folder`.

    Raises what the server raised, PeerVanished if the superlink ends, or more supernodes than the run's `minimum`
    allows, PeerTimeout if they do not start.
    """
    report = folder / "report.json"
    settings = dict(job.run) | {"report": str(report)}
    (folder / "run.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    with _processes(job.nodes, folder) as (environment, running):
        say("starting superlink and supernodes")
        command = [_program("flwr"), "run", str(APP), "here", "--run-config", str(folder / "run.toml")]
        give_up = time.monotonic() + _START_SECONDS
        while (done := subprocess.run(command, env=environment, cwd=folder, capture_output=True)).returncode:
            if time.monotonic() > give_up:
                last = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
                raise PeerTimeout(f"the superlink accepted no job within {_START_SECONDS} seconds: {last}")
            time.sleep(_POLL_SECONDS)
        return _follow(report, running, int(job.run["clients"]) - int(job.run["minimum"]), say)


def _follow(report: Path, running: Mapping[Path, subprocess.Popen[bytes]], spare: int, say: Say) -> Facts:
    """Wait until the server is done. The superlink and all but `spare` supernodes must stay alive."""
    shown = ""
    while True:
        facts: Facts = json.loads(report.read_text()) if report.exists() else {"progress": ""}
        if "error" in facts:
            raise _error(facts["error"], facts["sentence"])
        if "progress" not in facts:
            return facts
        if facts["progress"] != shown:
            shown = facts["progress"]
            say(shown)
        ended = [(log, process) for log, process in running.items() if process.poll() is not None]
        if len(ended) > spare or any(log.stem == SUPERLINK for log, _ in ended):
            log, process = ended[0]
            if "pid" in facts:
                # Without its superlink, the server's process would retry forever.
                with suppress(ProcessLookupError):
                    os.kill(facts["pid"], signal.SIGKILL)
            raise PeerVanished(f"{log.stem} ended with status {process.returncode}; its last lines: {_last_words(log)}")
        time.sleep(_POLL_SECONDS)


def _last_words(log: Path) -> str:
    """Return the last line of a log, without colours."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", log.read_text(errors="replace")).split("\n")
    return next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "none")


def _error(name: str, sentence: str) -> SharewoodError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, SharewoodError):
        return kind(sentence)
    return PeerFailure(f"the server failed: {name}: {sentence}")


@contextmanager
def _processes(
    nodes: Sequence[Mapping[str, str | int]], folder: Path
) -> Iterator[tuple[dict[str, str], dict[Path, subprocess.Popen[bytes]]]]:
    """Run a superlink and the supernodes; yield their environment and {log: process}. End them and their children."""
    port, *node_ports = _free_ports(1 + len(nodes))
    home = folder / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **_QUIET, "FLWR_HOME": str(home), "PATH": path, "NO_PROXY": "127.0.0.1"}
    running: dict[Path, subprocess.Popen[bytes]] = {}

    def start(name: str, *command: str) -> None:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            running[log] = subprocess.Popen(
                [_program(command[0]), *command[1:]],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    try:
        own = ("--insecure", "--port")
        start(SUPERLINK, "flower-superlink", "--disable-runtime-dependency-installation", *own, str(port))
        for i, (node, node_port) in enumerate(zip(nodes, node_ports, strict=True)):
            pairs = " ".join(f"{name}={json.dumps(value)}" for name, value in node.items())
            address = ("--superlink", f"127.0.0.1:{port}", "--node-config", pairs)
            start(f"supernode-{i}", "flower-supernode", *address, *own, str(node_port))
        yield environment, running
    finally:
        for process in running.values():
            _signal_group(process, signal.SIGTERM)
        for process in running.values():
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
                process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a process and its children; it may have ended, with or without them."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _program(name: str) -> str:
    """Return the path of one of Flower's programs, which are next to this Python."""
    return str(Path(sys.executable).parent / name)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports
