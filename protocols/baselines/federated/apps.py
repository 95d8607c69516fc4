"""The ServerApp and ClientApp of both systems, for real processes (superlink and supernodes).

Run configuration, one for all: system ("fedxgbllr" or "virtual-samples"), parameters (the system's configuration as
JSON), clients, minimum, features (virtual samples), secure, timeout in seconds, out (where the server writes the
model), report (where it writes its progress, and at the end its cost or the reason for its failure, as JSON; "" for
no report).

Node configuration, one per supernode: client-id, data (a CSV file), label (its column) and, if applicable: update (a
CSV file of new rows), group-key (a file of 32 bytes that the nodes share), out (where a node of virtual samples writes
the model with its boundaries), helper-key (the helper's public key, a file of 32 bytes), client-key (the client's
private key, as `ssh-keygen -t ecdsa -b 384` writes it; Flower's supernode may use the same). The helper has
helper-private-key (a file of 32 bytes) and client-keys (a file with the public key of every client, one per line).
No participant accepts a key from the server.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from mpc.errors import ConfigError, DataError
from mpc.host.files import make_folder, write_bytes
from mpc.host.frames import pd
from protocols.baselines.federated import keys
from protocols.baselines.federated.engine import HELPER, Participant
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.flower import FlowerFederation, client_app_of
from protocols.baselines.federated.secure_sum import Helper, OpenSum, SharedSum, Summation
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from secure_tree.model.storage import to_npz, write_json

Settings = Mapping[str, object]
server_app = ServerApp()
log = logging.getLogger("sharewood")
_LIKE_AN_ID = ("id", "idx", "index", "row", "rowid", "row_id", "unnamed: 0")


def configuration(run: Settings) -> FedXGBllrConfig | VirtualSamplesConfig:
    """Return the configuration of the run's system. Raises ConfigError."""
    system = run["system"]
    kinds: dict[object, type[FedXGBllrConfig] | type[VirtualSamplesConfig]] = {
        "fedxgbllr": FedXGBllrConfig,
        "virtual-samples": VirtualSamplesConfig,
    }
    if system not in kinds:
        raise ConfigError(f"system must be {' or '.join(map(str, kinds))}, got {system!r}")
    try:
        parameters = json.loads(str(run["parameters"]))
    except ValueError:
        raise ConfigError("parameters must be a JSON object") from None
    return kinds[system].of(**parameters)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the server's process: `serve`, with progress and outcome in the file `report`, if one is named."""
    run = context.run_config
    path = str(run["report"])

    def report(facts: dict[str, object]) -> None:
        if path:
            write_json(path, facts)

    try:
        report(serve(grid, run, lambda progress: report({"progress": progress, "pid": os.getpid()})))
    except Exception as error:
        report({"error": type(error).__name__, "sentence": str(error)})
        raise


def serve(grid: Grid, run: Settings, say: Callable[[str], None]) -> dict[str, object]:
    """Run the server's part, and write the model as an .npz of plain arrays.

    Returns seconds, payload bytes by step, and what the clients learn of each other beyond the documented leakage.
    """
    config, secure = configuration(run), bool(run["secure"])
    begin = time.perf_counter()
    leaks: list[str] = []
    clients = int(str(run["clients"]))
    federation = FlowerFederation(grid, clients, int(str(run["minimum"])), secure, float(str(run["timeout"])))
    summation: Summation = SharedSum(None, clients) if secure else OpenSum()
    if isinstance(config, FedXGBllrConfig):
        from protocols.baselines.federated.fedxgbllr.server import train

        say("the clients grow their trees")
        model = train(federation, config, summation, lambda n, _: say(f"round {n} of {config.rounds}"))
        arrays = model.pack()
    else:
        from protocols.baselines.federated.virtual_samples.boundaries import TWO_NODES, agree
        from protocols.baselines.federated.virtual_samples.server import Server

        features = int(str(run["features"]))
        if features < 1:
            raise ConfigError(f"features must be the number of columns with virtual samples, got {features}")
        if clients == 2:
            log.warning(TWO_NODES)
            leaks.append(TWO_NODES)
        say("the nodes agree on the clusters")
        agree(federation)
        if config.update_estimators and config.update_boundaries == "new":
            agree(federation, new=True)
        trees = config.n_estimators + config.update_estimators
        training = Server(federation, features, config, summation, lambda n, _: say(f"tree {n} of {trees}"))
        training.fit()
        joined = training.update() if config.update_estimators else 0
        smallest = np.array(training.finish())
        kept = np.array(len(training.forest) - config.n_estimators)
        extra = {"smallest_group": smallest, "joined": np.array(joined), "update_trees": kept}
        arrays = training.forest.pack() | {"base": np.array(training.base_margin)} | extra
    out = Path(str(run["out"]))
    make_folder(out.parent)
    write_bytes(out, to_npz(arrays))
    seconds = time.perf_counter() - begin
    cost = {"seconds": seconds, "sent": dict(federation.sent), "received": dict(federation.received)}
    return cost | {"leaks": leaks}


