"""CrypTen between this process and a second one, one thread each; its first-party provider is not secure."""

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
from protocols.runtime.memory import keep_freed_memory

_SPAWN = multiprocessing.get_context("spawn")


def start(rank: int, port: int) -> None:
    os.environ.update(
        DISTRIBUTED_BACKEND="gloo",
        RENDEZVOUS=f"tcp://127.0.0.1:{port}",
        WORLD_SIZE="2",
        RANK=str(rank),
    )
    keep_freed_memory()  # as for our own processes
    # CrypTen imports a module that current torch no longer has, and uses nothing of it here.
    sys.modules.setdefault("torch.onnx.symbolic_registry", types.ModuleType("torch.onnx.symbolic_registry"))
    import crypten
    import torch

    torch.set_num_threads(1)
    crypten.init()


def _second(port: int, cores: list[int], commands: Any) -> None:
    keep_to(1, cores)
    start(1, port)
    while True:
        name, size = commands.recv()
        run = crypten_operation(name, size)
        commands.send("ready")
        run()


class CryptenPair:
    """Rank 0 here, rank 1 in another process."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self._commands, other = _SPAWN.Pipe()
        self._child = _SPAWN.Process(target=_second, args=(port, CORES, other), daemon=True)
        self._child.start()
        keep_to(0, CORES)
        start(0, port)

    def prepare(self, name: str, size: int) -> Callable[[], Any]:
        """Both processes ready for one run; what starts it here."""
        self._commands.send((name, size))
        run = crypten_operation(name, size)
        self._commands.recv()
        return run

    def count(self, name: str, size: int) -> dict[str, int]:
        """Rounds, and bytes in both directions, of one run, as CrypTen counts them."""
        import crypten
        from crypten import communicator

        run = self.prepare(name, size)
        talk = communicator.get()
        talk.reset_communication_stats()
        with crypten.cfg.temp_override({"communicator.verbose": True}):
            run()
        return {"rounds": int(talk.comm_rounds), "online_bytes": int(talk.comm_bytes), "offline_bytes": 0}

    def close(self) -> None:
        let_go()
        self._child.terminate()
        self._child.join()
