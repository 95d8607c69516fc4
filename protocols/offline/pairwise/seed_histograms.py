"""One party's one-hot rows times words of the other party: histograms, by trees of seeds that are kept.

Functionality  p: one of K bins for each row and feature; q: a word r for each row -> shares of the sums by bin
Messages       once: a tree of K seeds for each row and feature, punctured by p at its bin (seed_trees.py)
               per vector, q -> p: for each row and feature, r plus the words of all leaves
Cost           one word for each row, feature and vector
Security       semi-honest, as for the trees; the hash of a leaf with the number of a vector is used once, and every
               2^18 hashes of missing leaves have a permutation of their own
How            p subtracts the words that it knows from the message, which leaves r plus the word of the missing leaf,
               and adds this at its bin. All other bins have the words of their leaves; q's share is the negative of
               all words
Source         (K-1)-of-K: Schoppmann et al., CCS 2019; vector products from it: ours
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.offline.recipes import OneHotProduct
from mpc.offline.transfers import MaskedMessage, OfflineSteps
from protocols.offline.pairwise.seed_trees import SeedTrees, group_of
from protocols.ot.kernels.leaf_words import add_at, add_words

# Hashes of missing leaves, one of each tree of a group for each block, under one permutation.
_HASHES = 1 << 18


@dataclass
class SeedHistograms:
    """Trees of one matrix, numbered by feature, then by row, and the number of the next vector."""

    trees: SeedTrees
    vectors: int = 0

    def apply(self, r: np.ndarray | None, request: OneHotProduct) -> OfflineSteps[np.ndarray]:
        """[count, n_in] of q, None at p -> [count, n_out]."""
        first, self.vectors = self.vectors, self.vectors + request.count
        out, sums = self._words(request, first)
        if r is not None:
            sums += r.T
            yield [MaskedMessage(1 - request.owner, sums.size, request.ring, sums.reshape(-1))]
            return -out.reshape(-1, request.count).T
        path, features = self.trees.path, len(out)
        assert path is not None
        (told,) = yield [MaskedMessage(1 - request.owner, sums.size, request.ring, None)]
        # The missing leaf is 0 here: the words of its hash are in both sums, and cancel.
        places, flat = (
            np.repeat(np.arange(features) * request.size, request.n_in) + path,
            out.reshape(-1, request.count),
        )
        add_at(flat, places, (told.reshape(sums.shape) - sums).reshape(-1, request.count))
        return flat.T

    def _words(self, request: OneHotProduct, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of vectors first .. first + count - 1, summed over rows, [features, K, count], and over
        leaves, [features, n, count].
        """
        n, size, count, dtype = request.n_in, request.size, request.count, request.ring.dtype
        features, per = request.n_out // size, 16 // dtype.itemsize
        period = _HASHES // group_of(self.trees.depth)
        parts = range(first // per, -(-(first + count) // per))
        mine = slice(first - parts.start * per, first - parts.start * per + count)
        by_leaf = np.zeros((features, size, len(parts), per), dtype)
        sums = np.empty((features * n, count), dtype)
        for group in self.trees.groups():
            for f in range(group.trees.start // n, -(-group.trees.stop // n)):
                start, stop = max(f * n, group.trees.start), min((f + 1) * n, group.trees.stop)
                leaves = group.leaves[:size, start - group.trees.start : stop - group.trees.start]
                by_tree = np.zeros((len(parts), (stop - start) * per), dtype)
                for number in range(parts.start // period, -(-parts.stop // period)):
                    begin, end = max(parts.start, number * period), min(parts.stop, (number + 1) * period)
                    these = slice(begin - parts.start, end - parts.start)
                    schedule, part = group.schedule(number), begin % period
                    add_words(np.ascontiguousarray(leaves), schedule, part, by_leaf[f][:, these], by_tree[these])
                words = by_tree.reshape(len(parts), -1, per).swapaxes(0, 1).reshape(stop - start, -1)
                sums[start:stop] = words[:, mine]
        return by_leaf.reshape(features, size, -1)[..., mine].copy(), sums.reshape(features, n, count)