def participant(node: Settings, run: Settings) -> tuple[int, Participant]:
    """Return the participant of a supernode. Raises ConfigError and DataError, which the server sees as a refusal."""
    if "helper-private-key" in node:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        key = X25519PrivateKey.from_private_bytes(_secret(node, "helper-private-key"))
        clients = keys.public_keys(Path(_needed(node, "client-keys")))
        # The server's side writes the run configuration: it can raise the helper's minimum, but never lower it. The
        # sums of virtual samples are over all nodes or none.
        minimum = run["clients"] if run["system"] == "virtual-samples" else run["minimum"]
        return HELPER, Helper(key, max(2, int(str(minimum))), clients)
    config, client = configuration(run), _client_id(node)
    summation: Summation = OpenSum()
    if run["secure"]:
        identity = keys.private_key(Path(_needed(node, "client-key")))
        summation = SharedSum(_secret(node, "helper-key"), int(str(run["clients"])), identity)
    elif "helper-key" in node:
        raise ConfigError("this supernode has a helper's key, but the run asks for open sums")
    label = _needed(node, "label")
    X, y = _rows(_needed(node, "data"), label)
    if isinstance(config, FedXGBllrConfig):
        from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient

        return client, FedXGBllrClient(client, X, y, config, summation)
    from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode

    update = _rows(str(node["update"]), label) if "update" in node else None
    out = Path(str(node["out"])) if "out" in node else None
    return client, VirtualSamplesNode(client, X, y, config, summation, _secret(node, "group-key"), update, out)


client_app = client_app_of(lambda context: participant(context.node_config, context.run_config))


def _client_id(node: Settings) -> int:
    given = _needed(node, "client-id")
    if not given.isdecimal():
        raise ConfigError(f"client-id must be 0, 1, 2, ..., got {given!r}")
    return int(given)


def _needed(node: Settings, name: str) -> str:
    if name not in node:
        raise ConfigError(f"the supernode's --node-config has no {name}")
    return str(node[name])


def _secret(node: Settings, name: str) -> bytes:
    path = Path(_needed(node, name))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {path}: {error.strerror}") from None
    if len(data) != 32:
        raise ConfigError(f"{name}: {path} must have 32 bytes, got {len(data)}")
    return data


def _rows(path: str, label: str) -> tuple[pd.DataFrame, pd.Series]:
    """Read features and labels from a CSV file, without a column `id`. Raises DataError."""
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None
    if label not in table:
        raise DataError(f"{path}: there is no column {label!r}")
    labels = table.pop(label)
    features = table.drop(columns="id", errors="ignore")
    for name in features:
        if str(name).lower() in _LIKE_AN_ID and features[name].dtype.kind in "iu" and features[name].is_unique:
            raise DataError(f"{path}: column {name!r} has a different whole number in each row: rename it to 'id'")
    return features, labels
