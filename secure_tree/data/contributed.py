"""Rows of owners who are no party: a party's halves of what they contributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Protocol

import numpy as np

from mpc.errors import SharewoodError
from mpc.matrix.interface import LinearMap
from mpc.matrix.known_matrix import MatrixRows
from mpc.party import Party
from mpc.shares import AShare, BShare
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.public.bounds import Bounds
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts


class ContributedBins(Protocol):
    """Gets the owners' bins once the edges are known. `bounds`: what the parties accept."""

    @property
    def bounds(self) -> Bounds: ...

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare | None]:
        """Return <one-hot bins> of every owner's rows, [n_i, d * bins], one owner after the other; None: left out."""

    def refuse(self, owner: OwnerFacts, error: SharewoodError) -> None:
        """Leave an owner out whose rows are not valid, or raise the error."""

    def confirm(self) -> None:
        """Tell the owners that their contributions are complete here."""


class Source(Protocol):
    """Where a training finds the rows or columns of owners: they are asked, or have contributed before."""

    def open(
        self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]
    ) -> Contributed | ContributedColumns:
        """Return what the owners contribute. Both parties must call this at the same time."""


class ContributedLabels(Protocol):
    """Labels and weights of owners, as of `Contributed`."""

    targets: AShare | None
    validation_targets: AShare | None
    row_weights: AShare | None


class SharedRows(Protocol):
    """Rows to train on that nobody knows: the numbers of rows in parts, of each part the bins and their transpose, and
    of all rows the targets, [classes, n], and the weights, [n], if any row has one.
    """

    @property
    def rows(self) -> list[int]: ...

    @property
    def matrices(self) -> list[tuple[LinearMap, LinearMap]]: ...

    @property
    def targets(self) -> AShare | None: ...

    @property
    def row_weights(self) -> AShare | None: ...


@dataclass
class Contributed:
    """The contributions of all owners, in the order of their names.

    labels: <bits of labels>, [l, n_i], as in secure_tree/owners/encoding.py. weights: <bits of weights>, [w, n_i], if
    the owner has any. counts: a half of how many values of the rows to train on have each key, of the features whose
    edges are `searched` for, uint32[s, 2^edge_bits]; none if the bins were checked before, at `edges`. held: which rows
    of every owner are held out.

    Once they are admitted: matrices: of every owner the bins of its rows to train on, and their transpose; with
    workers, packed: <the bins> instead, uint8[n, bytes]. held_out: the transposed bins of its held-out rows. targets,
    validation_targets: [classes, n] of all owners, numbers over the label bound at LABEL_SCALE until the unit is
    settled. row_weights: [n], if any row has a weight.
    """

    owners: tuple[OwnerFacts, ...]
    labels: list[BShare]
    weights: list[BShare | None]
    counts: Sequence[MatrixRows]
    held: list[np.ndarray]
    source: ContributedBins
    edges: np.ndarray | None = None
    searched: Sequence[int] = ()
    matrices: list[tuple[LinearMap, LinearMap]] = field(default_factory=list)
    packed: list[np.ndarray] = field(default_factory=list)
    held_out: list[LinearMap | None] = field(default_factory=list)
    targets: AShare | None = None
    validation_targets: AShare | None = None
    row_weights: AShare | None = None

    @property
    def rows(self) -> list[int]:
        """The number of every owner's rows to train on."""
        return [owner.rows - len(held) for owner, held in zip(self.owners, self.held, strict=True)]

    @cached_property
    def trained(self) -> list[np.ndarray]:
        """Which rows of every owner are to train on."""
        return [np.delete(np.arange(owner.rows), held) for owner, held in zip(self.owners, self.held, strict=True)]

    @cached_property
    def _counts(self) -> np.ndarray:
        return reduce(add, (each[:] for each in self.counts))

    def masses_up_to(self, known: Mapping[int, np.ndarray], keys: np.ndarray) -> np.ndarray:
        """Return a half, modulo 2^32, of the number of values up to each of `keys` but for the known ones, int64[f, k].

        `known`: {feature: keys that do not count}.
        """
        out = []
        for (feature, edges), line in zip(known.items(), keys, strict=True):
            counts = self._counts[self.searched.index(feature)].copy()
            counts[edges] = 0
            out.append(np.cumsum(counts, dtype=np.uint32)[line])
        return np.array(out).astype(np.int64)
