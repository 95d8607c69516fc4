"""Both systems between real processes on loopback: a superlink, and a supernode for each client and the helper."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

from mpc.errors import PeerFailure, PeerVanished
from protocols.baselines.federated import launch
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.keys import write_key_pair
from protocols.baselines.federated.launch import FlowerJob, deploy
from protocols.baselines.federated.virtual_samples.boundaries import agree
from protocols.baselines.federated.virtual_samples.server import Server
from tests.protocols.baselines.federated.tables import (
    GROUP_KEY,
    HELPER_KEY,
    SMALL_LLR,
    SMALL_VS,
    llr_clients,
    summation,
    table,
    vs_nodes,
)

pytest.importorskip("flwr")

QUICK_LLR = SMALL_LLR.model_copy(update={"rounds": 1})
QUICK_VS = SMALL_VS.model_copy(update={"n_estimators": 1, "update_estimators": 0, "max_depth": 2})


def deployed(folder, nodes, **run):
    """Return the server's facts about the run, its progress messages, and the arrays that it wrote."""
    said, out = [], folder / "model.npz"
    settings = {"clients": 3, "minimum": 2, "features": 5, "secure": False, "timeout": 300, "out": str(out)}
    facts = deploy(FlowerJob(settings | run, nodes), folder, said.append)
    with np.load(out, allow_pickle=False) as arrays:
        return facts, said, dict(arrays)


def write_rows(folder, clients=3):
    """Write one CSV per client, with the same rows as in `tables`."""
    X, y = table()
    for i, part in enumerate(np.array_split(np.arange(len(X)), clients)):
        frame = pd.DataFrame(X[part], columns=[f"f{j}" for j in range(X.shape[1])])
        frame.assign(y=y[part]).to_csv(folder / f"rows-{i}.csv", index=False)


@pytest.mark.long
def test_fedxgbllr_with_secure_sums(tmp_path):
    write_rows(tmp_path)
    (tmp_path / "private").write_bytes(HELPER_KEY.private_bytes_raw())
    (tmp_path / "public").write_bytes(HELPER_KEY.public_key().public_bytes_raw())
    nodes = [
        {"client-id": i, "data": str(tmp_path / f"rows-{i}.csv"), "label": "y", "helper-key": str(tmp_path / "public")}
        | {"client-key": str(tmp_path / f"node-{i}")}
        for i in range(3)
    ]
    for i in range(3):
        write_key_pair(tmp_path / f"node-{i}", tmp_path / "clients")
    helper = {"helper-private-key": str(tmp_path / "private"), "client-keys": str(tmp_path / "clients")}
    parameters = QUICK_LLR.model_dump_json()
    facts, said, arrays = deployed(tmp_path, [*nodes, helper], system="fedxgbllr", parameters=parameters, secure=True)
    assert facts["received"]["ensemble"] == arrays["ensembles"].nbytes
    assert "the clients grow their trees" in said
    expected = train(LocalFederation(llr_clients(True, config=QUICK_LLR)), QUICK_LLR, summation(True))
    assert arrays["ensembles"].tobytes() == b"".join(expected.ensembles)
    np.testing.assert_allclose(arrays["weights"], expected.weights, atol=1e-5)


@pytest.mark.long
def test_virtual_samples(tmp_path):
    write_rows(tmp_path)
    (tmp_path / "group").write_bytes(GROUP_KEY)
    nodes = [
        {"client-id": i, "data": str(tmp_path / f"rows-{i}.csv"), "label": "y", "group-key": str(tmp_path / "group")}
        for i in range(3)
    ]
    parameters = QUICK_VS.model_dump_json()
    _, said, arrays = deployed(tmp_path, nodes, system="virtual-samples", parameters=parameters, minimum=3)
    assert "the nodes agree on the clusters" in said
    federation = LocalFederation(vs_nodes(config=QUICK_VS))
    agree(federation)
    expected = Server(federation, 5, QUICK_VS, summation(False))
    expected.fit()
    for name, wanted in expected.forest.pack().items():
        np.testing.assert_array_equal(arrays[name], wanted)


@pytest.mark.long
def test_a_client_with_an_invalid_label_ends_the_run_with_its_sentence(tmp_path):
    write_rows(tmp_path)
    (tmp_path / "rows-1.csv").write_text("f0,f1,f2,f3,f4,y\n0,0,0,0,0,7\n")
    nodes = [{"client-id": i, "data": str(tmp_path / f"rows-{i}.csv"), "label": "y"} for i in range(3)]
    with pytest.raises(
        PeerFailure, match="a node refused step 'hello': client 1: y: row 0: label must be 0 or 1, got 7"
    ):
        deployed(tmp_path, nodes, system="fedxgbllr", parameters=QUICK_LLR.model_dump_json())


def kill_when_started(monkeypatch, folder, name):
    """Kill the process `name` once the clients are at work."""
    follow = launch._follow

    def killing(report, running, spare, say):
        def watching(said):
            say(said)
            if said == "the clients grow their trees":
                os.killpg(running[folder / f"{name}.log"].pid, signal.SIGKILL)

        return follow(report, running, spare, watching)

    monkeypatch.setattr(launch, "_follow", killing)


@pytest.mark.long
@pytest.mark.parametrize(("name", "minimum"), [("supernode-2", 3), ("superlink", 1)])
def test_too_many_processes_that_die_end_the_run_with_a_sentence(tmp_path, monkeypatch, name, minimum):
    write_rows(tmp_path)
    nodes = [{"client-id": i, "data": str(tmp_path / f"rows-{i}.csv"), "label": "y"} for i in range(3)]
    kill_when_started(monkeypatch, tmp_path, name)
    with pytest.raises(PeerVanished, match=rf"^{name} ended with status -9; its last lines: [^\x1b\n]+$"):
        deployed(tmp_path, nodes, system="fedxgbllr", parameters=QUICK_LLR.model_dump_json(), minimum=minimum)


@pytest.mark.long
def test_a_supernode_that_dies_is_left_out_of_the_model(tmp_path, monkeypatch):
    write_rows(tmp_path)
    nodes = [{"client-id": i, "data": str(tmp_path / f"rows-{i}.csv"), "label": "y"} for i in range(3)]
    kill_when_started(monkeypatch, tmp_path, "supernode-2")
    parameters = SMALL_LLR.model_copy(update={"total_trees": 900, "rounds": 1, "local_epochs": 1}).model_dump_json()
    _, _, arrays = deployed(tmp_path, nodes, system="fedxgbllr", parameters=parameters, timeout=60)
    assert len(arrays["lengths"]) == 2
