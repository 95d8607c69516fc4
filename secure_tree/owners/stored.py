"""Contributions in files: a party's halves of what owners have contributed, for any number of trainings.

A file has one owner's bins and labels as bits, and the joint edges at which the bins were cut. Each training lifts them
anew (admission.py); the owner is not needed again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError, SharewoodError
from mpc.host.encryption import FileKey
from mpc.host.files import flush_folder, make_folder, remove
from mpc.party import Party
from mpc.shares import BShare
from secure_tree.agreement.columns import ColumnsFacts
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.table import held_rows
from secure_tree.model.storage import Arrays, read_arrays, reading, unpack_bits, write_arrays
from secure_tree.owners.columns import shapes
from secure_tree.owners.contributing import refuse_unsupported
from secure_tree.public.bounds import NO_BOUNDS, Bounds, check_consent
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts
from secure_tree.public.names import covers

FORMAT = 6
# Where halves are until all of them are complete at both parties.
_NEW = ".collecting"
_WHAT, _ROLE = "half of a contribution", "contribution"
# The parameters on which halves depend.
_SAME = ("partition", "max_bin", "edge_bits", "cuts", "missing", "objective", "num_class", "scale_pos_weight")
_SAME_COLUMNS = (*(name for name in _SAME if name not in ("edge_bits", "cuts")), "test_size", "random_state")
_FACTS = ("exponent", "weight", "least_owners", "until", "reveal_to", "explore")


def save(
    folder: Path,
    owner: OwnerFacts,
    bins: BShare,
    labels: BShare,
    weights: BShare | None,
    edges: np.ndarray,
    config: TrainConfig,
    names: tuple[str, ...],
    key: FileKey | None = None,
) -> None:
    """Write the half of one owner's contribution, encrypted if there is a key. Raises DataError."""
    facts = {
        "format": FORMAT,
        "rank": bins.rank,
        "owner": owner.name,
        "id": owner.id,
        "rows": owner.rows,
        **{name: getattr(owner, name) for name in _FACTS},
        "names": list(names),
        "same": _same(config),
    }
    halves = {"bins": bins, "labels": labels, **({} if weights is None else {"weights": weights})}
    arrays = {name: np.packbits(half.bits) for name, half in halves.items()}
    shapes = {f"{name}_shape": np.array(half.shape) for name, half in halves.items()}
    write_arrays(path_of(folder, owner.name), facts, {"edges": edges, **arrays, **shapes}, key, _ROLE)


def save_columns(folder: Path, given: ContributedColumns, key: FileKey | None = None) -> None:
    """Write the halves of all owners' columns likewise. Raises DataError."""
    make_folder(folder)
    for (name, owner), bits, ids in zip(given.owners.items(), given.bits, given.ids, strict=True):
        facts = {"format": FORMAT, "rank": given.rank, "owner": name, "same": _same(given.config)}
        facts["columns"] = ColumnsFacts.told(owner)
        arrays = {"bits": bits, **({} if ids is None else {"ids": ids})}
        write_arrays(path_of(folder, name), facts, arrays, key, _ROLE)


def path_of(folder: Path, owner: str) -> Path:
    """Return the file of an owner's contribution. Raises ConfigError for what is no name."""
    if not owner or Path(owner).name != owner:
        raise ConfigError(f"the name of an owner must be that of its certificate, got {owner!r}")
    return folder / f"{owner}.npz"


def withdraw(folder: Path, owner: str) -> None:
    """Delete a party's half of a contribution. Raises DataError if there is none."""
    path = path_of(folder, owner)
    if not path.is_file():
        raise DataError(f"{folder}: has no contribution of {owner}")
    remove(path)


