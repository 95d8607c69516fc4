"""A command in a process of its own ends as if it were the only one, or with a sentence, and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only on Linux")

BEGIN = """
import logging, os, signal, subprocess, sys, time
logging.basicConfig(format="%(message)s")
from protocols.runtime.workers.keeper import run_apart
run_apart()
def orphan():
    "Start a process that outlives its parent, like Ray's agents, in a session of its own."
    how = "start_new_session=True, stdout=-3, stderr=-3"
    code = f"import subprocess; print(subprocess.Popen(['sleep', '600'], {how}).pid)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    print(done.stdout.strip(), flush=True)
"""
RAY_DIED = (
    "sharewood: Ray has died on this machine, and the command with it: run it again at both parties, with --resume"
)


def start(program):
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", BEGIN + program], stdout=pipe, stderr=pipe, text=True)


def ends(pid):
    """Return whether a process ends soon."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}/stat").exists():
            return True
        time.sleep(0.02)
    return False


def test_the_death_of_ray_is_one_sentence_and_leaves_nothing_behind():
    check("orphan(); os.write(2, b'a dump'); os._exit(1)", 3, RAY_DIED)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("sys.exit(7)", 7, ""),
        ("print('words', file=sys.stderr); logging.warning('more'); os.write(2, b'dump')", 0, "words\nmore\n"),
        ("os.abort()", 3, RAY_DIED),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("orphan(); sys.exit(4)", 4, ""),
    ],
)
def test_the_end_of_a_command(program, status, said):
    check(program, status, said)


def check(program, status, said):
    process = start(program)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert err == said if not said.startswith("sharewood") else err.startswith(said) and err.count("\n") == 1
    assert all(ends(pid) for pid in out.split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "program", "status"),
    [
        (signal.SIGTERM, "time.sleep(60)", -15),
        (signal.SIGTERM, "signal.signal(15, lambda *_: os.abort()); time.sleep(60)", -15),  # as in Ray, while it starts
        (signal.SIGTERM, "signal.signal(15, lambda *_: sys.exit(15)); time.sleep(60)", -15),  # as in Ray
        (signal.SIGINT, "\ntry: time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(130)", 130),
        (signal.SIGKILL, "time.sleep(60)", -9),
    ],
)
def test_a_signal(sent, program, status):
    process = start(f"orphan(); {program.lstrip()}" if not program.startswith("\n") else f"orphan(){program}")
    pid = process.stdout.readline().strip()
    time.sleep(0.1)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    assert ends(pid)
