"""The split search of a level on plain integers: what `secure_tree.gain` and `.candidates` compute on shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.reciprocal import MANTISSA, START_CONSTANT, START_SCALE, START_SLOPE
from secure_tree.binning import Bins, order_key
from secure_tree.numerics import Numerics


@dataclass(frozen=True)
class PlainCandidates:
    """foreign[p]: W[d, K_p, K_q] of 0/1 for bins of p and edges of q; rank: [C + 1]; thresholds: float32[C]."""

    foreign: tuple[np.ndarray, np.ndarray]
    rank: np.ndarray
    thresholds: np.ndarray
    sizes: tuple[int, int]

    @classmethod
    def of(cls, bins: tuple[Bins, Bins]) -> PlainCandidates:
        d = len(bins[0].edges)
        sizes = bins[0].size, bins[1].size
        foreign = [
            (order_key(bins[p].largest)[:, :, None] < order_key(bins[1 - p].edges)[:, None, :]).astype(np.int64)
            for p in (0, 1)
        ]
        places = np.concatenate([foreign[1 - q].sum(axis=1) + np.arange(sizes[q]) for q in (0, 1)], axis=1)
        rank = (places + 1 + np.arange(d)[:, None] * sum(sizes)).reshape(-1)
        edges = np.concatenate([b.edges for b in bins], axis=1).reshape(-1)
        return cls((foreign[0], foreign[1]), np.append(rank, 0), edges, sizes)

    def left_sums(self, histograms: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """[v, s, d, K_p] for both blocks -> [v, s, C + 1]."""
        own = [np.cumsum(h, axis=-1) - h for h in histograms]
        moved = [np.einsum("vsdb,dbc->vsdc", h, w) for h, w in zip(histograms, self.foreign, strict=True)]
        sums = np.concatenate([own[0] + moved[1], own[1] + moved[0]], axis=-1)
        return np.concatenate([sums.reshape(*sums.shape[:2], -1), np.zeros((*sums.shape[:2], 1), np.int64)], axis=-1)

    def left_sets(self, winner: int) -> tuple[np.ndarray, np.ndarray]:
        """Which bins of either party go left under a candidate: bool[d, K_p]; none under the null split."""
        d = len(self.foreign[0])
        sets = tuple(np.zeros((d, size), bool) for size in self.sizes)
        if winner < len(self.rank) - 1:
            feature, place = divmod(winner, sum(self.sizes))
            q = int(place >= self.sizes[0])
            edge = place - q * self.sizes[0]
            sets[q][feature] = np.arange(self.sizes[q]) < edge
            sets[1 - q][feature] = self.foreign[1 - q][feature, :, edge] == 1
        return sets[0], sets[1]


def normalise(x: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers -> (u, s) of `mpc.reciprocal.normalise`."""
    octave = np.full(x.shape, -1, np.int64)
    for j in range(low, high + 1):
        octave = np.where(x >= 1 << j, j, octave)
    s = np.where(octave < 0, 0, np.int64(1) << np.maximum(0, high - np.maximum(octave, 0)))
    u = s * x
    return (u >> (high - MANTISSA) if high > MANTISSA else u << (MANTISSA - high)), s


def invert(u: np.ndarray) -> np.ndarray:
    """Integers -> y of `mpc.reciprocal.invert`."""
    y = START_CONSTANT - START_SLOPE * u
    y_scale = MANTISSA + START_SCALE
    for centre, result_scale in ((0, 19), (4, 18)):
        one = MANTISSA + y_scale
        y = y * ((2 << one) + (centre << max(0, one - 19)) - u * y) >> (y_scale + one - result_scale)
        y_scale = result_scale
    return y


def soft_threshold(G: np.ndarray, alpha: int) -> np.ndarray:
    """sign(G) max(|G| - alpha, 0)."""
    return np.sign(G) * np.maximum(np.abs(G) - alpha, 0)


def weights(numerics: Numerics, G: np.ndarray, H: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T(G), w and H >= min_child_weight, as `secure_tree.gain.weights`."""
    u, s = normalise(H + numerics.l2, numerics.low, numerics.high)
    thresholded = soft_threshold(G, numerics.l1)
    scaled = thresholded * s >> numerics.early_shift
    return thresholded, scaled * invert(u) >> shift, H + numerics.l2 >= numerics.min_weight


def keys(numerics: Numerics, left: np.ndarray, total: np.ndarray, rank: np.ndarray, min_samples: int) -> np.ndarray:
    """[v, s, C + 1], [v, s] -> key [v, C + 1], as `secure_tree.gain.keys`."""
    sides = np.stack([left, total[..., None] - left])
    G, w, heavy = weights(numerics, sides[:, :, 0], sides[:, :, 1], numerics.weight_shift)
    valid = heavy[0] & heavy[1]
    if sides.shape[2] == 3:
        enough = sides[:, :, 2] >= min_samples
        valid = valid & enough[0] & enough[1]
    valid[:, -1] = True
    gain = (G * w).sum(axis=0)
    gain[:, -1] += numerics.split_loss
    key = (gain >> numerics.gain_shift << numerics.rank_bits) + (1 << numerics.rank_bits) - 1 - rank
    return np.where(valid, key, 0)
