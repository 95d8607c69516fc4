"""Compare products, comparisons and sigmoids of two parties without a third with SecretFlow SPU's CHEETAH.

    python -m benchmarks.beside_spu [--spu PYTHON] [--elements 100000] [--repeats 3] [--ot ferret]

SPU pins its own numpy and jax, so it needs a separate environment with `spu==0.9.5`; PYTHON is its interpreter. Without
it, the table lacks SPU's figures and states why. Ours are two processes over TLS on loopback, offline and online
together, with material made on demand. SPU runs in its own simulator, with two parties as threads of one process and no
encryption of the link. Both start from shares; figures are medians of the same run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from mpc.arithmetic.beaver import multiply
from mpc.comparison.comparison import less_than
from mpc.functions.sigmoid import sigmoid
from mpc.functions.sigmoid_table import SCALE
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from protocols.ot.correlated import OtKind
from protocols.runtime.local import run_session
from protocols.runtime.settings import Offline

OPERATIONS = ("product", "comparison", "sigmoid")
# Runs in SPU's interpreter, and prints a line of JSON with medians of seconds.
_SPU = """
import json, sys, time
import jax.numpy as jnp, jax, numpy as np
import spu, spu.utils.simulation as simulation
n, repeats = map(int, sys.argv[1:3])
config = spu.RuntimeConfig(protocol=spu.ProtocolKind.CHEETAH, field=spu.FieldType.FM64)
config.enable_pphlo_profile = False
simulator = simulation.Simulator(2, config)
x = np.linspace(-4, 4, n, dtype=np.float32)
y = x[::-1].copy()
functions = {
    "product": lambda x, y: x * y,
    "comparison": lambda x, y: x < y,
    "sigmoid": lambda x, y: jax.nn.sigmoid(x),
}
out = {}
for name, function in functions.items():
    run = simulation.sim_jax(simulator, function)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        found = run(x, y)
        seconds.append(time.perf_counter() - start)
    wrong = float(np.abs(np.asarray(found, float) - np.asarray(function(x, y), float)).max())
    out[name] = [sorted(seconds[1:])[repeats // 2], wrong]
print(json.dumps(out))
"""


def of_spu(python: str, elements: int, repeats: int) -> dict[str, Any] | str:
    """Return medians of seconds by operation, or the reason why there are none."""
    try:
        run = subprocess.run(
            [python, "-c", _SPU, str(elements), str(repeats)], capture_output=True, text=True, timeout=900, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} could not run SPU: {error}"
    if run.returncode:
        return (
            f"{python} could not run SPU: {run.stderr.strip().splitlines()[-1] if run.stderr.strip() else 'no reason'}"
        )
    measured: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return measured


def _rounded_product(party: Party, x: Any, y: Any) -> Steps[Any]:
    product = yield from multiply.steps(party, x, y)
    return (yield from truncate.steps(party, product, SCALE))


def ours(elements: int, repeats: int, ot: OtKind) -> dict[str, tuple[float, float]]:
    """Return medians of seconds, and MB in both directions, by operation."""

    def job(party: Party) -> dict[str, Any]:
        values = np.linspace(-4, 4, elements)
        x = party.share(values if party.rank == 0 else None, 0, scale=SCALE)
        y = party.share(values[::-1] if party.rank == 1 else None, 1, scale=SCALE)
        programs: dict[str, Callable[[], Any]] = {
            "product": lambda: party.run(_rounded_product(party, x, y)),
            "comparison": lambda: less_than(party, x, y, 32),
            "sigmoid": lambda: sigmoid(party, x, 18),
        }
        out = {}
        for name, program in programs.items():
            seconds, sent = [], []
            for _ in range(repeats + 1):
                before, start = _traffic(party), perf_counter()
                program()
                party.exchange_public("benchmark.done", None)
                seconds.append(perf_counter() - start)
                sent.append(_traffic(party) - before)
            out[name] = [median(seconds[1:]), sent[-1] / 1e6]
        return out

    outcome = run_session(job, offline=Offline("pairwise", ot))["party_a"]["result"]
    return {name: (seconds, megabytes) for name, (seconds, megabytes) in outcome.items()}


def _traffic(party: Party) -> int:
    second = party.randomness._channel  # type: ignore[attr-defined]  # what the transfers go over
    return int(party.link.wire_sent + party.link.wire_received + second.wire_sent + second.wire_received)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spu", default=sys.executable, help="an interpreter that has spu==0.9.5")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ot", choices=("ferret", "softspoken"), default="ferret")
    options = parse(parser, arguments, elements=16, repeats=1, ot="softspoken")
    theirs = of_spu(options.spu, options.elements, options.repeats)
    mine = ours(options.elements, options.repeats, options.ot)
    table = Table("operation", "here, s", "here, MB", "SPU CHEETAH, s", "SPU's largest error", box=MARKDOWN)
    for name in OPERATIONS:
        beside = ("-", "-") if isinstance(theirs, str) else tuple(f"{v:.2g}" for v in theirs[name])
        table.add_row(name, *(f"{v:.3g}" for v in mine[name]), *beside)
    console = Console(width=160)
    console.print(table)
    if isinstance(theirs, str):
        console.print(f"SPU is not in the table: {theirs}. It needs spu==0.9.5 in a separate environment.")


if __name__ == "__main__":
    main()
