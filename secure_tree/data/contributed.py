"""Rows of owners who are no party: a party's halves of what they contributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from mpc.matrix.interface import LinearMap
from mpc.party import Party
from mpc.shares import AShare, BShare, concatenate
from secure_tree.data.categories import Dictionary
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts


class ContributedBins(Protocol):
    """Gets the owners' bins once the edges are known."""

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare]:
        """Return <one-hot bins> of every owner's rows, [n_i, d * bins], one owner after the other."""

    def confirm(self) -> None:
        """Tell the owners that their contributions are complete here."""


class Source(Protocol):
    """Where a training finds the rows of owners: they are asked, or have contributed before."""

    def open(self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]) -> Contributed:
        """Return what the owners contribute. Both parties must call this at the same time."""


@dataclass
class Contributed:
    """The contributions of all owners, in the order of their names.

    labels: <the targets of each tree of a round>, [classes, n_i]. counts: a half of how many values have each key,
    uint32[d, 2^edge_bits]; none if the bins were checked before, at `edges`. Once they are admitted: matrices: of every
    owner the bins of its rows and their transpose; targets: the labels of all owners, [classes, n].
    """

    owners: tuple[OwnerFacts, ...]
    labels: list[BShare]
    counts: list[np.ndarray]
    source: ContributedBins
    edges: np.ndarray | None = None
    matrices: list[tuple[LinearMap, LinearMap]] = field(default_factory=list)
    targets: AShare | None = None

    @property
    def rows(self) -> int:
        return sum(owner.rows for owner in self.owners)

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.stack(self.counts).sum(axis=0, dtype=np.uint32)

    def masses_up_to(self, known: Mapping[int, np.ndarray], keys: np.ndarray) -> np.ndarray:
        """Return a half, modulo 2^32, of the number of values up to each of `keys` but for the known ones, int64[f, k].

        `known`: {feature: keys that do not count}.
        """
        out = []
        for (feature, edges), line in zip(known.items(), keys, strict=True):
            counts = self._counts[feature].copy()
            counts[edges] = 0
            out.append(np.cumsum(counts, dtype=np.uint32)[line])
        return np.array(out).astype(np.int64)

    def admit(self, matrices: Sequence[tuple[LinearMap, LinearMap]], labels: Sequence[AShare]) -> None:
        """Keep what has been checked; the counts are not needed again."""
        self.matrices, self.targets = list(matrices), concatenate(list(labels), axis=1)
        self.counts.clear()
