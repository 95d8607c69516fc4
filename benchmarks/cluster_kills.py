"""Kill random workers at random moments of trainings with rows in shards, and count how the trainings end.

    python -m benchmarks.cluster_kills --runs 8

A run consists of two parties on this machine, each with its own Ray, in new processes; they train and predict three
times. It has four kills: while the workers start, in the set-up of the first training, among the trees of the second,
and in the prediction of the third. The victim is any running worker of either party. Runs alternate between a dealer
and none. Outcomes:

model    a model whose margins are those of a training without a kill: of one of 60 in memory, since two splits of these
         rows are nearly as good as each other, and coins choose between them
refused  an error of Sharewood, which is a sentence
wrong    other margins, or any other error
hang     no end within the limit
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.program import CHILD, parse
from mpc.errors import SharewoodError
from mpc.party import Party
from protocols.runtime.local import run_local
from protocols.runtime.settings import Maker
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier

ROWS, CUT, SHARDS, TREES = 400, 170, 2, 4
MODEL: dict[str, Any] = {"n_estimators": TREES, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
OFFLINE: tuple[Maker, Maker] = ("dealer", "pairwise")
ENDS = ("model", "refused", "wrong", "hang")
# The phases of kills, each from one mark of a run until the next, and the training that each affects.
PHASES = {
    "start of workers": ("workers", "begin 0", 0),
    "set-up": ("begin 0", "tree 0 of 0", 0),
    "trees": ("tree 0 of 1", f"tree {TREES - 1} of 1", 1),
    "prediction": (f"tree {TREES - 1} of 2", "end 2", 2),
}
TRAININGS = 3
LIMIT = 400.0
# The largest difference of margins of two trainings with the same splits.
COINS = 1e-2
UNDISTURBED = 60
_LOOK = 0.01


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of both parties, and labels that two splits determine."""
    X = np.random.default_rng(3).normal(size=(ROWS, 4))
    return X, ((X[:, 0] > 0.3) & (X[:, 3] > -0.5)).astype(float)


def _own(party: Party) -> tuple[np.ndarray, np.ndarray]:
    X, y = table()
    rows = slice(0, CUT) if party.rank == 0 else slice(CUT, ROWS)
    return X[rows], y[rows]


def undisturbed() -> np.ndarray:
    """Return margins of trainings in memory without a kill, each with different coins, float64[trainings, rows]."""

    def job(party: Party) -> np.ndarray:
        own = _own(party)
        return SecureXGBClassifier(**MODEL).fit(party, *own).predict_margin(party, own[0])

    seeds = ((os.urandom(16), os.urandom(16)) for _ in range(UNDISTURBED))
    return np.array([np.concatenate(run_both(job, pair)[0]) for pair in seeds])


def train(offline: Maker, folder: Path) -> None:
    """Train and predict, and write marks, margins by party and training, and a refusal to the folder."""

    def job(party: Party) -> None:
        own = _own(party)

        def mark(what: str) -> None:
            if party.rank == 0:
                with (folder / "marks").open("a") as file:
                    file.write(f"{what}\n")

        for number in range(TRAININGS):
            mark(f"begin {number}")
            model = SecureXGBClassifier(**MODEL)
            model.fit(party, *own, observer=lambda tree, *_, of=number: mark(f"tree {tree} of {of}"))
            np.save(folder / f"margins_{number}_{party.rank}.npy", model.predict_margin(party, own[0]))
            mark(f"end {number}")

    try:
        run_local(job, offline=offline, shards=SHARDS)
    except SharewoodError as error:
        (folder / "refused").write_text(f"{type(error).__name__}: {error}")


@dataclass
class Ran:
    """The outcome of a run: margins by training, or None; an early end and its message; times of marks; and kills."""

    margins: list[np.ndarray | None]
    end: str
    text: str
    at: dict[str, float]
    kills: list[str]


