"""Both systems between real processes on loopback: one superlink, a supernode for each client, the helper's too."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protocols.federated.engine import LocalFederation
from protocols.federated.fedxgbllr.server import train
from protocols.federated.virtual_samples.boundaries import agree
from protocols.federated.virtual_samples.server import Server
from tests.protocols.federated.tables import (
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

APP = Path(__file__).resolve().parents[3] / "protocols" / "federated" / "app"
BIN = Path(sys.executable).parent
QUICK_LLR = SMALL_LLR.model_copy(update={"rounds": 1})
QUICK_VS = SMALL_VS.model_copy(update={"n_estimators": 1, "update_estimators": 0, "max_depth": 2})


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@contextmanager
def deployment(folder, nodes):
    """A superlink and the supernodes of `nodes` (their node configurations), ended with everything they started."""
    port, *node_ports = free_ports(1 + len(nodes))
    home = folder / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    quiet = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PATH": f"{BIN}:{os.environ['PATH']}"}
    environment = os.environ | quiet | {"NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    running = []

    def start(*command):
        log = (folder / f"process-{len(running)}.log").open("w")
        options = {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
        running.append(subprocess.Popen([str(BIN / command[0]), *command[1:]], cwd=folder, env=environment, **options))

    try:
        start(
            "flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--port", str(port)
        )  # fmt: skip
        for config, node_port in zip(nodes, node_ports, strict=True):
            pairs = " ".join(f"{k}={json.dumps(v)}" for k, v in config.items())
            address = ["--superlink", f"127.0.0.1:{port}", "--port", str(node_port)]
            start("flower-supernode", "--insecure", *address, "--node-config", pairs)
        yield environment
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def run_app(folder, environment, **config):
    """`flwr run`, until the server has written the model; its arrays."""
    out = folder / "model.npz"
    (folder / "run.toml").write_text(
        "\n".join(f"{k} = {json.dumps(v)}" for k, v in config.items() | {("out", str(out))})
    )
    command = [str(BIN / "flwr"), "run", str(APP), "here", "--run-config", str(folder / "run.toml")]
    give_up = time.monotonic() + 40
    while (done := subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)).returncode:
        assert time.monotonic() < give_up, done.stdout + done.stderr
        time.sleep(0.5)
    give_up = time.monotonic() + 500
    while not out.exists():
        assert time.monotonic() < give_up, logs(folder)
        time.sleep(0.2)
    time.sleep(0.2)
    with np.load(out, allow_pickle=False) as arrays:
        return dict(arrays)


def logs(folder):
    return "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("process-*.log")))


def write_rows(folder, clients=3):
    """One CSV a client, the same rows as `tables` divides."""
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
        for i in range(3)
    ]
    with deployment(tmp_path, [*nodes, {"helper-private-key": str(tmp_path / "private")}]) as environment:
        arrays = run_app(
            tmp_path,
            environment,
            system="fedxgbllr",
            parameters=QUICK_LLR.model_dump_json(),
            clients=3,
            minimum=2,
            secure=True,
        )
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
    with deployment(tmp_path, nodes) as environment:
        arrays = run_app(
            tmp_path,
            environment,
            system="virtual-samples",
            parameters=QUICK_VS.model_dump_json(),
            clients=3,
            minimum=3,
            features=5,
        )
    federation = LocalFederation(vs_nodes(config=QUICK_VS))
    agree(federation)
    expected = Server(federation, 5, QUICK_VS, summation(False))
    expected.fit()
    for name, wanted in expected.forest.pack().items():
        np.testing.assert_array_equal(arrays[name], wanted)
