"""Commands of all roles in processes that can be disturbed, their folders, and checks of these afterwards."""

import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from sharewood import cli
from tests.protocols.runtime.meeting import FORK
from tests.protocols.runtime.test_process import alive
from tests.sharewood.commands.hosting import ROLES, write_job

PATIENCE, TIMEOUT, HANG = 15, 10, 120
TRAIN = {"n_estimators": 6, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}


class Role:
    """A command in its own process group, whose output is captured; `first` is called in the process before it."""

    def __init__(self, folder, *arguments, limit=None, first=None):
        self.out, into = os.pipe()

        def play():
            os.setsid()
            os.chdir(folder)
            os.dup2(into, 1)
            os.dup2(into, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            if first:
                first()
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            sys.argv = ["sharewood", *arguments]
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with contextlib.suppress(BrokenPipeError):
                cli.main()

        self.process = FORK.Process(target=play)
        self.process.start()
        os.close(into)

    def said(self):
        """Return all output of a process that has ended."""
        self.process.join()
        text = b""
        while chunk := os.read(self.out, 1 << 16):
            text += chunk
        os.close(self.out)
        return text.decode()

    def left_behind(self):
        """Return processes of its session that still run."""
        left = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[3]) == self.process.pid:
                    left.append(int(path.parent.name))
        return [pid for pid in left if pid != self.process.pid and alive(pid)]


def parties(folder, command, **limits):
    """Start a command at both parties."""
    word, *more = command.split()
    resume = ["--resume"] if "resume" in more else []
    return {
        name: Role(folder, word, "--config", f"{name}.toml", "--party", name, *resume, limit=limits.get(name))
        for name in ROLES[:2]
    }


def finish(roles):
    """Wait for all roles; kill those that hang, and return their names."""
    until = time.monotonic() + HANG
    for role in roles.values():
        role.process.join(max(0.0, until - time.monotonic()))
    hanging = [name for name, role in roles.items() if role.process.is_alive()]
    for name in hanging:
        roles[name].process.kill()
    return hanging


def undisturbed(folder, command):
    """Run both parties until they succeed; return the seconds it took."""
    began, roles = time.monotonic(), parties(folder, command)
    assert finish(roles) == []
    seconds = time.monotonic() - began
    ends = [(role.process.exitcode, role.said()) for role in roles.values()]
    assert [status for status, _ in ends] == [0, 0], ends
    return seconds


def goes_on(folder):
    """Return whether a training resumes; if it does not, both parties must say so in a sentence."""
    roles = parties(folder, "train resume")
    assert finish(roles) == []
    ends = [(role.process.exitcode, role.said()) for role in roles.values()]
    statuses = [status for status, _ in ends]
    assert all("Traceback" not in said for _, said in ends) and set(statuses) <= {0, 2, 3}, ends
    return statuses == [0, 0]


def prepare_again(folder):
    for p in "ab":
        (folder / f"{p}.material").unlink(missing_ok=True)
    undisturbed(folder, "prepare")


def predicted(folder):
    """Return the margins of the two halves together."""
    halves = [SecureXGBClassifier.load(folder / f"model_{p}.npz") for p in "ab"]
    rows = [pd.read_csv(folder / f"{p}.csv").drop(columns="y") for p in "ab"]
    return np.concatenate(
        run_both(lambda party: halves[party.rank].predict_margin(party, rows[party.rank], "thresholds"))[0]
    )


def make_places(make_folder):
    """Make a folder with a dealer and one without; `make_folder` takes their names."""
    found = {}
    for offline in ("dealer", "pairwise"):
        folder = found[offline] = make_folder(offline)
        names = {"train_data": "{}.csv", "label": "y", "model": "model_{}.npz", "predict_data": "{}.csv"}
        more = {"predictions": "out_{}.csv", "checkpoints": "kept_{}"}
        sections = {f"party_{p}": {k: v.format(p) for k, v in (names | more).items()} for p in "ab"}
        for p in "ab" if offline == "pairwise" else "":
            sections[f"party_{p}"]["prepared"] = f"{p}.material"
        write_job(folder, sections, train=TRAIN, plan={"rows": [20, 20], "features": 2})
        rng = np.random.default_rng(5)
        for p in "ab":
            table = pd.DataFrame({"x": rng.normal(size=20), "z": rng.normal(size=20)})
            table.assign(y=((table.x > 0) | (table.z > 0.7)).astype(int)).to_csv(folder / f"{p}.csv", index=False)
        waits = f'patience = {PATIENCE}\ntimeout = {TIMEOUT}\noffline = "{offline}"\not = "softspoken"\n'
        for role in ROLES:
            path = folder / f"{role}.toml"
            path.write_text(waits + path.read_text())
    return found


def half_written(folder):
    """Return files under their final names that cannot be read."""
    bad = []
    for path in folder.rglob("*.npz"):
        with contextlib.suppress(Exception):
            np.load(path).close()
            continue
        bad.append(path)
    return bad + [path for path in folder.glob("out_*.csv") if len(pd.read_csv(path)) != 20]
