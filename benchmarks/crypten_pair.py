"""Run CrypTen between this process and a second one, with one thread each.

By default, its party 0 deals: it knows every mask, and nothing is secret from it. With a third party in a separate
process, the trust is the same as with our dealer. In both cases, CrypTen deals within each operation.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from benchmarks.cores import CORES, keep_to, let_go
from benchmarks.operations import crypten_operation
from mpc.host.process import keep_freed_memory

_SPAWN = multiprocessing.get_context("spawn")
PROVIDERS = {"CrypTen": "TFP", "CrypTen, third party": "TTP"}


def start(rank: int, port: int, third_party: bool = False) -> None:
    """Join CrypTen's two parties as this rank; rank 2 is the third party, which serves until it is terminated."""
    os.environ.update(
        DISTRIBUTED_BACKEND="gloo",
        RENDEZVOUS=f"tcp://127.0.0.1:{port}",
        WORLD_SIZE="2",
        RANK=str(rank),
    )
    keep_freed_memory()  # as for our own processes
    # CrypTen imports a module that current torch no longer has, but does not use it here.
    sys.modules.setdefault("torch.onnx.symbolic_registry", types.ModuleType("torch.onnx.symbolic_registry"))
    import crypten
    import torch

    torch.set_num_threads(1)
    if third_party:
        crypten.cfg.mpc.provider = "TTP"
    if rank < 2:
        crypten.init()
    else:
        crypten.mpc.provider.TTPServer()


def _ready(system: str, name: str, size: int) -> Callable[[], Any]:
    import crypten

    crypten.cfg.mpc.provider = PROVIDERS[system]
    return crypten_operation(name, size)


def _second(port: int, cores: list[int], commands: Any) -> None:
    keep_to(1, cores)
    start(1, port, third_party=True)
    while True:
        run = _ready(*commands.recv())
        commands.send("ready")
        run()


def _third(port: int, cores: list[int]) -> None:
    # On party 1's core, where operations are fastest: on party 0's, small ones take three times as long.
    keep_to(1, cores)
    start(2, port, third_party=True)


class CryptenPair:
    """Rank 0 in this process, rank 1 and the third party in two others."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self._commands, other = _SPAWN.Pipe()
        self._children = [
            _SPAWN.Process(target=_second, args=(port, CORES, other), daemon=True),
            _SPAWN.Process(target=_third, args=(port, CORES), daemon=True),
        ]
        for child in self._children:
            child.start()
        keep_to(0, CORES)
        start(0, port, third_party=True)

    def prepare(self, system: str, name: str, size: int) -> Callable[[], Any]:
        """Prepare both parties for one run, and return the function that starts it here."""
        self._commands.send((system, name, size))
        run = _ready(system, name, size)
        self._commands.recv()
        return run

    def count(self, system: str, name: str, size: int) -> dict[str, int]:
        """Return the rounds, and the bytes in both directions, of one run, as CrypTen counts them."""
        import crypten
        from crypten import communicator

        run = self.prepare(system, name, size)
        talk = communicator.get()
        talk.reset_communication_stats()
        with crypten.cfg.temp_override({"communicator.verbose": True}):
            run()
        return {"rounds": int(talk.comm_rounds), "online_bytes": int(talk.comm_bytes), "offline_bytes": 0}

    def close(self) -> None:
        let_go()
        for child in self._children:
            child.terminate()
            child.join()
