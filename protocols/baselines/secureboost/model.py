"""A trained model in parts: the guest's trees without the hosts' splits, and each host's splits without the trees.

`training` is a random name, shared by all parts of one training, so that parts of two trainings are never mixed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mpc.errors import ConfigError, DataError
from protocols.baselines.secureboost.boost import GuestEnsemble
from protocols.baselines.secureboost.columns import Records
from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.tree import Tree
from secure_tree.model.storage import read_sealed_json, write_sealed_json

_WHAT = "SecureBoost model"
_TREE_TYPES = {"owner": np.int64, "record": np.int64, "weight": np.float64}


@dataclass(frozen=True)
class GuestModel:
    """The guest's part. Owner 0 of a node is the guest; owner i is hosts[i - 1]."""

    ensemble: GuestEnsemble
    records: Records
    names: tuple[str, ...]
    hosts: tuple[str, ...]
    training: str

    def save(self, path: str | Path) -> None:
        e = self.ensemble
        trees = [{name: getattr(tree, name).tolist() for name in _TREE_TYPES} for tree in e.trees]
        ensemble = {
            "config": e.config.model_dump(),
            "classes": e.classes,
            "trees": trees,
            "majority": e.majority.tolist(),
        }
        fields = {"names": self.names, "hosts": self.hosts, "records": asdict(self.records), "ensemble": ensemble}
        write_sealed_json(path, fields | {"training": self.training})

    @classmethod
    def load(cls, path: str | Path) -> GuestModel:
        """Load a file, without parameters that SecureBoost does not have. Raises DataError unless `save` wrote it."""
        fields = read_sealed_json(path, _WHAT)
        try:
            e = fields["ensemble"]
            trees = [
                Tree(**{name: np.array(tree[name], kind) for name, kind in _TREE_TYPES.items()}) for tree in e["trees"]
            ]
            majority = np.array(e["majority"], np.int64)
            parameters = {name: value for name, value in e["config"].items() if name in SecureBoostConfig.model_fields}
            ensemble = GuestEnsemble(SecureBoostConfig.of(**parameters), int(e["classes"]), trees, majority)
            names, hosts = tuple(fields["names"]), tuple(fields["hosts"])
            return cls(ensemble, Records(**fields["records"]), names, hosts, fields["training"])
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise DataError(f"{path}: is not the model of a SecureBoost guest: {error!r}") from None


@dataclass(frozen=True)
class HostModel:
    """A host's part: its own splits, without their places in the trees."""

    records: Records
    names: tuple[str, ...]
    training: str

    def save(self, path: str | Path) -> None:
        write_sealed_json(path, {"names": self.names, "records": asdict(self.records), "training": self.training})

    @classmethod
    def load(cls, path: str | Path) -> HostModel:
        """Load a file. Raises DataError unless `save` wrote it."""
        fields = read_sealed_json(path, _WHAT)
        try:
            return cls(Records(**fields["records"]), tuple(fields["names"]), fields["training"])
        except (KeyError, TypeError) as error:
            raise DataError(f"{path}: is not the model of a SecureBoost host: {error!r}") from None
