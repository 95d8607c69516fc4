"""A party's half of a trained model: in memory, and on disk as one file of shares and public facts.

The shares of one half reveal nothing about the model. But its cuts are values of the party's training table, so the
file must stay with its owner. Both halves have the same random pairing id, so that halves of different trainings are
refused before a prediction starts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import DataError
from mpc.host.encryption import FileKey
from mpc.shares import AShare, BShare
from secure_tree.model.ensemble import Ensemble, NodeStatistics
from secure_tree.model.storage import Arrays, read_arrays, reading, unpack_bits, write_arrays
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import PublicFacts
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

FORMAT = 15
_WHAT = f"Sharewood model file of format {FORMAT}"
_ROLE = "half of a model"
_BITS = ("features", "null")
_WORDS = ("thresholds", "chosen", "leaves", "base")
_STATISTICS = ("gains", "covers")
# Of trees that are not full, and of columns that are split by sets.
_SOMETIMES = ("paths", "factors")


@dataclass(frozen=True)
class SharedModel:
    """One party's half: public facts, its private cuts of bins, and its shares of the ensemble."""

    rank: int
    config: TrainConfig
    facts: PublicFacts
    cuts: np.ndarray
    ensemble: Ensemble

    @property
    def rounds(self) -> int:
        """The number of rounds of trees."""
        return len(self.ensemble.leaves) // self.config.trees_of_round

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Return the half as plain facts and arrays."""
        facts = {
            "format": FORMAT,
            "rank": self.rank,
            "config": self.config.model_dump(),
            "facts": asdict(self.facts),
        }
        e = self.ensemble
        known = {name: getattr(e.statistics, name) for name in _STATISTICS} if e.statistics else {}
        statistics = {name: share for name, share in known.items() if share is not None}
        facts["statistics_scales"] = {name: share.scale for name, share in statistics.items()}
        bits = {name: getattr(e, name) for name in _BITS} | {_set(p): of_block for p, of_block in enumerate(e.sets)}
        arrays = {name: getattr(e, name).words for name in _WORDS}
        arrays.update({name: share.words for name, share in statistics.items()})
        arrays.update({name: share.words for name in _SOMETIMES if (share := getattr(e, name)) is not None})
        for name, share in bits.items():
            arrays[name], arrays[name + "_shape"] = np.packbits(share.bits), np.array(share.shape)
        return facts, {"cuts": self.cuts, **arrays}

    @classmethod
    def unpack(cls, facts: dict[str, Any], arrays: Arrays, source: str | Path) -> SharedModel:
        """Invert `pack`. Raises DataError, which names `source`, for another version or anything but a half."""
        with reading(source, _WHAT):
            if facts["format"] != FORMAT:
                raise DataError(f"{source}: model format {facts['format']}, this Sharewood reads {FORMAT}")
            return _assemble(facts, arrays)

    def save(self, path: str | Path, key: FileKey | None = None) -> None:
        """Write the half atomically to `path` (.json or .npz), encrypted if there is a key. Raises DataError."""
        write_arrays(path, *self.pack(), key, _ROLE)

    @classmethod
    def load(cls, path: str | Path, key: FileKey | None = None) -> SharedModel:
        """Read a half. Raises DataError for another version or anything but a half."""
        return cls.unpack(*read_arrays(path, _WHAT, key, _ROLE), path)


def _assemble(facts: dict[str, Any], stored: Arrays) -> SharedModel:
    rank = facts["rank"]

    def bits(name: str) -> BShare:
        return BShare(unpack_bits(stored[name], stored[name + "_shape"]), rank)

    def words(name: str, scale: int = 0) -> AShare:
        return AShare(stored[name], rank, scale)

    scales, blocks = facts["statistics_scales"], range(len(facts["facts"]["layout"]["rows"]))
    ensemble = Ensemble(
        sets=[bits(_set(p)) for p in blocks],
        features=bits("features"),
        null=bits("null"),
        thresholds=words("thresholds"),
        chosen=words("chosen"),
        leaves=words("leaves", MARGIN_SCALE),
        base=words("base", MARGIN_SCALE),
        statistics=NodeStatistics(**dict.fromkeys(_STATISTICS) | {name: words(name, scales[name]) for name in scales})
        if scales
        else None,
        **{name: words(name) for name in _SOMETIMES if name in stored},
    )
    known = _tuples(facts["facts"])
    known["layout"] = Layout(**known["layout"])
    return SharedModel(rank, TrainConfig.of(**facts["config"]), PublicFacts(**known), stored["cuts"], ensemble)


def _set(p: int) -> str:
    return f"sets_{p}"


def _tuples(value: Any) -> Any:
    """Convert JSON's lists back to the tuples that were written."""
    if isinstance(value, dict):
        return {key: _tuples(v) for key, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
