"""Compile every kernel of a training, or load it from numba's cache, so that no process or timing includes it.

numba compiles one kernel at a time in a process. As soon as one must be compiled, a second process, of which this
module is the program, compiles those of KERNELS from the other end; each finds in the cache what the other has done.
`python -m tests.sharewood.test_warming_up` writes the list anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numba.core import event

from mpc.endpoint import ROUND_PRICE
from mpc.host.process import end_with
from mpc.party import Party
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.offline.pairwise.client import pairwise
from protocols.ot.correlated import OtKind
from protocols.runtime.settings import Maker
from protocols.transport.memory import memory_pair
from secure_tree import SecureXGBClassifier

# Of each maker's warm-up: modules, their kernels, and the types of the arguments of each compilation.
KERNELS = Path(__file__).with_name("kernels.json")
# The rows below are generated, and the seeds protect nothing.
_SEEDS = (bytes(16), bytes(range(16)))


def warm_up(offline: Maker = "dealer", ot: OtKind = "ferret") -> None:
    """Train and predict on four generated rows between two threads; takes a few seconds at first, then at most one."""

    def job(rank: int) -> None:
        if offline == "pairwise":
            with pairwise(rank, second[rank], ot) as made:
                work(Party(rank, channels[rank], made, round_price=ROUND_PRICE))
                made.close()
        else:
            work(Party(rank, channels[rank], LocalDealer(rank, _SEEDS), round_price=ROUND_PRICE))

    def work(party: Party) -> None:
        X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1])
        smallest: dict[str, Any] = {"n_estimators": 1, "max_depth": 2, "max_bin": 2, "min_child_weight": 0}
        model = SecureXGBClassifier(**smallest).fit(party, X, y)
        model.predict_margin(party, X)
        model.predict_margin(party, X, "thresholds")

    channels, second = memory_pair(), memory_pair()
    with _second_compiler(offline if offline == "dealer" else ot), ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(job, rank) for rank in (0, 1)]:
            future.result()


class _Start(event.Listener):
    """Starts the second compiler when the first kernel is compiled."""

    def __init__(self, maker: str) -> None:
        self._maker = maker
        self.process: subprocess.Popen[bytes] | None = None

    def on_start(self, event: event.Event) -> None:
        if self.process is None and len(os.sched_getaffinity(0)) > 1:
            command = [sys.executable, "-m", __name__, self._maker, str(os.getpid())]
            none = subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdin=none, stdout=none, stderr=none)

    def on_end(self, event: event.Event) -> None:
        """The process ends by itself."""


@contextmanager
def _second_compiler(maker: str) -> Iterator[None]:
    start = _Start(maker)
    try:
        with event.install_listener("numba:compile", start):
            yield
    finally:
        if start.process is not None:
            start.process.kill()
            start.process.wait()


def compile_kernels(maker: str) -> None:
    """Compile the listed kernels of one maker's warm-up, those that are used last first."""
    for module, kernels in reversed(json.loads(KERNELS.read_text())[maker].items()):
        for name, signatures in reversed(kernels.items()):
            kernel = reduce(getattr, name.split("."), import_module(module))
            for arguments in signatures:
                kernel.compile(tuple(map(type_of, arguments.split(", "))))


def type_of(text: str) -> types.Type:
    """Return numba's type of an argument as `KERNELS` writes it: "uint64", "uint64 2d C", "uint64 2d C readonly"."""
    name, *array = text.split()
    kind: types.Type = getattr(types, name)
    if array:
        layout: Any = array[1]
        kind = types.Array(kind, int(array[0][0]), layout, readonly="readonly" in array)
    return kind


if __name__ == "__main__":
    end_with(int(sys.argv[2]))
    compile_kernels(sys.argv[1])
