"""Processes end with their parent, leave no core dump, and are all reaped."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mpc.host.process import end_with
from protocols.runtime import run_local

PR_GET_DUMPABLE = 3
PARENT = """
import os, sys, time
from protocols.runtime import processes

def role(channels):
    os.write(1, f"{os.getpid()}\\n".encode())
    {body}

processes.run_processes(dict.fromkeys(("party_a", "party_b", "dealer"), role))
"""


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(pids, seconds=20):
    pids = list(pids)
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


def roles_of_a_parent(body, number):
    """Return the processes of three roles whose parent was ended by a signal."""
    command = [sys.executable, "-c", PARENT.replace("{body}", body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        pids = [int(parent.stdout.readline()) for _ in range(3)]
        assert all(map(alive, pids))
        parent.send_signal(number)
        parent.wait(10)
    return pids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("body", ["time.sleep(600)", "time.sleep(2); return bytes(10_000_000)"])
def test_children_end_with_their_parent(number, body):
    assert ended(roles_of_a_parent(body, number))


def test_no_role_hangs_in_a_report_that_nobody_reads():
    unwatched = "time.sleep(2); return bytes(10_000_000)\n\nprocesses.end_with = lambda parent: None"
    assert ended(roles_of_a_parent(unwatched, signal.SIGKILL))


def test_a_child_whose_parent_is_gone_already_ends():
    child = os.fork()
    if not child:
        end_with(os.getpid())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_crash_leaves_no_core_dump(tmp_path):
    def limits(party):
        return resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)

    for core, dumpable in run_local(limits):
        assert tuple(core) == (0, 0) and dumpable == 0


def test_a_command_leaves_no_core_dump_from_its_start():
    script = """
import ctypes, resource, sys
from sharewood import cli
sys.argv = ["sharewood", "--version"]
try:
    cli.main()
finally:
    print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "(0, 0) 0", done


def test_parties_work_without_core_dumps():
    def job(party):
        return party.reveal(party.share(np.arange(3) if party.rank == 0 else None, owner=0), what="x")

    assert all((opened == np.arange(3)).all() for opened in run_local(job))


def test_the_dealer_of_a_loopback_run_ends_with_its_party():
    script = """
import os, time
from protocols.runtime.hosts import Network
from protocols.runtime.loopback import loopback_dealer

with loopback_dealer(Network(("party_a", "party_b"), ("127.0.0.1", 1), None)):
    print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as party:
        (dealer,) = map(int, party.stdout.readline().split())
        assert alive(dealer)
        party.kill()
    assert ended([dealer])


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.0, 0.3, 1.0, 2.0, 4.0])
def test_no_child_of_a_killed_demo_is_left(tmp_path, number, after):
    command = [sys.executable, "-c", "from sharewood.cli import main; main()", "demo", "--trees", "200", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as demo:
        while len(children := Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()) < 3:
            assert demo.poll() is None
            time.sleep(0.01)
        time.sleep(after)
        demo.send_signal(number)
    assert ended(map(int, children))
    assert not list((tmp_path / "out").glob("*.partial"))
