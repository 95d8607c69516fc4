"""Two parties whose rows are divided among Ray actors, each with a TLS link to its peer."""

import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mpc.errors import ConfigError
from mpc.party import Party
from mpc.protocol.rehearsal import Requests, Silence
from protocols.runtime.hosts import Network
from protocols.runtime.local import LocalWorkers, run_local
from protocols.runtime.settings import Offline
from protocols.runtime.workers.ray_cluster import ray_cluster
from protocols.runtime.workers.ray_workers import RayWorkers
from protocols.transport.certificates import Credentials
from secure_tree import SecureXGBClassifier
from secure_tree.public.numerics import MARGIN_SCALE
from tests.ports import free_port

N, CUT = 400, 170


def table(partition, rank):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 4))
    y = (X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=N) > 0).astype(float)
    if partition == "vertical":
        return (X[:, :2], y) if rank == 0 else (X[:, 2:], None)
    rows = slice(0, CUT) if rank == 0 else slice(CUT, N)
    return X[rows], y[rows]


def train(partition="horizontal", victims=(), how=signal.SIGKILL, **parameters):
    """Return a job that trains while `victims`, each (rank, after which tree, worker), get a signal, and predicts."""

    def job(party):
        own, labels = table(partition, party.rank)
        last, killed = {}, []

        def observe(number, tree, rows):
            last["margin"] = rows.margin.words
            for rank, at, worker in victims:
                if (party.rank, number) == (rank, at) and worker not in killed:
                    killed.append(worker)
                    os.kill(party.workers.costs()[worker]["pid"], how)

        # Three trees at this rate learn enough, whichever of splits that are nearly as good the coins choose.
        shape = {"n_estimators": 3, "max_depth": 2, "max_bin": 8, "learning_rate": 0.6}
        model = SecureXGBClassifier(**shape, partition=partition, **parameters)
        model.fit(party, own, labels, observer=observe)
        margins = model.predict_margin(party, own)
        pids = [each["pid"] for each in party.workers.costs()]
        return {"predicted": margins, "trained": last["margin"], "killed": killed, "pids": pids}

    return job


def check(a, b, partition="horizontal"):
    """Check that the model predicts the margins of the training, and that it has learned."""
    trained = (a["trained"] + b["trained"]).view(np.int64) / 2.0**MARGIN_SCALE
    predicted = np.concatenate([a["predicted"], b["predicted"]])
    assert np.abs(trained - predicted).max() < 1e-5
    labels = table("vertical", 0)[1]
    assert np.mean((predicted > 0) == labels) > 0.8
    until = time.monotonic() + 60
    while any(map(runs, (*a["pids"], *b["pids"]))):
        assert time.monotonic() < until, "a worker outlives its lead"
        time.sleep(0.1)


def runs(pid):
    """Return whether a process with this number is a worker that runs; it may be a zombie."""
    try:
        return b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.new_process
@pytest.mark.long
def test_a_killed_worker_is_replaced():
    a, b = run_local(train(victims=[(1, 0, 1)]), shards=2)
    assert b["killed"] == [1]
    check(a, b)


@pytest.mark.new_process
@pytest.mark.long
@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_workers_of_either_party_are_lost(partition, offline):
    a, b = run_local(train(partition, victims=[(0, 0, 0), (1, 1, 1)]), shards=2, offline=offline)
    assert (a["killed"], b["killed"]) == ([0], [1])
    check(a, b, partition)


@pytest.mark.new_process
@pytest.mark.long
@pytest.mark.parametrize("victims", [[(0, 0, 1)], [(0, 0, 0), (1, 0, 0)]])
def test_a_frozen_worker_is_replaced(monkeypatch, victims):
    """Also if both workers of a shard freeze, so that neither notices that the other is silent."""
    usual = LocalWorkers.network
    monkeypatch.setattr(LocalWorkers, "network", lambda *given: replace(usual(*given), timeout=20.0))
    a, b = run_local(train(victims=victims, how=signal.SIGSTOP), shards=2, timeout=300)
    assert [a["killed"], b["killed"]] == [[worker for rank, _, worker in victims if rank == each] for each in (0, 1)]
    check(a, b)


def test_a_number_of_shards_out_of_range_is_refused():
    with pytest.raises(ConfigError, match="shards must be a number from 1 to"):
        run_local(train(), shards=-1)


def test_an_audit_with_shards_is_refused():
    with pytest.raises(ConfigError, match="an audit must be used with one process at each party: leave out shards"):
        run_local(train(), shards=2, audit=True)


def test_a_ray_address_without_an_answer_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=f"no Ray answers at {address}"), ray_cluster(address):
        pass


@pytest.mark.new_process
def test_a_worker_that_cannot_start_says_why(tmp_path):
    network = Network(("party_a", "party_b"), ("127.0.0.1", 1), None, offline=Offline("pairwise"))
    missing = partial(Credentials.load, tmp_path / "tls", "party_a")
    with ray_cluster(workers=2):
        workers = RayWorkers(0, 2, network, "127.0.0.1", missing)
        with pytest.raises(ConfigError, match=r"^shard 0: its worker cannot start on its machine: .*tls/party_a\.crt"):
            workers.start(Party(0, Silence(), Requests(0)))
        workers.kill()


def test_a_process_with_threads_of_grpc_is_refused(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: "grpc_global_tim\n")
    with pytest.raises(ConfigError, match="not used Ray or gRPC before"):
        run_local(train(), shards=2)