def run(offline: Maker, kills: dict[str, tuple[float, int]]) -> Ran:
    """Run in new processes. `kills` gives, by phase, the seconds into it, and the running worker that is killed."""
    left, killed, at, until = dict(kills), list[str](), dict[str, float](), time.monotonic() + LIMIT
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "marks").touch()
        with (folder / "out").open("w") as file:
            command = [sys.executable, "-m", "benchmarks.cluster_kills", "--train", offline, "--folder", name]
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=CHILD)
        hangs = False
        while process.poll() is None and not hangs:
            now = time.monotonic()
            for line in (folder / "marks").read_text().splitlines():
                at.setdefault(line, now)
            if "workers" not in at and _workers(process.pid):
                at["workers"] = now
            for phase, (seconds, victim) in list(left.items()):
                begun = at.get(PHASES[phase][0])
                if begun and now - begun >= seconds and (alive := _workers(process.pid)):
                    _kill(alive[victim % len(alive)])
                    killed.append(phase)
                    del left[phase]
            hangs = now > until
            time.sleep(_LOOK)
        if hangs:
            for pid in [*_below(process.pid), process.pid]:
                _kill(pid)
        process.wait()
        margins = [_margins(folder, number) for number in range(TRAININGS)]
        refused = folder / "refused"
        end = "hang" if hangs else "refused" if refused.exists() else "wrong"
        text = (refused if refused.exists() else folder / "out").read_text()[-2000:]
        return Ran(margins, end, text, at, killed)


def _margins(folder: Path, number: int) -> np.ndarray | None:
    """Return the margins of all rows, if both parties reached the end of that training."""
    files = [folder / f"margins_{number}_{rank}.npy" for rank in (0, 1)]
    if f"end {number}" not in (folder / "marks").read_text() or not all(file.exists() for file in files):
        return None
    return np.concatenate([np.load(file) for file in files])


def _workers(root: int) -> list[int]:
    """Return the descendants of this process that are workers of a party, by pid."""
    return sorted(pid for pid in _below(root) if _text(pid, "cmdline").startswith("ray::RayWorker"))


def _below(root: int) -> Iterator[int]:
    """Return all descendants of a process."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if fields := _text(int(name), "stat").rpartition(")")[2].split():
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [root]
    while found:
        below = children.get(found.pop(), [])
        yield from below
        found += below


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def lengths(offline: Maker) -> dict[str, float]:
    """Return the seconds of each phase of a run without kills."""
    ran = run(offline, {})
    if ran.margins[-1] is None:
        raise SystemExit(f"a run without kills: {ran.end} {ran.text}")
    return {phase: ran.at[end] - ran.at[begin] for phase, (begin, end, _) in PHASES.items()}


def count(runs: int, seed: int) -> Counter[tuple[str, str]]:
    """Ends by phase."""
    rng = random.Random(seed)
    right, seconds = undisturbed(), {offline: lengths(offline) for offline in OFFLINE}
    ends: Counter[tuple[str, str]] = Counter()
    for number in range(runs):
        offline = OFFLINE[number % 2]
        taken = seconds[offline]
        ran = run(offline, {phase: (rng.random() * taken[phase], rng.randrange(2 * SHARDS)) for phase in PHASES})
        for phase in ran.kills:
            found = ran.margins[PHASES[phase][2]]
            off = None if found is None else float(np.abs(found - right).max(axis=1).min())
            end = ran.end if off is None else "model" if off < COINS else "wrong"
            ends[phase, end] += 1
            said = ran.text if off is None else f"{off:.1g} from the margins without a kill"
            print(f"{ends.total()}: {offline}, {phase}: {end}, {said}", flush=True)
    return ends


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", choices=OFFLINE, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parse(parser, arguments, runs=1)
    if asked.train:
        train(asked.train, asked.folder)
        return
    ends = count(asked.runs, asked.seed)
    shown = Table("killed during", "kills", *ENDS, box=MARKDOWN)
    for phase in PHASES:
        row = [ends[phase, end] for end in ENDS]
        shown.add_row(phase, str(sum(row)), *map(str, row))
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
