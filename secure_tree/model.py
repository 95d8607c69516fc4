"""A party's half of a trained model: in memory, and on disk as one .npz of shares and public facts.

Neither half says anything about the model. Both halves carry the same pairing id, so that halves of different
trainings are refused before a prediction starts.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from mpc.errors import DataError
from mpc.shares import AShare, BShare
from secure_tree.boost import Ensemble, Shape
from secure_tree.config import TrainConfig

FORMAT = 1
_BITS = ("sets_0", "sets_1", "features", "null")
_WORDS = ("thresholds", "chosen", "leaves")


@dataclass(frozen=True)
class SharedModel:
    """One party's half: public facts, its own training edges (private), its shares of the ensemble."""

    rank: int
    pairing: str
    config: TrainConfig
    names: tuple[str, ...]
    shape: Shape
    edges: np.ndarray
    ensemble: Ensemble

    def save(self, path: str | Path) -> None:
        """Write the half to `path` (.npz), whole or not at all."""
        facts = {
            "format": FORMAT,
            "rank": self.rank,
            "pairing": self.pairing,
            "config": self.config.model_dump(),
            "names": list(self.names),
            "rows": list(self.shape.rows),
            "sizes": list(self.shape.sizes),
            "label_scale": self.shape.label_scale,
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
    shape = Shape(tuple(facts["rows"]), len(facts["names"]), tuple(facts["sizes"]), facts["label_scale"])
    config = TrainConfig.of(**facts["config"])
    return SharedModel(rank, facts["pairing"], config, tuple(facts["names"]), shape, stored["edges"], ensemble)
