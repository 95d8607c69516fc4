"""CrypTen between this process and a second one, one thread each; its first-party provider is not secure."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from benchmarks.operations import crypten_operation
from protocols.runtime.memory import keep_freed_memory

_SPAWN = multiprocessing.get_context("spawn")


def _start(rank: int, port: int) -> None:
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


def _second(port: int, commands: Any) -> None:
    _start(1, port)
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
        self._child = _SPAWN.Process(target=_second, args=(port, other), daemon=True)
        self._child.start()
        _start(0, port)

    def prepare(self, name: str, size: int) -> Callable[[], Any]:
        """Both processes ready for one run; what starts it here."""
        self._commands.send((name, size))
        run = crypten_operation(name, size)
        self._commands.recv()
        return run

    def close(self) -> None:
        self._child.terminate()
        self._child.join()
