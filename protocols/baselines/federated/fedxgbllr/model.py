"""The trained model, and the ensembles of all clients as they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.baselines.federated.engine import Message, as_bytes, field
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.trees import CheckedTrees, tree_outputs
from protocols.baselines.federated.objectives import predicted
from protocols.baselines.federated.rows import without_missing


def pack_ensembles(ensembles: list[bytes]) -> Message:
    """Ensembles in the order of the client ids -> one array of bytes and their lengths."""
    return {"ensembles": as_bytes(b"".join(ensembles)), "lengths": np.array([len(e) for e in ensembles], np.int64)}


def unpack_ensembles(message: Message) -> list[bytes]:
    """Unpack what `pack_ensembles` packed. Raises ProtocolDesync."""
    data = field(message, "ensembles", np.uint8, (-1,)).tobytes()
    lengths = field(message, "lengths", np.int64, (-1,))
    if not len(lengths) or (lengths <= 0).any() or int(lengths.sum()) != len(data):
        raise ProtocolDesync("the lengths of the ensembles must add up to the bytes received")
    ends = np.cumsum(lengths)
    return [data[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@dataclass(frozen=True)
class FedXGBllrModel:
    """The model that every client has at the end: all ensembles and the network's float32 weights.

    Predictions of a regression are `location + scale * output`. `kept` is the round of the weights, 0 for the mean of
    the clients' margins. `factor` is the factor of the network's output, already applied to its weights.
    """

    ensembles: list[bytes]
    weights: np.ndarray
    config: FedXGBllrConfig
    location: float = 0.0
    scale: float = 1.0
    kept: int = 0
    factor: float = 1.0

    def predict(self, X: np.ndarray) -> np.ndarray:
        """float32[n, d] -> float64[n]: probabilities of class 1, numbers or expected counts. NaN is missing.

        Raises DataError for an infinite value.
        """
        return self._predicted(cnn.predict(self.weights, self._outputs(X), len(self.ensembles), self.config))

    def predict_by_mean(self, X: np.ndarray) -> np.ndarray:
        """Predict without the network, as a baseline: by the plain mean of the clients' margins."""
        return self._predicted(self._outputs(X).sum(axis=1) / len(self.ensembles))

    def learned_rates(self) -> cnn.LearnedRates:
        """Return the learned rates of the trees (W of section 3.3), and the weights of the clients (Z).

        Raises ConfigError for another network than the interpretable one.
        """
        trees = len(CheckedTrees.read(self.ensembles[0]))
        return cnn.learned_rates(self.weights, len(self.ensembles), trees, self.config)

    def effective_rates(self, X: np.ndarray) -> np.ndarray:
        """Return the rate of every tree, the mean over the rows float32[n, d] of `cnn.effective_rates`.

        float64[clients, trees], without `scale`. Any network has them. Raises DataError for an infinite value.
        """
        return cnn.effective_rates(self.weights, self._outputs(X), len(self.ensembles), self.config)

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        return tree_outputs(self.ensembles, without_missing(X))

    def _predicted(self, output: np.ndarray) -> np.ndarray:
        margin = output.astype(np.float64)
        return predicted(self.config.objective, self.location + self.scale * margin)

    def pack(self) -> Message:
        """Pack the model as plain arrays, without its configuration, which is public."""
        unit = np.array([self.location, self.scale])
        chosen = {"kept": np.array(self.kept), "factor": np.array(self.factor)}
        return pack_ensembles(self.ensembles) | {"weights": self.weights, "unit": unit} | chosen

    @classmethod
    def unpack(cls, message: Message, config: FedXGBllrConfig) -> Self:
        """Unpack what `pack` packed. Raises ProtocolDesync."""
        weights, unit = field(message, "weights", np.float32, (-1,)), field(message, "unit", np.float64, (2,))
        kept = int(field(message, "kept", np.int64, ()))
        factor = float(field(message, "factor", np.float64, ()))
        return cls(unpack_ensembles(message), weights, config, float(unit[0]), float(unit[1]), kept, factor)
