"""Trees whose thresholds are cluster indices, which is all that the server learns about a split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.baselines.federated.engine import Message, field


@dataclass(frozen=True)
class Forest:
    """T full binary heaps of depth L; the children of slot i are 2i + 1 (cluster <= threshold) and 2i + 2.

    feature    int32[T, 2^L - 1]        -1 if the slot is not split
    threshold  int32[T, 2^L - 1]        the last cluster that goes left
    value      float64[T, 2^(L+1) - 1]  the term in the margin of a row that stops in the slot
    """

    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray

    @classmethod
    def empty(cls, trees: int, depth: int) -> Forest:
        """Return trees that have one leaf, of value zero."""
        inner, slots = (1 << depth) - 1, (1 << depth + 1) - 1
        return cls(np.full((trees, inner), -1, np.int32), np.zeros((trees, inner), np.int32), np.zeros((trees, slots)))

    def __len__(self) -> int:
        return len(self.feature)

    def __getitem__(self, part: slice) -> Forest:
        return Forest(self.feature[part], self.threshold[part], self.value[part])

    def __add__(self, other: Forest) -> Forest:
        return Forest(*(np.concatenate(pair) for pair in zip(self._arrays(), other._arrays(), strict=True)))

    def slots(self, tree: int, clusters: np.ndarray) -> np.ndarray:
        """Return the slot where each row of clusters int32[n, d] stops: int64[n]."""
        feature, threshold = self.feature[tree], self.threshold[tree]
        at = np.zeros(len(clusters), np.int64)
        moving = np.arange(len(clusters))
        while len(moving):
            here = at[moving]
            splits = (here < len(feature)) & (feature[np.minimum(here, len(feature) - 1)] >= 0)
            moving, here = moving[splits], here[splits]
            at[moving] = 2 * here + 1 + (clusters[moving, feature[here]] > threshold[here])
        return at

    def margin(self, clusters: np.ndarray) -> np.ndarray:
        """Sum the trees for each row of int32[n, d]: float64[n]."""
        total = np.zeros(len(clusters))
        for tree in range(len(self)):
            total += self.value[tree][self.slots(tree, clusters)]
        return total

    def pack(self) -> Message:
        return dict(zip(("feature", "threshold", "value"), self._arrays(), strict=True))

    @classmethod
    def unpack(cls, message: Message, depth: int, features: int) -> Forest:
        """Unpack, at a node, what `pack` packed. Raises ProtocolDesync for another depth or unknown features."""
        inner, slots = (1 << depth) - 1, (1 << depth + 1) - 1
        feature = field(message, "feature", np.int32, (-1, inner))
        trees = len(feature)
        if trees and not -1 <= feature.min() <= feature.max() < features:
            raise ProtocolDesync(f"a received tree must split on features 0..{features - 1} only")
        threshold = field(message, "threshold", np.int32, (trees, inner))
        return cls(feature, threshold, field(message, "value", np.float64, (trees, slots)))

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.feature, self.threshold, self.value
