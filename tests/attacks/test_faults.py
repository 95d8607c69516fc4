"""Faults at random times of trainings, predictions and preparations between OS processes: what is left and said.

A trial starts the commands of all roles, does something to one of them, and waits. Nobody hangs, nobody leaves a
process or half a file, whoever fails says so in one sentence, and the same work succeeds afterwards. Its model is
that of an undisturbed run. Seeded: SHAREWOOD_FAULTS_SEED=n repeats a run; SHAREWOOD_FAULTS=n sets the number of trials.
"""

import contextlib
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from sharewood import cli
from sharewood.warming_up import warm_up
from tests.protocols.runtime.meeting import FORK
from tests.protocols.runtime.test_process import alive
from tests.sharewood.hosting import ROLES, write_job

SEED = int(os.environ.get("SHAREWOOD_FAULTS_SEED", "1"))
TRIALS = int(os.environ.get("SHAREWOOD_FAULTS", "300"))
PATIENCE, TIMEOUT, HANG = 15, 10, 120
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT, "stop": signal.SIGSTOP}
# Undisturbed runs differ by up to 0.002 here: stochastic rounding.
ROUNDING = 0.02
WORK = ("train", "predict", "prepare", "train pairwise")
TRAIN = {"n_estimators": 6, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}


class Role:
    """A command in a process group of its own, whose output goes into a pipe."""

    def __init__(self, folder, *arguments, limit=None):
        self.out, into = os.pipe()

        def play():
            os.setsid()
            os.chdir(folder)
            os.dup2(into, 1)
            os.dup2(into, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
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
        """All output of a process that has ended."""
        self.process.join()
        text = b""
        while chunk := os.read(self.out, 1 << 16):
            text += chunk
        os.close(self.out)
        return text.decode()

    def left_behind(self):
        """Processes of its session that still run."""
        left = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[3]) == self.process.pid:
                    left.append(int(path.parent.name))
        return [pid for pid in left if pid != self.process.pid and alive(pid)]


def parties(folder, command, **limits):
    """Both parties' processes of a command."""
    word, *more = command.split()
    resume = ["--resume"] if "resume" in more else []
    return {
        name: Role(folder, word, "--config", f"{name}.toml", "--party", name, *resume, limit=limits.get(name))
        for name in ROLES[:2]
    }


def finish(roles):
    """Wait for all; the names of those that hang, which are then killed."""
    until = time.monotonic() + HANG
    for role in roles.values():
        role.process.join(max(0.0, until - time.monotonic()))
    hanging = [name for name, role in roles.items() if role.process.is_alive()]
    for name in hanging:
        roles[name].process.kill()
    return hanging


def undisturbed(folder, command):
    """Run both parties to their good end; the seconds it took."""
    began, roles = time.monotonic(), parties(folder, command)
    assert finish(roles) == []
    seconds = time.monotonic() - began
    ends = [(role.process.exitcode, role.said()) for role in roles.values()]
    assert [status for status, _ in ends] == [0, 0], ends
    return seconds


def goes_on(folder):
    """Whether a training resumes; where it does not, both parties say so in a sentence."""
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
    """The margins that both halves together give."""
    halves = [SecureXGBClassifier.load(folder / f"model_{p}.npz") for p in "ab"]
    rows = [pd.read_csv(folder / f"{p}.csv").drop(columns="y") for p in "ab"]
    return np.concatenate(
        run_both(lambda party: halves[party.rank].predict_margin(party, rows[party.rank], "thresholds"))[0]
    )


