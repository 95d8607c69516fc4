"""One client: its own rows, its ensemble, and its part of each round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.federated.engine import Message, Participant, as_bytes, field
from protocols.federated.fedxgbllr import cnn
from protocols.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.federated.fedxgbllr.model import pack_ensembles, unpack_ensembles
from protocols.federated.fedxgbllr.trees import Ensemble, fit_ensemble
from protocols.federated.rows import read_rows
from protocols.federated.secure_sum import Summation
from secure_tree.inputs import ColumnLike, TableLike


class FedXGBllrClient(Participant):
    """Rows X float[n, d] and labels y float[n], 0 or 1 under binary:logistic. Raises DataError for anything else."""

    def __init__(self, client: int, X: TableLike, y: ColumnLike, config: FedXGBllrConfig, summation: Summation) -> None:
        super().__init__()
        self._client, self._config, self._summation = client, config, summation
        self._X, self._y, _ = read_rows(f"client {client}", X, y, config.classification)

    @property
    def steps(self) -> dict[str, Callable[[Message], Message]]:
        return {"moments": self._moments, "ensemble": self._ensemble, "update": self._update}

    def _moments(self, message: Message) -> Message:
        """Rows, sum and sum of squares of the labels, from which the server computes their mean and deviation."""
        return self._summation.conceal(np.array([len(self._y), self._y.sum(), (self._y**2).sum()]), "moments")

    def _ensemble(self, message: Message) -> Message:
        trees = int(field(message, "trees", np.int64, ()))
        if not 1 <= trees <= self._config.total_trees:
            raise ProtocolDesync(
                f"a client must grow 1 to {self._config.total_trees} trees, the server asks for {trees}"
            )
        ensemble = fit_ensemble(self._X, self._targets(message), trees, self._config)
        return {"ensemble": as_bytes(ensemble)}

    def _update(self, message: Message) -> Message:
        """Rows times new weights, and rows: what FedAvg sums."""
        if "ensembles" in message:
            self.memory.update(pack_ensembles(unpack_ensembles(message)))
        ensembles = [Ensemble.read(each, self._X.shape[1]) for each in unpack_ensembles(self.memory)]
        trees, number = len(ensembles[0]), int(field(message, "round", np.int64, ()))
        if {len(each) for each in ensembles} != {trees} or trees * len(ensembles) > self._config.total_trees:
            raise ProtocolDesync(f"all ensembles must have as many trees, {self._config.total_trees} together at most")
        weights = cnn.train_locally(
            field(message, "weights", np.float32, (cnn.parameters(len(ensembles), trees, self._config),)),
            np.concatenate([each.outputs(self._X) for each in ensembles], axis=1),
            self._targets(message),
            len(ensembles),
            self._config,
            np.random.default_rng((self._config.seed, number, self._client)),
        )
        return self._summation.conceal(len(self._y) * np.append(weights.astype(np.float64), 1), f"round {number}")

    def _targets(self, message: Message) -> np.ndarray:
        location, scale = field(message, "unit", np.float64, (2,))
        if scale <= 0:
            raise ProtocolDesync(f"the unit of the labels must be above 0, got {scale:g}")
        return (self._y - location) / scale
