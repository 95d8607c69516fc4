"""The split search on plain integers, the twin of `candidates`, `score`, `weights` and `pruning`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.functions.log_sum import rounded_sum
from mpc.functions.logarithm import rounded_logarithm
from mpc.functions.reciprocal import MANTISSA, START_CONSTANT, START_SCALE, START_SLOPE
from secure_tree.data.bins import Bins, order_key
from secure_tree.public.interactions import Interactions
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import FINER_SIDE, LOG_UNIT, NODE_HIGH, STEP_SCALE, Numerics


@dataclass(frozen=True)
class PlainCandidates:
    """The candidates of a node.

    foreign[p]: W, int64[d, L_p, K_q] of 0 and 1, for bins of p and edges of q, if any. thresholds: float32[C]. orders:
    P, int64[categories, categories - 1] of 0 and 1, of every column that is split by sets.
    """

    layout: Layout
    foreign: tuple[np.ndarray, ...]
    thresholds: np.ndarray
    orders: tuple[np.ndarray, ...] = ()

    @classmethod
    def of(cls, bins: tuple[Bins, ...], layout: Layout) -> PlainCandidates:
        foreign: tuple[np.ndarray, ...] = ()
        if not (layout.vertical or layout.joint):
            keys = [(order_key(b.medians), order_key(b.edges)) for b in bins]
            foreign = tuple((keys[p][0][:, :, None] < keys[1 - p][1][:, None, :]).astype(np.int64) for p in (0, 1))
        return cls(layout, foreign, layout.by_candidate([bins[p].edges for p in layout.cutters]))

    @property
    def features(self) -> np.ndarray:
        """The feature of each candidate except the null split, int[C]."""
        return self.layout.candidate_features

    def cut_of(self, winner: int) -> tuple[int, int] | None:
        """Return the number of the set-split column of a candidate, and its cut; None for any other candidate."""
        if winner >= len(self.thresholds):
            return None
        feature = int(self.features[winner])
        return next(((g, feature - a) for g, (a, b) in enumerate(self.layout.sets) if a <= feature < b), None)

    @property
    def missing_left(self) -> np.ndarray:
        """Whether each candidate sends missing values left, bool[C]."""
        count = sum(self.layout.widths[p] * self.layout.sizes[p] for p in self.layout.cutters)
        return np.arange(len(self.thresholds)) >= count

    def left_sums(self, histograms: list[np.ndarray]) -> np.ndarray:
        """Histograms of all blocks, [v, s, d_p, bins_p] -> left sums, [v, s, C]."""
        layout = self.layout
        values = [h[..., : layout.present(p)] for p, h in enumerate(histograms)]
        sums = [(np.cumsum(h, axis=-1) - h)[..., :: layout.finer] for h in values]
        if layout.joint:
            sums = [sums[0] + sums[1]]
        if self.foreign:
            moved = [np.einsum("vsdb,dbc->vsdc", h, w) for h, w in zip(values, self.foreign, strict=True)]
            sums = [sums[0] + moved[1], sums[1] + moved[0]]
        for ends, order in zip(layout.sets, self.orders, strict=True):
            (p, places), *_ = blocks = layout.with_features(*ends)
            by_category = sum(values[q][:, :, there, -1] for q, there in blocks)
            sums[p][:, :, places.start : places.stop - 1, -1] = by_category @ order
        missing = [h[:, :, list(layout.optional[p]), -1:] for p, h in enumerate(histograms)]
        if not layout.vertical:
            missing = [missing[0] + missing[1]] * 2
        copies = [sums[p][:, :, list(layout.optional[p])] + missing[p] for p in layout.cutters]
        return np.concatenate([x.reshape(*x.shape[:2], -1) for x in sums + copies], axis=-1)

    def left_sets(self, winner: int) -> list[np.ndarray]:
        """Return each block's bins that go left under a candidate, bool[d_p, bins_p]; none under the null split."""
        layout = self.layout
        sets = [np.zeros((layout.widths[p], layout.bins(p)), bool) for p in layout.blocks]
        if winner < len(self.thresholds):
            own, copies = layout.split(np.arange(layout.candidates)[None] == winner)
            for p in layout.cutters:
                optional = list(layout.optional[p])
                edges = own[p][0].copy()
                edges[optional] |= copies[p][0]
                if cut := self.cut_of(winner):
                    edges[:] = False
                for feature, edge in np.argwhere(edges):
                    for q in (0, 1) if layout.joint else (p,):
                        sets[q][feature, : edge * layout.finer] = True
                    if self.foreign:
                        sets[1 - p][feature, : layout.present(1 - p)] = self.foreign[1 - p][feature, :, edge] == 1
                for q in (p,) if layout.vertical else (0, 1):
                    sets[q][optional, -1] |= copies[p][0].any(axis=1)
            if cut:
                for q, places in layout.with_features(*layout.sets[cut[0]]):
                    sets[q][places, layout.present(q) - 1] = self.orders[cut[0]][:, cut[1]] == 1
        return sets


