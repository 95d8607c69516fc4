"""Ray requires a token, which only its own processes have, and keeps its files from other users."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mpc.errors import ConfigError, PeerFailure
from protocols.runtime.workers.ray_cluster import ray_cluster
from protocols.runtime.workers.worker import Worker
from protocols.transport.certificates import make_credentials
from tests.ports import free_port, free_ports

STRANGER = """
import logging, ray, sys
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
print("ran", ray.get(ray.remote(lambda: 7).options(num_cpus=0.01).remote()))
"""
RAY = str(Path(sys.executable).parent / "ray")


@pytest.fixture
def starts(monkeypatch):
    """Record each start of Ray, which is not made: its arguments, environment, and the mode of its folder's parent."""
    ray = pytest.importorskip("ray")
    found = []

    def start(**how):
        mode = stat.S_IMODE(Path(how["_temp_dir"]).parent.stat().st_mode)
        found.append((how, dict(os.environ), mode))

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return found


def test_a_ray_that_is_started_reports_to_nobody(starts, monkeypatch):
    from ray._common.usage import usage_lib

    for given, expected in ((None, False), ("1", True)):
        monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
        if given:
            monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", given)
        with ray_cluster(workers=2):
            assert usage_lib.usage_stats_enabled() is expected
    assert [environment["RAY_USAGE_STATS_ENABLED"] for _, environment, _ in starts] == ["0", "1"]


def test_a_random_token_is_required_before_ray_starts(starts):
    from ray._raylet import get_authentication_mode

    usual = get_authentication_mode(), os.environ.get("RAY_AUTH_MODE")
    with ray_cluster(workers=2):
        assert get_authentication_mode() == 1 != usual[0]
        assert "RAY_AUTH_TOKEN" not in os.environ  # the programs that this process starts must not have it
    with ray_cluster():
        pass
    (how, environment, mode), (_, again, _) = starts
    assert environment["RAY_AUTH_MODE"] == "token" and re.fullmatch("[0-9a-f]{64}", environment["RAY_AUTH_TOKEN"])
    assert environment["RAY_AUTH_TOKEN"] != again["RAY_AUTH_TOKEN"]
    assert how["address"] == "local" and how["num_cpus"] == 2 and mode == 0o700
    assert (get_authentication_mode(), os.environ.get("RAY_AUTH_MODE")) == usual
    assert not Path(how["_temp_dir"]).parent.exists()


def test_a_failure_of_ray_is_one_sentence(starts):
    import ray

    with pytest.raises(PeerFailure, match=r"^Ray has failed: The task's local raylet died"), ray_cluster():
        raise ray.exceptions.LocalRayletDiedError


def test_a_long_folder_for_temporary_files_is_not_used_for_sockets(starts, monkeypatch, tmp_path):
    long = tmp_path / ("x" * 60)
    long.mkdir()
    for folder, used in ((long, "/tmp"), (Path("/tmp"), "/tmp")):
        monkeypatch.setenv("RAY_TMPDIR", str(folder))
        with ray_cluster():
            assert Path(starts[-1][0]["_temp_dir"]).parent.parent == Path(used)


def listens(port, worker):
    try:
        return worker.listen("127.0.0.1", (port, port + 1))[1]
    except ConfigError as error:
        return str(error)


def test_workers_listen_at_the_ports_of_the_configuration():
    credentials = make_credentials(["party_a"])["party_a"]
    with free_ports(2) as (port, _):
        pass
    with socket.create_server(("127.0.0.1", port)):
        first, second = (Worker(0, lambda: credentials) for _ in range(2))
        assert listens(port, first) == port + 1
        assert f"no port from {port} to {port + 1} is free for a worker: cannot listen" in listens(port, second)
        first._listener.close()


def strangers(address, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-W", "ignore", "-c", STRANGER, address]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=120)


def command_lines_with(token):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(path)] if token.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


@pytest.mark.new_process
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_stranger_can_neither_use_nor_join_ray():
    import ray

    with ray_cluster(workers=1):
        context = ray.get_runtime_context()
        own = ray.get(ray.remote(lambda: dict(os.environ)).remote())
        token = own["RAY_AUTH_TOKEN"]
        address, node = context.gcs_address, context.get_node_id()
        for more in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
            done = strangers(address, **more)
            assert done.returncode and "ran" not in done.stdout, done
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        joining = [RAY, "start", f"--address={address}", "--num-cpus=0", "--block", "--disable-usage-stats"]
        joins = subprocess.Popen(
            joining, env=clean, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            joins.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(joins.pid, signal.SIGKILL)
            joins.wait()
        assert [each["NodeID"] for each in ray.nodes()] == [node]
        assert not command_lines_with(token)
        folder = Path(ray._private.worker._global_node.get_temp_dir_path()).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not [path for path in folder.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
        done = strangers(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
        assert done.stdout == "ran 7\n", done


@pytest.fixture
def head():
    """Start a Ray of the party by its own program, with an environment; yield its address."""
    folders = []

    def start(**environment):
        folders.append(tempfile.mkdtemp(prefix="ray_"))
        port = free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = ["--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false", f"--temp-dir={folders[-1]}"]
        subprocess.run([RAY, "start", *own], check=True, env=clean | environment, stdout=subprocess.DEVNULL)
        return f"127.0.0.1:{port}"

    yield start
    for path in Path("/proc").glob("[0-9]*"):
        try:
            mine = any(folder.encode() in (path / "cmdline").read_bytes() for folder in folders)
            if mine:
                os.kill(int(path.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.mark.new_process
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_cluster_that_strangers_may_use_is_refused_unless_it_is_trusted(head, monkeypatch):
    import ray

    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    address = head()
    with (
        pytest.raises(ConfigError, match=f"Ray at {address} must require a token, because whoever"),
        ray_cluster(address),
    ):
        pass
    assert not ray.is_initialized()
    with ray_cluster(address, trusted=True):
        assert ray.get(ray.remote(lambda: 7).remote()) == 7
    address = head(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="1" * 64)
    with ray_cluster(address):
        assert ray.get(ray.remote(lambda: 7).remote()) == 7
    monkeypatch.setenv("RAY_AUTH_TOKEN", "2" * 64)
    with pytest.raises(ConfigError, match=f"cannot use Ray at {address}"), ray_cluster(address):
        pass
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("HOME", "/nowhere")
    with pytest.raises(ConfigError, match=f"Ray at {address} must be used with its token: set"), ray_cluster(address):
        pass
