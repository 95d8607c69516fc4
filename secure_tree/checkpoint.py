"""A file a round: this party's shares of the trees so far and of the margin, from which a killed training goes on.

A resumed training is a new attempt with new correlated randomness; only shares are carried over. Both parties go on
from the newest round that both have, and forget what lies beyond it, so that halves of two attempts never meet.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.shares import AShare, BShare, stack
from secure_tree.storage import Arrays, read_arrays, write_arrays
from secure_tree.tree import TreeShares

FORMAT = 3
_WHAT = "checkpoint"
_ROUNDS = "round_*.npz"
_MARGINS_KEPT = 2
_WHOLE = ("winner", "leaves", "gains", "covers")


def fingerprint(config: dict[str, Any], *arrays: np.ndarray | None) -> str:
    """A digest of the configuration and of this party's own data, None where it has none; never sent."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for array in arrays:
        digest.update(str(None if array is None else (array.dtype.str, array.shape)).encode())
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one party in a folder of its own; with `resume` a training goes on from them."""

    folder: Path
    resume: bool = False

    def start(self, party: Party, pairing: str, own: str) -> Attempt:
        """Agree with the peer where to begin.

        `own` is this party's fingerprint. Raises ConfigError where only one party resumes or there is nothing to
        resume, DataError for checkpoints of another training.
        """
        theirs = party.exchange_public(
            "resume.facts", {"resume": self.resume, "at": self._newest() if self.resume else None}
        )
        if theirs.get("resume") != self.resume:
            raise ConfigError("one party resumes a training, and the other starts one")
        if not self.resume:
            self._forget(0)
            return Attempt(self, pairing, own)
        mine = self._newest()
        if mine is None or theirs["at"] is None:
            raise ConfigError(
                "there is no checkpoint to resume from at " + ("this party" if mine is None else "the other")
            )
        if mine[0] != theirs["at"][0]:
            raise DataError("the checkpoints of the two parties come from different trainings")
        count = min(mine[1], theirs["at"][1])
        rounds = [self._read(self._round(number), own, party.rank) for number in range(1, count + 1)]
        trees = [
            TreeShares(sets=[sets[k] for sets in kept["sets"]], **{name: kept[name][k] for name in _WHOLE})
            for kept in rounds
            for k in range(len(kept["leaves"]))
        ]
        margin = self._read(self._margin(count), own, party.rank)["margin"]
        self._forget(count)
        return Attempt(self, mine[0], own, count, trees, margin)

    def any_kept(self) -> bool:
        """Whether there is a round to resume from."""
        return any(self.folder.glob(_ROUNDS))

    def save(self, number: int, pairing: str, own: str, trees: list[TreeShares], margin: AShare) -> None:
        """Keep round `number` (from 1), a tree for each class, and the margin after it; older margins go."""
        facts = {"format": FORMAT, "pairing": pairing, "own": own}
        write_arrays(self._margin(number), facts, _pack({"margin": margin}))
        parts: dict[str, Any] = {name: stack([getattr(t, name) for t in trees]) for name in _WHOLE}
        parts["sets"] = [stack([t.sets[p] for t in trees]) for p in (0, 1)]
        write_arrays(self._round(number), facts, _pack(parts))
        self._margin(number - _MARGINS_KEPT).unlink(missing_ok=True)

    def _round(self, number: int) -> Path:
        return self.folder / f"round_{number:05d}.npz"

    def _margin(self, number: int) -> Path:
        return self.folder / f"margin_{number:05d}.npz"

    def _newest(self) -> list | None:
        """[pairing, number of the newest round]."""
        numbers = sorted(int(path.stem.removeprefix("round_")) for path in self.folder.glob(_ROUNDS))
        if not numbers:
            return None
        facts, _ = read_arrays(self._round(numbers[-1]), _WHAT)
        return [facts.get("pairing"), numbers[-1]]

    def _forget(self, beyond: int) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.folder}: no folder for checkpoints can be made ({error.strerror})") from None
        for path in [*self.folder.glob(_ROUNDS), *self.folder.glob("margin_*.npz")]:
            if int(path.stem.split("_")[1]) > beyond:
                path.unlink()

    def _read(self, path: Path, own: str, rank: int) -> dict[str, Any]:
        facts, arrays = read_arrays(path, _WHAT)
        if facts.get("format") != FORMAT or facts.get("own") != own:
            raise DataError(f"{path}: the checkpoint is of another configuration or other data")
        return _unpack(arrays, rank)


@dataclass(frozen=True)
class Attempt:
    """One run of a training: its pairing id, the rounds that an earlier run has grown, and the margin after them."""

    checkpoints: Checkpoints
    pairing: str
    own: str
    done: int = 0
    trees: list[TreeShares] = field(default_factory=list)
    margin: AShare | None = None

    def save(self, number: int, trees: list[TreeShares], margin: AShare) -> None:
        """Keep round `number` (from 1)."""
        self.checkpoints.save(number, self.pairing, self.own, trees, margin)


def _pack(parts: dict[str, Any]) -> Arrays:
    """Shares, or lists of shares, by name -> arrays."""
    arrays: Arrays = {}
    for name, part in parts.items():
        for place, share in enumerate(part) if isinstance(part, list) else [("", part)]:
            if isinstance(share, BShare):
                arrays[f"bits.{name}.{place}"] = np.packbits(share.bits)
                arrays[f"shape.{name}.{place}"] = np.array(share.shape)
            else:
                arrays[f"words.{name}.{place}"] = share.words
                arrays[f"scale.{name}.{place}"] = np.array(share.scale)
    return arrays


def _unpack(arrays: Arrays, rank: int) -> dict[str, Any]:
    """Inverse of `_pack`."""
    parts: dict[str, Any] = {}
    for key, array in arrays.items():
        kind, name, place = key.split(".")
        if kind == "bits":
            shape = tuple(arrays[f"shape.{name}.{place}"].tolist())
            share: AShare | BShare = BShare(np.unpackbits(array, count=math.prod(shape)).reshape(shape), rank)
        elif kind == "words":
            share = AShare(array, rank, int(arrays[f"scale.{name}.{place}"]))
        else:
            continue
        if place:
            parts.setdefault(name, []).append(share)
        else:
            parts[name] = share
    return parts
