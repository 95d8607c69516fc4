"""One-hot rows that one party knows, times words of the other: histograms, by trees of seeds that stay.

Functionality  p: a bin of K for each row and feature; q: words r, one for each row -> shares of the sums by bin
Messages       once: trees of K seeds, one for each row and feature, punctured by p at its bin (punctured_trees.py)
               a vector, q -> p: for each row and feature r plus the words of all leaves
Cost           a word for each row, feature and vector
Security       semi-honest, as the trees; the hash of a leaf with the number of a vector is used once
How            p puts what it was told, less the words that it knows, at its bin: r plus the word of the leaf that it
               lacks. All other bins have the words of their leaves, and q's share is their negative
Source         (K-1)-of-K: Schoppmann et al., CCS 2019; vector products by it: ours
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.linear_map import MatrixVectors
from mpc.transfers import Making, Told
from protocols.ot.kernels.leaf_words import add_at, add_words
from protocols.randomness.punctured_trees import SeedTrees


@dataclass
class SeedHistograms:
    """Trees of one matrix, numbered by feature, then by row, and the number of the next vector."""

    trees: SeedTrees
    vectors: int = 0

    def apply(self, r: np.ndarray | None, request: MatrixVectors) -> Making[np.ndarray]:
        """[count, n_in] of q, None at p -> [count, n_out]."""
        first, self.vectors = self.vectors, self.vectors + request.count
        out, sums = self._words(request, first)
        if r is not None:
            sums += r.T
            yield [Told(1 - request.owner, sums.size, request.ring, sums.reshape(-1))]
            return -out.reshape(-1, request.count).T
        path, features = self.trees.path, len(out)
        assert path is not None
        (told,) = yield [Told(1 - request.owner, sums.size, request.ring, None)]
        # The leaf that is missing has words of 0, which are in both sums.
        places, flat = (
            np.repeat(np.arange(features) * request.size, request.n_in) + path,
            out.reshape(-1, request.count),
        )
        add_at(flat, places, (told.reshape(sums.shape) - sums).reshape(-1, request.count))
        return flat.T

    def _words(self, request: MatrixVectors, first: int) -> tuple[np.ndarray, np.ndarray]:
        """The words of vectors first .. first + count - 1, added up over rows, [features, K, count], and over leaves,
        [features, n, count].
        """
        n, size, count, dtype = request.n_in, request.size, request.count, request.ring.dtype
        features, per = request.n_out // size, 16 // dtype.itemsize
        parts = range(first // per, -(-(first + count) // per))
        mine = slice(first - parts.start * per, first - parts.start * per + count)
        by_leaf = np.zeros((features, size, len(parts), per), dtype)
        sums = np.empty((features * n, count), dtype)
        for group in self.trees.groups():
            for f in range(group.trees.start // n, -(-group.trees.stop // n)):
                start, stop = max(f * n, group.trees.start), min((f + 1) * n, group.trees.stop)
                leaves = group.leaves[:size, start - group.trees.start : stop - group.trees.start]
                by_tree = np.zeros((len(parts), (stop - start) * per), dtype)
                # Tweak 0 is that of the nodes above.
                add_words(np.ascontiguousarray(leaves), group.schedule, 1 + parts.start, by_leaf[f], by_tree)
                words = by_tree.reshape(len(parts), -1, per).swapaxes(0, 1).reshape(stop - start, -1)
                sums[start:stop] = words[:, mine]
        return by_leaf.reshape(features, size, -1)[..., mine].copy(), sums.reshape(features, n, count)