def normalise(x: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers -> (u, s) of `mpc.functions.reciprocal.normalise`."""
    octave = np.full(x.shape, -1, np.int64)
    for j in range(low, high + 1):
        octave = np.where(x >= 1 << j, j, octave)
    s = np.where(octave < 0, 0, np.int64(1) << np.maximum(0, high - np.maximum(octave, 0)))
    u = s * x
    return (u >> (high - MANTISSA) if high > MANTISSA else u << (MANTISSA - high)), s


def invert(u: np.ndarray) -> np.ndarray:
    """Integers -> y of `mpc.functions.reciprocal.invert`."""
    y = START_CONSTANT - START_SLOPE * u
    y_scale = MANTISSA + START_SCALE
    for centre, result_scale in ((0, 19), (4, 18)):
        one = MANTISSA + y_scale
        y = y * ((2 << one) + (centre << max(0, one - 19)) - u * y) >> (y_scale + one - result_scale)
        y_scale = result_scale
    return y


def soft_threshold(G: np.ndarray, alpha: int) -> np.ndarray:
    """Return sign(G) max(|G| - alpha, 0)."""
    return np.sign(G) * np.maximum(np.abs(G) - alpha, 0)


def bounded(numerics: Numerics, thresholded: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return T(G), clipped to the largest step times H + lambda if there is a largest step."""
    if not numerics.largest_step:
        return thresholded
    limit = (H + numerics.l2) * numerics.largest_step + (1 << STEP_SCALE - 1) >> STEP_SCALE
    return np.clip(thresholded, -limit, limit)


def weights(numerics: Numerics, G: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return gain / w, w at the weight scale and at MARGIN_SCALE, and H >= min_child_weight.

    These are the values of `secure_tree.tree.weights`.
    """
    u, s = normalise(H + numerics.l2, numerics.low, numerics.high)
    thresholded = soft_threshold(G, numerics.l1)
    bound = bounded(numerics, thresholded, H)
    product = (bound * s >> numerics.early_shift) * invert(u)
    w, leaf = product >> numerics.weight_shift, product >> numerics.leaf_shift
    return 2 * thresholded - bound, w, leaf, H + numerics.l2 >= numerics.min_weight


# The masks of one level under which the arguments of logarithms are opened: both sides, [2, v, C]; with an alpha t - K
# and t + K, [2, v, C]; and u, [v, C], or with a largest step p - d and p + d of both sides, [2, 2, v, C]. With a
# `split`, those of u and of s a b, [v, C] each.
Coins = tuple[np.ndarray, ...]


def keys(
    numerics: Numerics,
    left: np.ndarray,
    total: np.ndarray,
    min_samples: int,
    coins: Coins,
    directions: np.ndarray | int = 0,
) -> np.ndarray:
    """Left sums, [v, s, C], and totals, [v, s] -> keys, [v, C], as `secure_tree.tree.score.keys`."""
    sides = np.stack([left, total[..., None] - left])
    H = sides[:, :, 1] + numerics.l2
    S = total[:, 1] + 2 * numerics.l2
    _, s = normalise(S, numerics.node_low, NODE_HIGH)
    thresholded = soft_threshold(sides[:, :, 0], numerics.l1)
    t = thresholded.sum(axis=0)
    if numerics.split is not None:
        u = sides[0, :, 0] * (s * S)[:, None] - H[0] * (s * total[:, 0])[:, None]
        split = rounded_logarithm(s[:, None] * H[0] * H[1], coins[1], numerics.split)
        score = rounded_logarithm(u, coins[0], numerics.slope) - split + numerics.split.largest
        return score + (_valid(numerics, sides, H, min_samples, directions) << numerics.score_bits)
    logs = rounded_logarithm(H << numerics.side_shift, coins[0], numerics.side)
    if numerics.bounded:
        w = s * bounded(numerics, total[:, 0], total[:, 1] + numerics.l2)
        p = thresholded * (s * S)[:, None] - H * w[:, None]
        d = (thresholded - bounded(numerics, thresholded, sides[:, :, 1])) * (s * S)[:, None]
        tops = rounded_logarithm(np.stack([p - d, p + d]), coins[-1], numerics.slope).sum(axis=0)
        score = rounded_sum(*(tops - logs + numerics.side.largest))
    else:
        u = thresholded[0] * (s * S)[:, None] - H[0] * s[:, None] * t
        score = rounded_logarithm(u, coins[-1], numerics.slope) - logs.sum(axis=0) + 2 * numerics.side.largest
    if numerics.shrunk is not None:
        least = soft_threshold(total[:, 0], 2 * numerics.l1)[:, None]
        distances = np.stack([t - least, t + least]) << FINER_SIDE
        logs = rounded_logarithm(distances, coins[1], numerics.shrunk).sum(axis=0)
        exponent = np.log2(np.maximum(s, 1)).astype(np.int64)[:, None]
        shrunk = logs + 2 * LOG_UNIT * exponent + numerics.shrunk_offset
        score = rounded_sum(score, shrunk + 2 * numerics.side.largest)
    return score + (_valid(numerics, sides, H, min_samples, directions) << numerics.score_bits)


def _valid(
    numerics: Numerics, sides: np.ndarray, H: np.ndarray, min_samples: int, directions: np.ndarray | int
) -> np.ndarray:
    valid = (numerics.min_weight <= H).all(axis=0)
    valid &= directions * (sides[0, :, 0] * H[1] - sides[1, :, 0] * H[0]) >= 0
    if sides.shape[2] == 3:
        valid &= (sides[:, :, 2] >= min_samples).all(axis=0)
    return valid


def lasting(
    numerics: Numerics,
    sums: np.ndarray,
    min_samples: int,
    ways: np.ndarray | int = 0,
    fits: np.ndarray | bool = True,
) -> np.ndarray:
    """Sums of all nodes, [2 m + 1, s] -> whether each of the m splits lasts, as `secure_tree.tree.pruning`.

    `ways`, int[m]: whether weights must rise (1) or fall (-1) from the left child to the right child. `fits`, bool[m]:
    whether a split may follow those above.
    """
    m = len(sums) // 2
    by_weight, w, _, enough = weights(numerics, sums[:, 0], sums[:, 1])
    gain = by_weight * w
    if sums.shape[1] == 3:
        enough = enough & (sums[:, 2] >= min_samples)
    lasts = (gain[1::2] + gain[2::2] - gain[:m] > numerics.split_loss) & enough[1::2] & enough[2::2]
    lasts &= (ways * (w[1::2] - w[2::2]) >= 0) & fits
    for node in range(1, m):
        lasts[node] &= lasts[(node - 1) // 2]
    return lasts


def followers(interactions: Interactions, winners: list[int]) -> np.ndarray:
    """Candidates of the first m nodes of a full tree -> which candidates may follow at each node, bool[2 m + 1, C]."""
    of_candidates = interactions.groups[interactions.kind]
    groups = [np.ones(of_candidates.shape[1], bool)]
    for node, winner in enumerate(winners):
        groups += [groups[node] & of_candidates[winner]] * 2
    return (np.stack(groups)[:, None] & of_candidates).any(axis=2)


def order(numerics: Numerics, sums: np.ndarray) -> np.ndarray:
    """[G, H] by category, int64[2, categories] -> P, as `secure_tree.setup.orders`."""
    plan, count = numerics.order, sums.shape[1]
    u, s = normalise(sums[1] + plan.smoothing, plan.low, plan.high)
    keys = -((sums[0] * s >> plan.early) * invert(u) >> plan.shift)
    rank = np.empty(count, np.int64)
    # Of equal keys, the last comes first.
    rank[np.lexsort((-np.arange(count), keys))] = np.arange(count)
    return (rank[:, None] <= np.arange(count - 1)).astype(np.int64)


def hold(ways: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Directions, int[m], and weights of nodes, float64[2 m + 1] -> weights in bounds, as `tree.monotone`."""
    m, held = len(ways), values.copy()
    low, high = np.full(2 * m + 1, -np.inf), np.full(2 * m + 1, np.inf)
    for node, way in enumerate(ways.tolist()):
        left, right = 2 * node + 1, 2 * node + 2
        middle = np.clip(values[[left, right]], low[node], high[node]).mean()
        low[left], high[left] = middle if way < 0 else low[node], middle if way > 0 else high[node]
        low[right], high[right] = middle if way > 0 else low[node], middle if way < 0 else high[node]
        for child in (left, right):
            held[child] = np.clip(values[child], low[child], high[child])
    return held
