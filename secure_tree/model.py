"""A party's half of a trained model: in memory, and on disk as one .npz of shares and public facts.

Neither half says anything about the model. Both halves carry the same pairing id, so that halves of different
trainings are refused before a prediction starts.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from mpc.errors import DataError
from mpc.shares import AShare, BShare
from secure_tree.boost import Ensemble
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts, Layout

FORMAT = 2
_BITS = ("sets_0", "sets_1", "features", "null")
_WORDS = ("thresholds", "chosen", "leaves")


@dataclass(frozen=True)
class SharedModel:
    """One party's half: public facts, its own training edges (private), its shares of the ensemble."""

    rank: int
    config: TrainConfig
    facts: Facts
    edges: np.ndarray
    ensemble: Ensemble

    def save(self, path: str | Path) -> None:
        """Write the half to `path` (.npz), whole or not at all."""
        facts = {
            "format": FORMAT,
            "rank": self.rank,
            "config": self.config.model_dump(),
            "facts": asdict(self.facts),
        }
        e = self.ensemble
        bits = dict(zip(_BITS, (e.sets[0], e.sets[1], e.features, e.null), strict=True))
        arrays = {name: share.words for name, share in zip(_WORDS, (e.thresholds, e.chosen, e.leaves), strict=True)}
        for name, share in bits.items():
            arrays[name] = np.packbits(share.bits)
            arrays[name + "_shape"] = np.array(share.shape)
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        with open(partial, "wb") as file:
            np.savez(file, facts=np.array(json.dumps(facts)), edges=self.edges, **arrays)  # type: ignore[arg-type]
        os.replace(partial, path)

    @classmethod
    def load(cls, path: str | Path) -> SharedModel:
        """Read a half. Raises DataError for a file that is not one, or of another version."""
        try:
            with np.load(path, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
            facts = json.loads(str(stored["facts"]))
            if facts["format"] != FORMAT:
                raise DataError(f"{path}: model format {facts['format']}, this Sharewood reads {FORMAT}")
            return _assemble(facts, stored)
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such model file") from None
        except (BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
            raise DataError(f"{path}: not a Sharewood model file ({error})") from None


def _assemble(facts: dict, stored: dict[str, np.ndarray]) -> SharedModel:
    rank = facts["rank"]

    def bits(name: str) -> BShare:
        shape = tuple(stored[name + "_shape"].tolist())
        return BShare(np.unpackbits(stored[name], count=int(np.prod(shape))).reshape(shape), rank)

    def words(name: str) -> AShare:
        return AShare(stored[name], rank)

    ensemble = Ensemble(
        sets=[bits("sets_0"), bits("sets_1")],
        features=bits("features"),
        null=bits("null"),
        thresholds=words("thresholds"),
        chosen=words("chosen"),
        leaves=words("leaves"),
    )
    known = _tuples(facts["facts"])
    known["layout"] = Layout(**known["layout"])
    return SharedModel(rank, TrainConfig.of(**facts["config"]), Facts(**known), stored["edges"], ensemble)


def _tuples(value):
    """JSON's lists as the tuples that were written."""
    if isinstance(value, dict):
        return {key: _tuples(v) for key, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