@contextmanager
def keeping(folder: Path) -> Iterator[Path]:
    """Yield a folder for new halves, which are all in `folder` once the block has ended, and nowhere if it fails."""
    new, is_new = folder / _NEW, not folder.exists()
    shutil.rmtree(new, ignore_errors=True)
    make_folder(new)
    try:
        yield new
        for path in sorted(new.iterdir()):
            path.replace(folder / path.name)
        flush_folder(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if is_new:
            with suppress(OSError):
                folder.rmdir()


class Stored:
    """Implements `Source` with files. `without`: owners who are left out. ids: by columns, the digest of the parties'
    ids of rows, if any. `bounds`: `most_rows` and `most_share` apply.
    """

    def __init__(
        self,
        folder: Path,
        key: FileKey | None = None,
        without: Collection[str] = (),
        ids: bytes | None = None,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        found = {path.stem: path for path in sorted(folder.glob("*.npz"))} if folder.is_dir() else {}
        if unknown := sorted(set(without) - found.keys()):
            raise ConfigError(f"{folder}: has no contribution of {', '.join(unknown)}")
        self.paths = {name: path for name, path in found.items() if name not in without}
        if not self.paths:
            raise DataError(f"{folder}: has no contributions: run `sharewood collect` at both parties")
        self._key, self.ids, self.bounds = key, ids, bounds

    @property
    def names(self) -> list[str]:
        """The names of the owners."""
        return list(self.paths)

    def open(
        self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]
    ) -> Contributed | ContributedColumns:
        if config.partition == "vertical":
            return self._columns(party, config)
        refuse_unsupported(config)
        owners, labels, weights, edges = [], [], list[BShare | None](), []
        for name, path in self.paths.items():
            facts, arrays = self._read(party, config, name, path, names)
            with reading(path, _WHAT):
                places = _places(path, facts["names"], names)
                own: dict[str, Any] = {fact: facts[fact] for fact in ("id", "rows", *_FACTS)}
                owners.append(OwnerFacts(name, **{**own, "reveal_to": tuple(own["reveal_to"])}))
                self.bounds.check_rows(owners[-1])
                labels.append(_bits(arrays, "labels", party.rank))
                weights.append(None if facts["weight"] is None else _bits(arrays, "weights", party.rank))
                edges.append(arrays["edges"][places])
        if any(not np.array_equal(edges[0], each) for each in edges):
            raise DataError("contributions with other joint edges than the others must be collected together with them")
        check_consent(owners)
        self._rank, self._names = party.rank, names
        held = [held_rows(config, owner.rows) for owner in owners]
        return Contributed(tuple(owners), labels, weights, [], held, self, edges[0])

    def _columns(self, party: Party, config: TrainConfig) -> ContributedColumns:
        owners, parts, bits, ids = {}, [], [], []
        for name, path in self.paths.items():
            facts, arrays = self._read(party, config, name, path)
            with reading(path, _WHAT):
                owners[name] = ColumnsFacts.model_validate(facts["columns"]).of_owner(name)
                parts.append(shapes(config, owners[name]))
                if arrays["bits"].size != -(-sum(map(math.prod, parts[-1].values())) // 8):
                    raise ValueError(f"{arrays['bits'].size} bytes are not what was contributed")
            bits.append(arrays["bits"])
            ids.append(arrays.get("ids"))
        check_consent(owners.values())
        return ContributedColumns(config, party.rank, owners, parts, bits, ids, self)

    def collected(self) -> TrainConfig:
        """Return the parameters on which the contributions depend. Raises ConfigError, DataError."""
        path = next(iter(self.paths.values()))
        facts, _ = read_arrays(path, _WHAT, self._key, _ROLE)
        with reading(path, _WHAT):
            edges = "joint" if facts["same"]["partition"] == "horizontal" else "private"
            return TrainConfig.of(edges=edges, **facts["same"])

    def _read(
        self, party: Party, config: TrainConfig, name: str, path: Path, names: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], Arrays]:
        """Read this party's half of an owner's contribution to trainings with these parameters, by rows of features
        `names`.
        """
        facts, arrays = read_arrays(path, _WHAT, self._key, _ROLE)
        with reading(path, _WHAT):
            if facts["format"] != FORMAT:
                raise DataError(f"{path}: contribution format {facts['format']}, this Sharewood reads {FORMAT}")
            if facts["owner"] != name or facts["rank"] != party.rank:
                raise DataError(f"{path}: is the half of {facts['owner']}'s contribution at party {facts['rank']}")
            then = facts["same"]
            if names is not None and isinstance(then["missing"], list):
                there = [m for m in then["missing"] if any(covers(m, name) for name in names)]
                then = {**then, "missing": there or "none"}
            _check_same(path, then, _same(config))
        return facts, arrays

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare]:
        for path in self.paths.values():
            facts, arrays = read_arrays(path, _WHAT, self._key, _ROLE)
            with reading(path, _WHAT):
                bits = _bits(arrays, "bins", self._rank)
                # A training has some of the features that were collected.
                places = _places(path, facts["names"], self._names)
                hot = bits.bits.reshape(len(bits), len(facts["names"]), -1)
                kept = hot[:, places, : edges.shape[1] + missing].reshape(len(bits), -1)
                bits = BShare(kept, self._rank)
            yield bits

    def refuse(self, owner: OwnerFacts, error: SharewoodError) -> None:
        raise error

    def confirm(self) -> None:
        """Do nothing: the owners have left."""


def _bits(arrays: Arrays, name: str, rank: int) -> BShare:
    return BShare(unpack_bits(arrays[name], arrays[f"{name}_shape"]), rank)


def _same(config: TrainConfig) -> dict[str, object]:
    names = _SAME_COLUMNS if config.partition == "vertical" else _SAME
    values = config.model_dump(mode="json")
    return {name: values[name] for name in names}


def _check_same(path: Path, then: dict[str, object], now: dict[str, object]) -> None:
    """Raise ConfigError unless halves were collected with the parameters of this training."""
    for name, value in now.items():
        if then.get(name) != value:
            raise ConfigError(
                f"{path}: was collected with {name} {then.get(name)!r}, this training has {value!r}: collect again"
            )


def _places(path: Path, collected: Sequence[str], names: tuple[str, ...]) -> list[int]:
    """Return the places of a training's features among those collected. Raises ConfigError if one is not there."""
    places = {name: f for f, name in enumerate(collected)}
    found = [places[name] for name in names if name in places]
    if len(found) < len(names) or found != sorted(found):
        raise ConfigError(f"{path}: was collected for other features than those of this training: collect again")
    return found
