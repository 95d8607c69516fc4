"""The split search of a level on plain integers: what `secure_tree.gain` and `.candidates` compute on shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.reciprocal import MANTISSA, START_CONSTANT, START_SCALE, START_SLOPE
from secure_tree.binning import Bins, order_key
from secure_tree.layout import Layout
from secure_tree.numerics import STEP_SCALE, Numerics


@dataclass(frozen=True)
class PlainCandidates:
    """foreign[p]: W[d, L_p, K_q] of 0/1 for bins of p and edges of q, if any; rank: [C + 1]; thresholds: float32[C]."""

    layout: Layout
    foreign: tuple[np.ndarray, ...]
    rank: np.ndarray
    thresholds: np.ndarray

    @classmethod
    def of(cls, bins: tuple[Bins, Bins], layout: Layout) -> PlainCandidates:
        foreign: tuple[np.ndarray, ...] = ()
        places = [np.arange(b.edges.size).reshape(b.edges.shape) for b in bins]
        if layout.vertical:
            places[1] += places[0].size
        elif not layout.joint:
            keys = [(order_key(b.medians), order_key(b.edges)) for b in bins]
            foreign = tuple((keys[p][0][:, :, None] < keys[1 - p][1][:, None, :]).astype(np.int64) for p in (0, 1))
            of_feature = np.arange(layout.feature_count)[:, None] * sum(layout.sizes)
            below = [w[:, :: layout.finer].sum(axis=1) for w in foreign]
            places = [below[1 - q] + np.arange(layout.sizes[q]) + of_feature for q in (0, 1)]
        rank = np.append(layout.by_candidate([places[p] for p in layout.cutters]) + 1, 0)
        return cls(layout, foreign, rank, layout.by_candidate([bins[p].edges for p in layout.cutters]))

    @property
    def features(self) -> np.ndarray:
        """The feature of the table that every candidate but the null split cuts, int[C]."""
        return self.layout.candidate_features

    @property
    def missing_left(self) -> np.ndarray:
        """Whether a candidate sends missing values left, bool[C]."""
        count = sum(self.layout.widths[p] * self.layout.sizes[p] for p in self.layout.cutters)
        return np.arange(len(self.thresholds)) >= count

    def left_sums(self, histograms: list[np.ndarray]) -> np.ndarray:
        """[v, s, d_p, bins_p] for both blocks -> [v, s, C + 1]."""
        layout = self.layout
        values = [h[..., : layout.present(p)] for p, h in enumerate(histograms)]
        sums = [(np.cumsum(h, axis=-1) - h)[..., :: layout.finer] for h in values]
        if layout.joint:
            sums = [sums[0] + sums[1]]
        if self.foreign:
            moved = [np.einsum("vsdb,dbc->vsdc", h, w) for h, w in zip(values, self.foreign, strict=True)]
            sums = [sums[0] + moved[1], sums[1] + moved[0]]
        missing = [h[:, :, list(layout.optional[p]), -1:] for p, h in enumerate(histograms)]
        if not layout.vertical:
            missing = [missing[0] + missing[1]] * 2
        copies = [sums[p][:, :, list(layout.optional[p])] + missing[p] for p in layout.cutters]
        null = np.zeros((*sums[0].shape[:2], 1), np.int64)
        return np.concatenate([*(x.reshape(*x.shape[:2], -1) for x in sums + copies), null], axis=-1)

    def left_sets(self, winner: int) -> list[np.ndarray]:
        """Which bins of either party go left under a candidate: bool[d_p, bins_p]; none under the null split."""
        layout = self.layout
        sets = [np.zeros((layout.widths[p], layout.bins(p)), bool) for p in (0, 1)]
        if winner < len(self.thresholds):
            own, copies = layout.split(np.arange(layout.candidates)[None] == winner)
            for p in layout.cutters:
                optional = list(layout.optional[p])
                edges = own[p][0].copy()
                edges[optional] |= copies[p][0]
                for feature, edge in np.argwhere(edges):
                    for q in (0, 1) if layout.joint else (p,):
                        sets[q][feature, : edge * layout.finer] = True
                    if self.foreign:
                        sets[1 - p][feature, : layout.present(1 - p)] = self.foreign[1 - p][feature, :, edge] == 1
                for q in (p,) if layout.vertical else (0, 1):
                    sets[q][optional, -1] |= copies[p][0].any(axis=1)
        return sets


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


def bounded(numerics: Numerics, thresholded: np.ndarray, H: np.ndarray) -> np.ndarray:
    """T(G), at most the largest step times H + lambda where there is one."""
    if not numerics.largest_step:
        return thresholded
    limit = (H + numerics.l2) * numerics.largest_step + (1 << STEP_SCALE - 1) >> STEP_SCALE
    return np.clip(thresholded, -limit, limit)


def weights(numerics: Numerics, G: np.ndarray, H: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gain over w, w, and H >= min_child_weight, as `secure_tree.gain.weights`."""
    u, s = normalise(H + numerics.l2, numerics.low, numerics.high)
    thresholded = soft_threshold(G, numerics.l1)
    bound = bounded(numerics, thresholded, H)
    scaled = bound * s >> numerics.early_shift
    return 2 * thresholded - bound, scaled * invert(u) >> shift, H + numerics.l2 >= numerics.min_weight


def keys(numerics: Numerics, left: np.ndarray, total: np.ndarray, rank: np.ndarray, min_samples: int) -> np.ndarray:
    """[v, s, C + 1], [v, s] -> key [v, C + 1], as `secure_tree.gain.keys`."""
    sides = np.stack([left, total[..., None] - left])
    G, w, heavy = weights(numerics, sides[:, :, 0], sides[:, :, 1], numerics.weight_shift)
    valid = heavy[0] & heavy[1]
    if sides.shape[2] == 3:
        enough = sides[:, :, 2] >= min_samples
        valid = valid & enough[0] & enough[1]
    gain = (G * w).sum(axis=0)
    gain[:, -1] = np.where(heavy[1][:, -1], gain[:, -1] + numerics.split_loss, 0)
    valid[:, -1] = True
    key = (gain >> numerics.gain_shift << numerics.rank_bits) + (1 << numerics.rank_bits) - 1 - rank
    return np.where(valid, key, 0)
