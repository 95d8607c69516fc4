"""Both systems in Flower's simulation give the same model as without Flower, also if a client drops out."""

import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from mpc.errors import DataError, PeerFailure
from protocols.baselines.federated.engine import HELPER, LocalFederation
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.virtual_samples.boundaries import agree
from protocols.baselines.federated.virtual_samples.server import Server
from protocols.runtime.workers.ray_cluster import ray_cluster
from tests.protocols.baselines.federated.tables import SMALL_LLR, SMALL_VS, llr_clients, summation, vs_nodes

pytest.importorskip("flwr")

CLIENTS = 3


def simulate(participants_of, job, monkeypatch):
    """Run job(grid) in a ServerApp with one supernode per participant; return its result, or raise its error."""
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from protocols.baselines.federated.flower import client_app_of

    ids = sorted(participants_of(), key=lambda i: (i == HELPER, i))

    def participant_of(context):
        client = ids[int(context.node_config["partition-id"])]
        return client, participants_of()[client]

    outcome = {}
    server = ServerApp()

    @server.main()
    def main(grid, context):
        try:
            outcome["value"] = job(grid)
        except Exception as error:
            outcome["error"] = error

    with ray_cluster(workers=1):
        run_simulation(
            server_app=server,
            client_app=client_app_of(participant_of),
            num_supernodes=len(ids),
            backend_config={"client_resources": {"num_cpus": 1}},
        )
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


@pytest.fixture(autouse=True)
def left_behind(tmp_path, monkeypatch):
    """Leave the address of a Ray that has ended, which Ray follows by default."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def test_a_simulation_that_does_not_start_ends(monkeypatch):
    """Without its nodes, nothing answers the server's thread, for which Python waits at exit."""
    from protocols.baselines.federated.launch import FlowerJob
    from protocols.baselines.federated.launch import simulate as launched

    def fails(**_):
        raise ValueError("no node starts")

    monkeypatch.setattr("flwr.server.superlink.fleet.vce.start_vce", fails)
    monkeypatch.setattr("protocols.baselines.federated.launch.ray_cluster", lambda **_: nullcontext())
    run = {"system": "fedxgbllr", "parameters": "{}", "secure": False, "clients": 2, "minimum": 2, "timeout": 60.0}
    before = set(threading.enumerate())
    with pytest.raises(PeerFailure, match="Flower's simulation failed: no node starts"):
        launched(FlowerJob(run, [{}, {}]), print)
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(5)
            assert not thread.is_alive(), thread


def dropping(client, step):
    """Return participants; one of them fails, without a message, at one step."""

    def build():
        participants = llr_clients(secure=True)
        handlers = participants[client].steps

        class Dropping(type(participants[client])):
            @property
            def steps(self):
                return handlers | {step: lambda message: 1 / 0}

        participants[client].__class__ = Dropping
        return participants

    return build


def test_fedxgbllr_with_a_client_that_drops_out_gives_the_weights_of_the_local_run(monkeypatch):
    from protocols.baselines.federated.flower import FlowerFederation

    def job(grid):
        federation = FlowerFederation(grid, CLIENTS, minimum=2, helper=True, timeout=120)
        return train(federation, SMALL_LLR, summation(True))

    simulated = simulate(dropping(1, "update"), job, monkeypatch)
    local = LocalFederation(llr_clients(secure=True), 2, absent=lambda step, client: (step, client) == ("update", 1))
    expected = train(local, SMALL_LLR, summation(True))
    assert simulated.ensembles == expected.ensembles
    np.testing.assert_allclose(simulated.weights, expected.weights, atol=1e-5)


def test_virtual_samples_gives_the_forest_of_the_local_run(monkeypatch):
    from protocols.baselines.federated.flower import FlowerFederation

    # Every level is a round, and rounds of the simulation are slow.
    quick = SMALL_VS.model_copy(update={"n_estimators": 1, "update_estimators": 1, "max_depth": 2})
    nodes = partial(vs_nodes, config=quick)

    def run(federation):
        agree(federation)
        server = Server(federation, 5, quick, summation(False))
        server.fit()
        return server.update(), server.forest

    simulated = simulate(nodes, lambda grid: run(FlowerFederation(grid, CLIENTS, 3, timeout=120)), monkeypatch)
    joined, forest = run(LocalFederation(nodes()))
    assert simulated[0] == joined
    for got, wanted in zip(simulated[1].pack().values(), forest.pack().values(), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.long
def test_a_client_with_bad_rows_ends_the_training_with_its_sentence(monkeypatch):
    from protocols.baselines.federated.flower import FlowerFederation

    def refusing():
        participants = llr_clients()

        def refuse(message):
            raise DataError("client 2: y: row 0: label must be 0 or 1, got 7")

        class Refusing(type(participants[2])):
            @property
            def steps(self):
                return {"ensemble": refuse}

        participants[2].__class__ = Refusing
        return participants

    with pytest.raises(PeerFailure, match="client 2 refused step 'ensemble': client 2: y: row 0: label must be"):
        simulate(refusing, lambda grid: train(FlowerFederation(grid, 3, 1), SMALL_LLR, summation(False)), monkeypatch)
