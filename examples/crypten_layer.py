"""Feed trees into a CrypTen layer: the margins of two models remain shared, and pass a linear layer and a ReLU.

Run: python examples/crypten_layer.py
CrypTen's default provider trusts party 0, so this is an example and not a deployment.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
from crypten_bridge import from_crypten, load_crypten, to_crypten

from mpc.rounding.truncation import truncate
from mpc.shares import stack
from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier
from secure_tree.prediction.predict import margins
from secure_tree.public.numerics import MARGIN_SCALE

CRYPTEN_SCALE = 16
WEIGHTS = [[0.5, -0.25], [-1.0, 2.0]]
BIAS = [0.1, -0.1]


def start_crypten(rank, rendezvous):
    """Start CrypTen between the two party processes."""
    where = {"RANK": rank, "WORLD_SIZE": 2, "RENDEZVOUS": f"file://{rendezvous}", "DISTRIBUTED_BACKEND": "gloo"}
    os.environ.update({name: str(value) for name, value in where.items()})
    crypten = load_crypten()
    crypten.init()
    return crypten


def job_of(rendezvous):
    def job(party):
        rng = np.random.default_rng(party.rank)
        X = rng.normal(size=(20, 3))
        models = [
            SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8).fit(party, X, X[:, i] > 0) for i in (0, 1)
        ]
        columns = []
        for model in models:
            half = model.model
            # Both parties have as many rows to predict as they trained on.
            shared = party.run(
                margins(
                    party,
                    half.ensemble,
                    half.facts.layout,
                    half.cuts,
                    X.astype(np.float32),
                    "thresholds",
                    1,
                )
            )[0]
            columns.append(party.run(truncate.steps(party, shared, MARGIN_SCALE - CRYPTEN_SCALE)))
        plain = np.stack([model.predict_margin(party, X, "thresholds") for model in models], axis=1)
        features = stack(columns, axis=1)

        crypten = start_crypten(party.rank, rendezvous)
        weights, bias = (crypten.cryptensor(values) for values in (WEIGHTS, BIAS))
        layer = (to_crypten(features).matmul(weights) + bias).relu()
        back = from_crypten(layer, party.rank)
        opened = party.reveal(back, what="the layer's output")
        return {"rows": plain, "layer": opened, "by CrypTen": layer.get_plain_text().numpy()}

    return job


def run():
    """What each party sees: its own rows' margins, and the layer's output on all rows as we and as CrypTen open it."""
    with tempfile.TemporaryDirectory() as folder:
        return run_local(job_of(Path(folder) / "rendezvous"))


if __name__ == "__main__":
    first, second = run()
    print(first["layer"][:5])
