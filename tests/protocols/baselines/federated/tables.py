"""Small tables for the federated tests, and participants over them."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from protocols.baselines.federated.engine import HELPER
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.secure_sum import Helper, OpenSum, SharedSum
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode

HELPER_KEY = X25519PrivateKey.from_private_bytes(bytes(range(32)))
GROUP_KEY = bytes(range(32, 64))
SMALL_LLR = FedXGBllrConfig.of(total_trees=12, max_depth=3, local_epochs=2, rounds=2, channels=8)
SMALL_VS = VirtualSamplesConfig.of(clusters=16, min_group=1, n_estimators=3, update_estimators=2, max_depth=3)


def table(rows=240, features=5, seed=0):
    """Return float32[rows, features] and labels 0/1 that a tree can learn; values have ties and both signs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)).round(1).astype(np.float32)
    return X, ((X[:, 0] > 0.2) ^ (X[:, 1] + 0.3 * rng.normal(size=rows) > 0.5)).astype(np.float64)


def summation(secure, clients=3):
    return SharedSum(Helper(HELPER_KEY).public_key, clients) if secure else OpenSum()


def llr_clients(secure=False, clients=3, config=SMALL_LLR):
    X, y = table()
    parts = np.array_split(np.arange(len(X)), clients)
    members = {i: FedXGBllrClient(i, X[p], y[p], config, summation(secure, clients)) for i, p in enumerate(parts)}
    return members | ({HELPER: Helper(HELPER_KEY)} if secure else {})


def vs_nodes(secure=False, nodes=3, config=SMALL_VS):
    X, y = table()
    new = table(90, seed=1)
    parts, extra = np.array_split(np.arange(len(X)), nodes), np.array_split(np.arange(90), nodes)
    members = {
        i: VirtualSamplesNode(
            i, X[p], y[p], config, summation(secure, nodes), GROUP_KEY, (new[0][extra[i]], new[1][extra[i]])
        )
        for i, p in enumerate(parts)
    }
    return members | ({HELPER: Helper(HELPER_KEY)} if secure else {})