@pytest.fixture(scope="module", autouse=True)
def warm():
    warm_up()
    warm_up("bits", "pairwise", "softspoken")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a dealer and one without."""
    found = {}
    for offline in ("dealer", "pairwise"):
        folder = found[offline] = tmp_path_factory.mktemp(offline)
        names = {"train_data": "{}.csv", "label": "y", "model": "model_{}.npz", "predict_data": "{}.csv"}
        more = {"predictions": "out_{}.csv", "checkpoints": "kept_{}"}
        sections = {f"party_{p}": {k: v.format(p) for k, v in (names | more).items()} for p in "ab"}
        for p in "ab" if offline == "pairwise" else "":
            sections[f"party_{p}"]["prepared"] = f"{p}.material"
        write_job(folder, sections, train=TRAIN, plan={"rows": [20, 20], "features": 2})
        rng = np.random.default_rng(5)
        for p in "ab":
            table = pd.DataFrame({"x": rng.normal(size=20), "z": rng.normal(size=20)})
            table.assign(y=(table.x > 0).astype(int)).to_csv(folder / f"{p}.csv", index=False)
        waits = f'patience = {PATIENCE}\ntimeout = {TIMEOUT}\noffline = "{offline}"\not = "softspoken"\n'
        for role in ROLES:
            path = folder / f"{role}.toml"
            path.write_text(waits + path.read_text())
    return found


def half_written(folder):
    """Files under their final names that cannot be read."""
    bad = []
    for path in folder.rglob("*.npz"):
        with contextlib.suppress(Exception):
            np.load(path).close()
            continue
        bad.append(path)
    return bad + [path for path in folder.glob("out_*.csv") if len(pd.read_csv(path)) != 20]


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_random_faults(places, capsys):
    rng, outcomes = random.Random(SEED), Counter()
    with contextlib.ExitStack() as stack:
        dealers = {}

        def dealer(folder):
            if "dealer" not in dealers or not dealers["dealer"].process.is_alive():
                dealers["dealer"] = role = Role(folder, "dealer", "--config", "dealer.toml")
                stack.callback(lambda: (role.process.kill(), role.process.join()))
            return dealers["dealer"]

        dealer(places["dealer"])
        seconds = {
            "train": undisturbed(places["dealer"], "train"),
            "predict": undisturbed(places["dealer"], "predict"),
            "prepare": undisturbed(places["pairwise"], "prepare"),
            "train pairwise": undisturbed(places["pairwise"], "train"),
        }
        expected = {name: predicted(folder) for name, folder in places.items()}
        for number in range(TRIALS):
            work = rng.choice(WORK)
            paired = work in ("prepare", "train pairwise")
            folder, command = places["pairwise" if paired else "dealer"], work.split()[0]
            fault = rng.choice([*SIGNALS, "full disk", "comes twice"])
            victim = rng.choice(ROLES[:2] if paired or fault in ("full disk", "comes twice") else ROLES)
            when, label = rng.random() * seconds[work], f"trial {number}, seed {SEED}: {fault} of {victim} in {work}"
            if work == "train pairwise":
                prepare_again(folder)
            limits = {victim: rng.randrange(2500, 20_000)} if fault == "full disk" else {}
            roles = parties(folder, command, **limits)
            time.sleep(when)
            if fault in SIGNALS:
                hit = dealer(folder) if victim == "dealer" else roles[victim]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(hit.process.pid, SIGNALS[fault])
            elif fault == "comes twice":
                roles["twice"] = Role(folder, command, "--config", f"{victim}.toml", "--party", victim)
            others = {name: role for name, role in roles.items() if fault != "stop" or name != victim}
            outcomes["hangs"] += len(hanging := finish(others))
            assert not hanging, label
            if fault == "stop":
                hit.process.kill()
                hit.process.join()
            if victim == "dealer":
                hit.process.join(10)
                hit.process.kill()
                hit.process.join()
            ends = {name: (role.process.exitcode, role.said()) for name, role in roles.items()}
            orphans = [pid for role in roles.values() for pid in role.left_behind()]
            outcomes["orphans"] += len(orphans)
            assert not orphans, label
            for name, (status, said) in ends.items():
                if fault in SIGNALS and name == victim:
                    continue
                last = [line for line in said.splitlines() if line.startswith("sharewood: ")]
                assert "Traceback" not in said and status in (0, 2, 3), (label, name, said)
                assert len(last) == (status != 0), (label, name, said)
                outcomes["ended well" if status == 0 else "one sentence"] += 1
                if fault in ("kill", "stop", "term", "int") and status == 3:
                    outcomes["blames the right host"] += victim in last[0]
            bad = half_written(folder)
            outcomes["half-written"] += len(bad)
            assert not bad, (label, bad)
            if not paired:
                dealer(folder)
            if command == "train":
                rounds = all((folder / f"kept_{p}" / "round_00001.npz").exists() for p in "ab")
                resumed = rounds and not paired and rng.random() < 0.5 and goes_on(folder)
                outcomes["resumed"] += int(resumed)
                if paired:
                    prepare_again(folder)
                if not resumed:
                    undisturbed(folder, "train")
            else:
                undisturbed(folder, command)
            wrong = np.abs(predicted(folder) - expected["pairwise" if paired else "dealer"]).max() > ROUNDING
            outcomes["wrong models"] += int(wrong)
            assert not wrong, label
            outcomes["trials"] += 1
        with capsys.disabled():
            print(f"\nseed {SEED}: {dict(outcomes)}")
    assert not any(outcomes[name] for name in ("hangs", "orphans", "half-written", "wrong models"))
