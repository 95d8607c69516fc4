"""A trained model, in parts: the guest's trees without the hosts' splits, and each host's splits without the trees."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from protocols.secureboost.boost import Ensemble
from protocols.secureboost.columns import Records
from protocols.secureboost.config import SecureBoostConfig
from protocols.secureboost.tree import Tree

_TREE_TYPES = {"owner": np.int64, "record": np.int64, "weight": np.float64}


@dataclass(frozen=True)
class GuestModel:
    """The guest's part. Owner 0 of a node is the guest, owner i is hosts[i - 1]."""

    ensemble: Ensemble
    records: Records
    names: tuple[str, ...]
    hosts: tuple[str, ...]

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
        Path(path).write_text(json.dumps(fields))

    @classmethod
    def load(cls, path: str | Path) -> GuestModel:
        """Raises DataError for a file that `save` did not write."""
        fields = _read(path)
        try:
            e = fields["ensemble"]
            trees = [
                Tree(**{name: np.array(tree[name], kind) for name, kind in _TREE_TYPES.items()}) for tree in e["trees"]
            ]
            majority = np.array(e["majority"], np.int64)
            ensemble = Ensemble(SecureBoostConfig.of(**e["config"]), int(e["classes"]), trees, majority)
            return cls(ensemble, Records(**fields["records"]), tuple(fields["names"]), tuple(fields["hosts"]))
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise DataError(f"{path}: no model of a SecureBoost guest: {error!r}") from None


@dataclass(frozen=True)
class HostModel:
    """A host's part: its own splits, and nothing of where they stand."""

    records: Records
    names: tuple[str, ...]

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps({"names": self.names, "records": asdict(self.records)}))

    @classmethod
    def load(cls, path: str | Path) -> HostModel:
        """Raises DataError for a file that `save` did not write."""
        fields = _read(path)
        try:
            return cls(Records(**fields["records"]), tuple(fields["names"]))
        except (KeyError, TypeError) as error:
            raise DataError(f"{path}: no model of a SecureBoost host: {error!r}") from None


def _read(path: str | Path) -> dict[str, Any]:
    try:
        fields = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None
    if not isinstance(fields, dict):
        raise DataError(f"{path}: no model")
    return fields
