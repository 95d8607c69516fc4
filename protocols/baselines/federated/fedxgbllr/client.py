"""One client: its rows, its ensemble, and its part of each round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.baselines.federated.engine import Message, Participant, as_bytes, field
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.model import pack_ensembles, unpack_ensembles
from protocols.baselines.federated.fedxgbllr.trees import CheckedTrees, fit_ensemble
from protocols.baselines.federated.rows import read_rows
from protocols.baselines.federated.secure_sum import Summation
from secure_tree.data.inputs import ColumnLike, TableLike


class FedXGBllrClient(Participant):
    """Rows X float[n, d] and labels y float[n] that suit the objective. Raises DataError for anything else."""

    def __init__(self, client: int, X: TableLike, y: ColumnLike, config: FedXGBllrConfig, summation: Summation) -> None:
        super().__init__()
        self._client, self._config, self._summation = client, config, summation
        features, labels, _ = read_rows(f"client {client}", X, y, config.objective)
        order = np.random.default_rng((config.seed, client)).permutation(len(labels))
        held, training = np.split(order, [int(config.validation_share * len(labels))])
        training.sort()
        self._X, self._y = features[training], labels[training]
        self._held_X, self._held_y = features[held], labels[held]
        self._outputs: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def steps(self) -> dict[str, Callable[[Message], Message]]:
        steps = {"moments": self._moments, "ensemble": self._ensemble}
        return steps | {"update": self._update, "validate": self._validate}

    def _moments(self, message: Message) -> Message:
        """Return rows, sum and sum of squares of the labels, from which the server computes mean and deviation."""
        return self._summation.conceal(np.array([len(self._y), self._y.sum(), (self._y**2).sum()]), "moments")

    def _ensemble(self, message: Message) -> Message:
        trees = int(field(message, "trees", np.int64, ()))
        if not 1 <= trees <= self._config.total_trees:
            raise ProtocolDesync(
                f"a client must grow 1 to {self._config.total_trees} trees, the server asked for {trees}"
            )
        targets, (_, scale) = self._targets(message, self._y), field(message, "unit", np.float64, (2,))
        ensemble = fit_ensemble(self._X, targets, trees, self._config, float(scale))
        return {"ensemble": as_bytes(ensemble)}

    def _update(self, message: Message) -> Message:
        """Return rows times new weights, and rows, for FedAvg, and the held-out quality of the received weights."""
        if "ensembles" in message:
            self.memory.update(pack_ensembles(unpack_ensembles(message)))
            self._outputs = None
        clients, weights = self._network(message)
        number = int(field(message, "round", np.int64, ()))
        excess = self._excess(message, clients, weights)
        trained = cnn.train_locally(
            weights,
            self._trees()[0],
            self._targets(message, self._y),
            clients,
            self._config,
            np.random.default_rng((self._config.seed, number, self._client)),
        )
        averaged = len(self._y) * np.append(trained.astype(np.float64), 1)
        return self._summation.conceal(np.concatenate([averaged, excess]), f"round {number}")

    def _validate(self, message: Message) -> Message:
        """Return the quality of the last round's weights on held-out rows."""
        return self._summation.conceal(self._excess(message, *self._network(message)), "validation")

    def _excess(self, message: Message, clients: int, weights: np.ndarray) -> np.ndarray:
        return cnn.excess(weights, self._trees()[1], self._targets(message, self._held_y), clients, self._config)

    def _network(self, message: Message) -> tuple[int, np.ndarray]:
        """Return the number of ensembles, and the received weights of the network over them."""
        clients, trees = len(field(self.memory, "lengths", np.int64, (-1,))), self._trees()[0].shape[1]
        size = cnn.parameters(clients, trees // clients, self._config)
        return clients, field(message, "weights", np.float32, (size,))

    def _trees(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the outputs of every tree of all ensembles for the training rows and for the held-out rows."""
        if self._outputs is None:
            ensembles = [CheckedTrees.read(each, self._X.shape[1]) for each in unpack_ensembles(self.memory)]
            trees = len(ensembles[0])
            if {len(each) for each in ensembles} != {trees} or trees * len(ensembles) > self._config.total_trees:
                most = self._config.total_trees
                raise ProtocolDesync(f"all ensembles must have the same number of trees, at most {most} together")
            training, held = (
                np.concatenate([each.outputs(X) for each in ensembles], axis=1) for X in (self._X, self._held_X)
            )
            self._outputs = training, held
        return self._outputs

    def _targets(self, message: Message, y: np.ndarray) -> np.ndarray:
        location, scale = field(message, "unit", np.float64, (2,))
        if scale <= 0:
            raise ProtocolDesync(f"the unit of the labels must be above 0, got {scale:g}")
        return (y - location) / scale
