"""The two roles: Guest, which has the labels, and Host. Use each in the process that has its channels."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mpc.errors import DataError
from protocols.baselines.secureboost.boost import boost, trees_per_round
from protocols.baselines.secureboost.columns import bin_columns
from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.model import GuestModel, HostModel
from protocols.baselines.secureboost.owners import OwnColumns, OwnRouter, SplitOwner
from protocols.baselines.secureboost.remote import RemoteColumns, Sealer, serve_training
from protocols.baselines.secureboost.routing import RemoteRouter, serve_routing
from protocols.baselines.secureboost.tables import read_columns_of, read_labelled_table, read_table
from protocols.psi.alignment import align_guest, align_host
from protocols.transport.channel import Channel
from secure_tree.data.inputs import ColumnLike, TableLike


class Guest:
    """The party with the labels. `hosts` maps names to channels; every host must call the same method meanwhile."""

    def __init__(self, hosts: Mapping[str, Channel]) -> None:
        self._hosts = dict(hosts)

    def align(self, ids: Sequence[object]) -> np.ndarray:
        """ids, one per row -> the rows whose ids all parties have, int64. Raises DataError."""
        return align_guest(self._hosts, ids)

    def train(
        self,
        config: SecureBoostConfig,
        X: TableLike,
        y: ColumnLike,
        progress: Callable[[int, np.ndarray], None] | None = None,
    ) -> GuestModel:
        """Train on rows in the same order as the hosts', of any number of columns, also none.

        Raises DataError; ConfigError if without columns `guest_only` is not "none"; PeerFailure that names the host at
        fault.

        `progress(round, margins float64[n, classes])` is called after every round.
        """
        features, names, labels = read_labelled_table(X, y, config)
        own = OwnColumns(bin_columns(features, config.max_bin))
        sealer, training = Sealer(config, labels.size), secrets.token_hex(16)
        trees = config.n_estimators * trees_per_round(config, labels)
        remote = [
            RemoteColumns(channel, sealer, config, labels.size, trees, training) for channel in self._hosts.values()
        ]
        for columns in remote:
            columns.greet()
        ensemble = boost(config, labels, [own, *remote], progress)
        for columns in remote:
            columns.finish()
        return GuestModel(ensemble, own.records, names, tuple(self._hosts), training)

    def predict(self, model: GuestModel, X: TableLike, by: str = "weight") -> np.ndarray:
        """Return P(1) [n], class probabilities [n, classes] or values [n], float64; by="majority": labels int64[n].

        Raises DataError if the columns or the hosts are not those of the training.
        """
        features = read_columns_of(X, model.names)
        if set(model.hosts) != set(self._hosts):
            raise DataError(
                f"hosts must be those of the training, {', '.join(model.hosts)}, got {', '.join(self._hosts) or 'none'}"
            )
        if by not in ("weight", "majority"):
            raise DataError(f"by must be 'weight' or 'majority', got {by!r}")
        remote = [RemoteRouter(self._hosts[name], len(features), model.training) for name in model.hosts]
        routers: list[SplitOwner] = [OwnRouter(model.records, features), *remote]
        answer = model.ensemble.predict if by == "weight" else model.ensemble.majority_label
        result = answer(routers, len(features))
        for router in remote:
            router.finish()
        return result


class Host:
    """A party with features only."""

    def __init__(self, guest: Channel) -> None:
        self._guest = guest

    def align(self, ids: Sequence[object]) -> np.ndarray:
        """ids, one per row -> the rows whose ids all parties have, int64, in the guest's order. Raises DataError."""
        return align_host(self._guest, ids)

    def train(self, X: TableLike, epsilon: float | None = None) -> HostModel:
        """Take part in a training, with rows in the guest's order.

        `epsilon` is the largest that this host accepts; with None it also accepts exact sums. Raises DataError;
        ConfigError if the guest asks for more than `epsilon`.
        """
        features, names = read_table(X)
        records, training = serve_training(self._guest, features, epsilon)
        return HostModel(records, names, training)

    def predict(self, model: HostModel, X: TableLike) -> None:
        """Answer the guest's questions about the rows of X, which are in the guest's order."""
        serve_routing(self._guest, model.records, read_columns_of(X, model.names), model.training)
