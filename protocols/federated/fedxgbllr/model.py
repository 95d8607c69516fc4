"""The trained model, and the ensembles of all clients as they travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mpc.errors import DataError, ProtocolDesync
from protocols.federated.engine import Message, as_bytes, field
from protocols.federated.fedxgbllr import cnn
from protocols.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.federated.fedxgbllr.trees import tree_outputs


def pack_ensembles(ensembles: list[bytes]) -> Message:
    """Ensembles in the order of the client ids -> one array of bytes and their lengths."""
    return {"ensembles": as_bytes(b"".join(ensembles)), "lengths": np.array([len(e) for e in ensembles], np.int64)}


def unpack_ensembles(message: Message) -> list[bytes]:
    """Inverse of `pack_ensembles`. Raises ProtocolDesync."""
    data = field(message, "ensembles", np.uint8, (-1,)).tobytes()
    lengths = field(message, "lengths", np.int64, (-1,))
    if not len(lengths) or (lengths <= 0).any() or int(lengths.sum()) != len(data):
        raise ProtocolDesync("the lengths of the ensembles must add up to the bytes received")
    ends = np.cumsum(lengths)
    return [data[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@dataclass(frozen=True)
class FedXGBllrModel:
    """What every client holds at the end: all ensembles and the network's float32 weights.

    Predictions of a regression are `location + scale * output`. `kept`: the round of the weights; 0 is the mean of the
    clients' margins.
    """

    ensembles: list[bytes]
    weights: np.ndarray
    config: FedXGBllrConfig
    location: float = 0.0
    scale: float = 1.0
    kept: int = 0

    def predict(self, X: np.ndarray) -> np.ndarray:
        """float32[n, d] -> float64[n]: probabilities of class 1, or labels in their own unit. Raises DataError."""
        return self._predicted(cnn.predict(self.weights, self._outputs(X), len(self.ensembles), self.config))

    def predict_by_mean(self, X: np.ndarray) -> np.ndarray:
        """The same without the network, as a yardstick: by the plain mean of the clients' own margins."""
        return self._predicted(self._outputs(X).sum(axis=1) / len(self.ensembles))

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        if not np.isfinite(X).all():
            raise DataError("X: every value must be finite")
        return tree_outputs(self.ensembles, X)

    def _predicted(self, output: np.ndarray) -> np.ndarray:
        margin = output.astype(np.float64)
        return 1 / (1 + np.exp(-margin)) if self.config.classification else self.location + self.scale * margin

    def pack(self) -> Message:
        """The model as plain arrays; its configuration, which is public, is kept elsewhere."""
        unit = np.array([self.location, self.scale])
        return pack_ensembles(self.ensembles) | {"weights": self.weights, "unit": unit, "kept": np.array(self.kept)}

    @classmethod
    def unpack(cls, message: Message, config: FedXGBllrConfig) -> Self:
        """Inverse of `pack`. Raises ProtocolDesync."""
        weights, unit = field(message, "weights", np.float32, (-1,)), field(message, "unit", np.float64, (2,))
        kept = int(field(message, "kept", np.int64, ()))
        return cls(unpack_ensembles(message), weights, config, float(unit[0]), float(unit[1]), kept)
