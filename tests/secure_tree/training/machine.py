"""One party of trainings between two processes, each of which may emulate another processor.

Run: python -m tests.secure_tree.training.machine RANK PORT FOLDER CASE ...; prints a JSON list of (curve, own margins).
"""

import json
import sys
from pathlib import Path

import numpy as np

from mpc.party import Party
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.transport.certificates import Credentials
from protocols.transport.tcp import connect, listen
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

NAMES = "party_a", "party_b"
SEEDS = b"a" * 16, b"b" * 16
SMALL = dict(n_estimators=3, max_depth=2, max_bin=8, learning_rate=0.5, eval_epochs=3)
SEVERAL = dict(objective="multi:ova", num_class=3)
# The parameters cover every public number that follows from parameters.
CASES = {
    "counts rmse": dict(objective="count:poisson", eval_metric="rmse", base_score=1.7, subsample=0.9),
    "counts mae": dict(
        objective="count:poisson", eval_metric="mae", reg_alpha=0.3, base_score=3.3, partition="vertical"
    ),
    "classes logloss": dict(eval_metric="logloss", base_score=0.3, colsample_bytree=0.7),
    "classes error": dict(eval_metric="error", eval_threshold=0.41),
    "classes auc": dict(eval_metric="auc", partition="vertical", min_child_samples=3),
    "several logloss": dict(**SEVERAL, eval_metric="logloss"),
    "several error": dict(**SEVERAL, eval_metric="error"),
    "several auc": dict(**SEVERAL, eval_metric="auc"),
    "numbers rmse": dict(objective="reg:squarederror", eval_metric="rmse", reg_lambda=0.7),
    "numbers mae": dict(objective="reg:squarederror", eval_metric="mae", colsample_bytree=0.7),
}


def table(seed: int, parameters: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return all features, and labels that depend on the sum of two features."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(120, 3)), 3)
    signal = X[:, 0] + X[:, 1]
    match parameters.get("objective"):
        case "count:poisson":
            return X, np.digitize(signal, [-1, 0, 1, 2]) * 2.0
        case "multi:ova":
            return X, np.digitize(signal, [-0.7, 0.7]).astype(float)
        case "reg:squarederror":
            return X, 30 * signal - 7
    return X, (signal > 0).astype(float)


def part(rank: int, X: np.ndarray, y: np.ndarray, parameters: dict) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows or columns of one party."""
    if parameters.get("partition") == "vertical":
        return (X[:, 1:], None) if rank else (X[:, :1], y)
    rows = slice(50, None) if rank else slice(50)
    return X[rows], y[rows]


def play(party: Party, case: str) -> tuple[list, list]:
    """Train, and predict held-out rows."""
    parameters = CASES[case]
    own, held = (part(party.rank, *table(seed, parameters), parameters) for seed in (1, 2))
    numbers = parameters.get("objective") in ("count:poisson", "reg:squarederror")
    model = (SecureXGBRegressor if numbers else SecureXGBClassifier)(**SMALL, **parameters)
    model.fit(party, *own, eval_set=held)
    return model.curve, model.predict_margin(party, held[0]).tolist()


def main() -> None:
    """Connect to the other party and run the cases one after the other."""
    rank, port, folder, *cases = sys.argv[1:]
    name, peer = NAMES[int(rank)], NAMES[1 - int(rank)]
    credentials, waits = Credentials.load(Path(folder), name), {"patience": 120.0, "timeout": 120.0}
    if rank == "0":
        with listen(("127.0.0.1", int(port)), credentials) as listener:
            channel = listener.accept(peer, **waits)
    else:
        channel = connect(("127.0.0.1", int(port)), credentials, peer, **waits)
    with channel:
        told = [play(Party(int(rank), channel, LocalDealer(int(rank), SEEDS)), case) for case in cases]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
