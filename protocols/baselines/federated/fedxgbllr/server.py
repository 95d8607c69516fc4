"""Algorithm 1 at the server: one round for the ensembles, then FedAvg over the small network.

Functionality  K clients with rows of the same features -> every client's ensemble in the order of client ids, and one
               network over the outputs of all trees
Messages       moments (regression): client -> server rows, sum and sum of squares of the labels, as a sum
               ensemble: server -> client trees; client -> server its ensemble
               update: server -> client weights, and all ensembles if the client has none; client -> server, as one
               sum, rows * weights, rows, and how much worse the received weights are than the mean of margins on
               held-out rows
               validate: the last figure for the last round's weights, if rows are held out
Cost           `protocols.baselines.federated.fedxgbllr.communication`
Security       docs/fedxgbllr.md, "What leaks": every party, including the server, sees every client's trees
Drop-out       a client that misses "ensemble" has no trees in the model, but its labels still train the network; a
               client that misses "update" is left out of that round's average
Source         Ma, Qiu, Beutel, Lane: Gradient-less Federated Gradient Boosting Trees with Learnable Learning Rates,
               EuroMLSys 2023, algorithm 1; FedAvg of McMahan et al. 2017. Held-out rows are our addition
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mpc.errors import DataError, ProtocolDesync
from protocols.baselines.federated.engine import Federation, field
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel, pack_ensembles
from protocols.baselines.federated.fedxgbllr.trees import CheckedTrees
from protocols.baselines.federated.secure_sum import Summation


def train(
    federation: Federation,
    config: FedXGBllrConfig,
    summation: Summation,
    progress: Callable[[int, FedXGBllrModel], None] = lambda number, model: None,
) -> FedXGBllrModel:
    """Run the whole training; call `progress` with the model after each round, numbered from 1.

    With held-out rows, the result is the round and scale with the least loss on them, or the mean of the clients'
    margins if none is better by a standard error. Raises DataError if all labels of a regression are equal,
    PeerVanished if too few clients are left.
    """
    trees = config.trees_per_client(len(federation.clients))
    location, scale = (0.0, 1.0)
    if config.objective == "reg:squarederror":
        location, scale = _label_moments(federation, summation)
    unit = np.array([location, scale])

    replies = federation.broadcast("ensemble", {"trees": np.array(trees), "unit": unit})
    ensembles = [field(reply, "ensemble", np.uint8, (-1,)).tobytes() for reply in replies.values()]
    _check_ensembles(dict(zip(replies, ensembles, strict=True)), trees)
    packed = pack_ensembles(ensembles)
    weights = cnn.initial_weights(len(ensembles), trees, config)
    model = FedXGBllrModel(ensembles, weights, config, location, scale)

    best, least = replace(model, weights=cnn.mean_weights(len(ensembles), trees, config)), 0.0

    def validate(summed: np.ndarray) -> None:
        """Keep `model` if, at one of the scales, it is the best so far."""
        nonlocal best, least
        excess = _surely(summed)
        if excess.min() < least:
            least, by = float(excess.min()), cnn.SCALES[int(excess.argmin())]
            best = replace(model, weights=cnn.scaled(model.weights, len(ensembles), trees, config, by), factor=by)

    holding: set[int] = set()
    for number in range(1, config.rounds + 1):
        order = {"round": np.array(number), "weights": model.weights, "unit": unit}
        replies = federation.ask("update", {i: order if i in holding else order | packed for i in federation.clients})
        holding |= replies.keys()
        total = summation.total(federation, replies, f"round {number}", len(weights) + 1 + cnn.EXCESS)
        averaged, validated = np.split(total, [len(weights) + 1])
        if number > 1 or config.start == "mean":
            validate(validated)
        model = replace(model, weights=(averaged[:-1] / averaged[-1]).astype(np.float32), kept=number)
        progress(number, model)
    if not config.validation_share:
        return model
    order = {"weights": model.weights, "unit": unit}
    replies = federation.ask("validate", dict.fromkeys(holding, order))
    validate(summation.total(federation, replies, "validation", cnn.EXCESS))
    return best


def _surely(summed: np.ndarray) -> np.ndarray:
    """Summed `cnn.excess` -> the mean excess at each scale plus its standard error; infinity without rows."""
    rows, difference, squares = summed[0], *np.split(summed[1:], 2)
    if not rows:
        return np.full(len(cnn.SCALES), np.inf)
    mean = difference / rows
    return mean + np.sqrt(np.maximum(squares / rows - mean**2, 0) / rows)


def _check_ensembles(ensembles: Mapping[int, bytes], trees: int) -> None:
    """Check every ensemble. Raises ProtocolDesync that names the client whose ensemble cannot be used."""
    features = None
    for client, data in ensembles.items():
        try:
            ensemble = CheckedTrees.read(data, features)
        except ProtocolDesync as error:
            raise ProtocolDesync(f"client {client}: {error}") from None
        if len(ensemble) != trees:
            raise ProtocolDesync(f"client {client} must send {trees} trees, got {len(ensemble)}")
        features = ensemble.features


def _label_moments(federation: Federation, summation: Summation) -> tuple[float, float]:
    """Return mean and standard deviation of all labels, from the sums over the clients."""
    replies = federation.broadcast("moments", {})
    rows, total, squares = summation.total(federation, replies, "moments", 3)
    variance = squares / rows - (total / rows) ** 2
    if variance <= 0:
        raise DataError("all labels are equal: there is nothing to learn")
    return total / rows, math.sqrt(variance)
