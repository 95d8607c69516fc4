"""Time operations of two parties, with a dealer and without a third party, beside SecretFlow SPU, in one run.

    python -m benchmarks.beside_spu --spu PYTHON [--elements 100000] [--repeats 1] [--out DIR]

SPU pins its own numpy and jax, so it needs a separate environment with `spu==0.9.5`; PYTHON is its interpreter. Without
it, the table lacks SPU's figures and states why. Ours are two processes over TLS on loopback, and a dealer's where
there is one, offline and online together, with material made on demand. SPU runs in its own simulator, with two parties
as threads of one process and no encryption of the link; in SEMI2K, its first party makes the masks and knows them all.
Figures are medians, after a run that compiles. With --out docs, writes docs/figures/spu.json, from which
`python -m benchmarks.bench_page --page` makes the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.complexity import table
from benchmarks.operations import OPERATIONS
from benchmarks.program import parse
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import Offline
from sharewood.warming_up import warm_up

NAME = "spu.json"
OURS = {"with a dealer": Offline(), "no third party": Offline("pairwise", "ferret")}
PROTOCOLS = ("SEMI2K", "CHEETAH")
# Without a third party, a product of matrices takes a transfer per bit of each elementary product.
NAMES = [name for name in OPERATIONS if name != "matrix product"]
# Runs in SPU's interpreter, and prints a line of JSON: of each operation, the median of seconds and the largest error.
_SPU = """
import json, sys, time
import jax.numpy as jnp, jax, numpy as np
import spu, spu.utils.simulation as simulation
protocol, n, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = spu.RuntimeConfig(protocol=getattr(spu.ProtocolKind, protocol), field=spu.FieldType.FM64)
config.enable_pphlo_profile = False
simulator = simulation.Simulator(2, config)
rng = np.random.default_rng(5)
def uniform(low, high, *shape):
    return rng.uniform(low, high, shape).astype(np.float32)
two = uniform(-100, 100, n), uniform(-100, 100, n)
operations = {
    "product": (lambda x, y: x * y, two),
    "comparison": (lambda x, y: x < y, two),
    "sigmoid": (jax.nn.sigmoid, (uniform(-8, 8, n),)),
    "reciprocal": (lambda x: 1 / x, (uniform(1, 1000, n),)),
    "argmax of rows of 32": (lambda x: jnp.argmax(x, axis=1), (uniform(0, 100, n // 32, 32),)),
}
out = {}
for name, (function, values) in operations.items():
    run = simulation.sim_jax(simulator, function)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        found = run(*values)
        seconds.append(time.perf_counter() - start)
    wrong = float(np.abs(np.asarray(found, float) - np.asarray(function(*values), float)).max())
    out[name] = [sorted(seconds[1:])[repeats // 2], wrong]
print(json.dumps(out))
"""


def of_spu(python: str, protocol: str, elements: int, repeats: int) -> dict[str, list[float]] | str:
    """Return by operation the median of seconds and the largest error, or the reason why there are none."""
    command = [python, "-c", _SPU, protocol, str(elements), str(repeats)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} could not run SPU: {error}"
    if run.returncode:
        return f"{python} could not run SPU: {(run.stderr.strip().splitlines() or ['no reason'])[-1]}"
    measured: dict[str, list[float]] = json.loads(run.stdout.strip().splitlines()[-1])
    return measured


def ours(offline: Offline, elements: int, repeats: int) -> dict[str, list[float]]:
    """Return by operation the median of seconds of the slower party, and MB between all processes."""

    def job(party: Party) -> dict[str, tuple[float, int, int]]:
        out = {}
        for name in NAMES:
            program = OPERATIONS[name](party, elements)
            seconds = []
            for _ in range(repeats + 1):
                between, made, start = *_traffic(party), perf_counter()
                program(party)
                party.exchange_public("benchmark.done", None)
                seconds.append(perf_counter() - start)
            after = _traffic(party)
            out[name] = (median(seconds[1:]), after[0] - between, after[1] - made)
        return out

    warm_up(offline.maker, offline.ot)
    outcome = run_session(job, offline=offline)
    one, other = (outcome[name]["result"] for name in PARTIES)
    return {
        name: [
            max(one[name][0], other[name][0]),
            (one[name][1] + one[name][2] + (0 if offline.pairwise else other[name][2])) / 1e6,
        ]
        for name in one
    }


def _traffic(party: Party) -> tuple[int, int]:
    """Return the bytes between the parties, and those that material took: from the dealer, or by transfers."""
    made: Any = party.randomness
    taken = made.received if made.has_dealer else made._channel.wire_sent + made._channel.wire_received
    return party.link.wire_sent + party.link.wire_received, taken


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spu", default=sys.executable, help="an interpreter that has spu==0.9.5")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a folder for figures/spu.json")
    options = parse(parser, arguments, elements=64)
    found: dict[str, Any] = {"elements": options.elements, "ours": {}, "spu": {}}
    for name, offline in OURS.items():
        found["ours"][name] = ours(offline, options.elements, options.repeats)
    for protocol in PROTOCOLS:
        found["spu"][protocol] = of_spu(options.spu, protocol, options.elements, options.repeats)
    print(beside(found))
    for theirs in found["spu"].values():
        if isinstance(theirs, str):
            print(f"SPU is not in the table: {theirs}. It needs spu==0.9.5 in a separate environment.")
            break
    if options.out:
        (options.out / "figures").mkdir(parents=True, exist_ok=True)
        (options.out / "figures" / NAME).write_text(json.dumps(found, indent=1) + "\n")


def beside(found: dict[str, Any]) -> str:
    """Return the table: a row for each operation."""
    rows = []
    for name in NAMES:
        mine = [f"{run[name][0]:.3g}, {run[name][1]:.3g}" for run in found["ours"].values()]
        theirs = [f"{run[name][0]:.3g}" if isinstance(run, dict) else "" for run in found["spu"].values()]
        rows.append([name, *mine, *theirs])
    head = ["", *(f"Sharewood, {how}: s, MB" for how in OURS), *(f"SPU, {protocol}: s" for protocol in PROTOCOLS)]
    return table(head, rows, words_first=1)


if __name__ == "__main__":
    main()
