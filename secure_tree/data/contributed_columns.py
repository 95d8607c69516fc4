"""Columns of owners who are no party: a party's halves of what they contributed, for the rows of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mpc.matrix.interface import LinearMap
from mpc.shares import AShare, BShare
from mpc.words import Shape
from secure_tree.data.table import held_rows
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerColumns


class ColumnsContributed(Protocol):
    """Where columns come from. ids: the digest of the parties' ids, if their rows have any."""

    ids: bytes | None

    def confirm(self) -> None:
        """Tell the owners that their contributions are complete here."""


@dataclass
class ContributedColumns:
    """The contributions of all owners, by name.

    shapes: those of the parts of each owner's bits (secure_tree/owners/columns.py). bits: a party's half of all parts,
    one after the other, eight per byte. ids: its half of the digest of each owner's ids, 16 bytes, if it has any.
    fold: which of the rows to train on are held out instead, at the same edges, int64[h]; None: those of `held_out`.

    Once they are admitted: rows, matrices: in parts, the number of rows, the bins of all owners, and their transpose.
    keys: bits of the keys of all edges. held_out: the transposed bins of held-out rows, if any. targets,
    validation_targets, row_weights: as of `Contributed`, if an owner has the labels.
    """

    config: TrainConfig
    rank: int
    owners: Mapping[str, OwnerColumns]
    shapes: Sequence[Mapping[str, Shape]]
    bits: list[np.ndarray]
    ids: list[np.ndarray | None]
    source: ColumnsContributed
    fold: np.ndarray | None = None
    rows: list[int] = field(default_factory=list)
    matrices: list[tuple[LinearMap, LinearMap]] = field(default_factory=list)
    keys: LinearMap | None = None
    held_out: LinearMap | None = None
    targets: AShare | None = None
    validation_targets: AShare | None = None
    row_weights: AShare | None = None

    def part(self, name: str, rows: slice = slice(None)) -> list[BShare]:
        """Return rows of a part of each owner's bits, [r, width]."""
        out = []
        for every, packed in zip(self.shapes, self.bits, strict=True):
            before = list(every)[: list(every).index(name)]
            count, width = every[name]
            first, end, _ = rows.indices(count)
            start = sum(math.prod(every[earlier]) for earlier in before) + first * width
            size = (end - first) * width
            bits = np.unpackbits(packed[start // 8 : -(-(start + size) // 8)])[start % 8 :][:size]
            out.append(BShare(bits.reshape(end - first, width), self.rank))
        return out

    def hot(self, held: bool, rows: slice, size: int) -> BShare:
        """Return the one-hots of all owners, [r, features, size], with a 0 at the end if values are never missing.

        They are those of held-out rows, whose first bin is below the first edge, or of rows to train on.
        """
        name, below, chosen = "held_out" if held else "bins", 0, slice(None)
        if self.fold is not None:
            every = np.arange(next(iter(self.owners.values())).rows)
            of_fold = (self.fold if held else np.delete(every, self.fold))[rows]
            # No row is below the first edge, which is the least value of all these rows.
            name, below = "bins", int(held)
            rows, chosen = slice(of_fold[0], of_fold[-1] + 1), of_fold - of_fold[0]
        found = []
        for owner, part in zip(self.owners.values(), self.part(name, rows), strict=True):
            d, (count, width) = len(owner.names), part.shape
            hot = part.bits.reshape(count, d, width // max(d, 1))[chosen]
            found.append(np.pad(hot, ((0, 0), (0, 0), (below, size - below - hot.shape[2]))))
        return BShare(np.concatenate(found, axis=1), self.rank)

    def held_rows(self, rows: int) -> np.ndarray:
        """Return which of all `rows` are held out."""
        return held_rows(self.config, rows) if self.fold is None else self.fold


@dataclass(frozen=True)
class ContributedKeys:
    """The owners' columns of rows to predict. parts: a party's half of each owner's keys of its features, then of those
    that may be missing, as of `keys_of` in secure_tree/data/bins.py, uint64[d + o, n]. ids: as of ContributedColumns.
    """

    rank: int
    owners: Mapping[str, OwnerColumns]
    parts: list[np.ndarray]
    ids: list[np.ndarray | None]
    source: ColumnsContributed

    def joined(self) -> AShare:
        """Return [keys] of all owners in this order, [d + o, n]; all must have the same rows."""
        widths = [len(owner.names) for owner in self.owners.values()]
        values = [part[:d] for part, d in zip(self.parts, widths, strict=True)]
        return AShare(
            np.concatenate([*values, *(part[d:] for part, d in zip(self.parts, widths, strict=True))]), self.rank
        )
