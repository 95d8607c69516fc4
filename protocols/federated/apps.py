"""The ServerApp and ClientApp of both systems, for real processes (superlink and supernodes).

Run configuration, one for all: system ("fedxgbllr" or "virtual-samples"), parameters (the system's configuration as
JSON), clients, minimum, features (virtual samples), secure, timeout in seconds, out (where the server writes).

Node configuration, one a supernode: client-id, data (a CSV file), label (its column), and where they apply: update (a
CSV file of new rows), group-key (a file of 32 bytes that the nodes share), out (where a
node of virtual samples writes the model with its boundaries), helper-key (the helper's public key, a
file of 32 bytes). The helper has helper-private-key (a file of 32 bytes) and nothing else. A client takes the
helper's key from its own host, never from the server.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from mpc.errors import ConfigError, DataError
from protocols.federated.engine import HELPER, Participant
from protocols.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.federated.flower import FlowerFederation, client_app_of
from protocols.federated.secure_sum import Helper, OpenSum, SharedSum, Summation
from protocols.federated.virtual_samples.config import VirtualSamplesConfig

server_app = ServerApp()


def configuration(context: Context) -> FedXGBllrConfig | VirtualSamplesConfig:
    """The configuration of the run's system. Raises ConfigError."""
    system = context.run_config["system"]
    kinds: dict[object, type[FedXGBllrConfig] | type[VirtualSamplesConfig]] = {
        "fedxgbllr": FedXGBllrConfig,
        "virtual-samples": VirtualSamplesConfig,
    }
    if system not in kinds:
        raise ConfigError(f"system: {system!r} is not one of {', '.join(map(str, kinds))}")
    try:
        parameters = json.loads(str(context.run_config["parameters"]))
    except ValueError:
        raise ConfigError("parameters: not a JSON object") from None
    return kinds[system].of(**parameters)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """The server's part of a run; writes the model as an .npz of plain arrays."""
    run = context.run_config
    config, secure = configuration(context), bool(run["secure"])
    federation = FlowerFederation(grid, int(run["clients"]), int(run["minimum"]), secure, float(run["timeout"]))
    summation: Summation = SharedSum(None, int(run["clients"])) if secure else OpenSum()
    if isinstance(config, FedXGBllrConfig):
        from protocols.federated.fedxgbllr.model import pack_ensembles
        from protocols.federated.fedxgbllr.server import train

        model = train(federation, config, summation)
        unit = np.array([model.location, model.scale])
        arrays = pack_ensembles(model.ensembles) | {"weights": model.weights, "unit": unit}
    else:
        from protocols.federated.virtual_samples.boundaries import agree
        from protocols.federated.virtual_samples.server import Server

        agree(federation)
        training = Server(federation, int(run["features"]), config, summation)
        training.fit()
        if config.update_estimators:
            training.update()
        smallest = np.array(training.finish())
        arrays = training.forest.pack() | {"base": np.array(training.base_margin), "smallest_group": smallest}
    out = Path(str(run["out"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(out, allow_pickle=False, **arrays)


def participant(context: Context) -> tuple[int, Participant]:
    """The participant of this supernode. Raises ConfigError and DataError, which reach the server as a refusal."""
    node = context.node_config
    if "helper-private-key" in node:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        key = X25519PrivateKey.from_private_bytes(_secret(context, "helper-private-key"))
        return HELPER, Helper(key, int(context.run_config["minimum"]))
    config, client = configuration(context), int(_needed(context, "client-id"))
    secure = bool(context.run_config["secure"])
    summation: Summation = OpenSum()
    if secure:
        summation = SharedSum(_secret(context, "helper-key"), int(context.run_config["clients"]))
    label = _needed(context, "label")
    X, y = _rows(_needed(context, "data"), label)
    if isinstance(config, FedXGBllrConfig):
        from protocols.federated.fedxgbllr.client import FedXGBllrClient

        return client, FedXGBllrClient(client, X, y, config, summation)
    from protocols.federated.virtual_samples.node import VirtualSamplesNode

    update = _rows(str(node["update"]), label) if "update" in node else None
    out = Path(str(node["out"])) if "out" in node else None
    return client, VirtualSamplesNode(client, X, y, config, summation, _secret(context, "group-key"), update, out)


client_app = client_app_of(participant)


def _needed(context: Context, name: str) -> str:
    if name not in context.node_config:
        raise ConfigError(f"the supernode's --node-config has no {name}")
    return str(context.node_config[name])


def _secret(context: Context, name: str) -> bytes:
    path = Path(_needed(context, name))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {path}: {error.strerror}") from None
    if len(data) != 32:
        raise ConfigError(f"{name}: {path} has {len(data)} bytes instead of 32")
    return data


def _rows(path: str, label: str):
    """Features and labels of a CSV file; a column `id` is no feature. Raises DataError."""
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None
    if label not in table:
        raise DataError(f"{path}: there is no column {label!r}")
    labels = table.pop(label)
    return table.drop(columns="id", errors="ignore"), labels
