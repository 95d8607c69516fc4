"""Plaintext boosting with the twin's split search: trees on given integer gradients, and whole trainings in float64."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from secure_tree.data.bins import Bins, make_bins
from secure_tree.model.ensemble import left_children
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import PublicFacts
from secure_tree.public.exact import ceil_log2
from secure_tree.public.interactions import Interactions, interactions
from secure_tree.public.layout import Layout, Names, known_edges, lay_out
from secure_tree.public.numerics import Numerics, Size, plan_numerics
from secure_tree.twin.joint import pooled_edges
from secure_tree.twin.losses import derivatives
from secure_tree.twin.search import (
    Coins,
    PlainCandidates,
    bounded,
    followers,
    hold,
    keys,
    lasting,
    order,
    soft_threshold,
)


@dataclass(frozen=True)
class PlainTree:
    """One tree.

    winner: candidate numbers, int[nodes]. leaves: weights, float64[2^depth]. leaf: the leaf of every training row,
    int[n].
    """

    winner: np.ndarray
    leaves: np.ndarray
    leaf: np.ndarray


@dataclass(frozen=True)
class PlainData:
    """The bins of all blocks and their candidates. `directions` and `interactions` are those of `TrainingContext`."""

    layout: Layout
    bins: tuple[Bins, ...]
    candidates: PlainCandidates
    directions: np.ndarray
    interactions: Interactions | None

    @classmethod
    def of(
        cls,
        tables: tuple[np.ndarray, ...],
        config: TrainConfig,
        names: Names | None = None,
        masses: Sequence[np.ndarray] | None = None,
    ) -> PlainData:
        """Bin the features of both parties, and by columns those of owners.

        `names` default to f0, f1, ..., and `masses` of the rows, int64[n], to 1.
        """
        plain = [np.asarray(x, np.float32) for x in tables]
        names = names or tuple(tuple(f"f{i}" for i in range(x.shape[1])) for x in plain)
        layout = lay_out(config, names, tuple(len(x) for x in plain))
        if config.joint:
            masses = [np.ones(len(x), np.int64) for x in plain] if masses is None else masses
            fixed = known_edges(config, names[0], layout.sizes[0])
            edges = pooled_edges(plain, masses, layout.sizes[0], config.edge_bits, fixed)
            bins = tuple(Bins(x, edges, edges) for x in plain)
        else:
            cut = (make_bins(x, size, layout.finer) for x, size in zip(plain, layout.sizes, strict=True))
            bins = tuple(b.with_indicators(layout.own_indicators(p)) for p, b in enumerate(cut))
        named = names if layout.vertical else names[:1]
        directions = np.array(config.directions(sum(named, ())))[layout.candidate_features]
        found = interactions(config, named)
        held = found and found.at(layout.candidate_features)
        return cls(layout, bins, PlainCandidates.of(bins, layout), directions, held)

    @property
    def rows(self) -> tuple[int, ...]:
        """The numbers of rows of the blocks that make up the table."""
        return tuple(self.layout.rows[p] for p in self.layout.cover)

    def ordered(self, numerics: Numerics, values: np.ndarray) -> PlainData:
        """Return the data with the categories of columns ordered by integers [g, h], [s, n]."""
        blocks = self.histograms(values, np.ones((1, values.shape[1]), bool))
        orders, layout = [], self.layout
        for ends in layout.sets:
            found = [blocks[p][0, :2, places, layout.present(p) - 1] for p, places in layout.with_features(*ends)]
            orders.append(order(numerics, np.sum(found, axis=0)))
        return self.with_orders(orders)

    def with_orders(self, orders: Sequence[np.ndarray]) -> PlainData:
        """Return the data with these P of columns that are split by sets."""
        return replace(self, candidates=replace(self.candidates, orders=tuple(orders)))

    def histograms(self, values: np.ndarray, at_node: np.ndarray) -> list[np.ndarray]:
        """values int[s, n] and rows of the nodes bool[v, n] -> [v, s, d_p, bins_p] for all blocks."""
        out = []
        for p, bins in enumerate(self.bins):
            span, d, size = self.layout.rows_of(p), bins.features.shape[1], self.layout.bins(p)
            own = values[:, span]
            places = bins.numbers + np.arange(d) * size
            sums = np.zeros((len(at_node), len(values), d * size), np.int64)
            for v, rows in enumerate(at_node[:, span]):
                for s, part in enumerate(own[:, rows]):
                    # float64 sums of integers are exact below 2^53.
                    sums[v, s] = np.bincount(places[rows].ravel(), np.repeat(part, d), d * size)
            out.append(sums.reshape(*sums.shape[:2], d, size))
        return out

    def goes_left(self, winner: int) -> np.ndarray:
        """Return whether each training row goes left under a candidate, bool[n]."""
        left = np.zeros(self.layout.row_count, bool)
        for p, (s, b) in enumerate(zip(self.candidates.left_sets(winner), self.bins, strict=True)):
            left[self.layout.rows_of(p)] |= np.take_along_axis(s, b.numbers.T.astype(np.int64), axis=1).any(axis=0)
        return left

    def leaves(self, winner: np.ndarray) -> np.ndarray:
        """Return the leaf that each training row reaches under the winners of all nodes, int[n]."""
        node = np.zeros(self.layout.row_count, np.int64)
        goes = np.stack([self.goes_left(w) for w in winner.tolist()])
        null = winner == self.layout.candidates - 1
        goes[null] = left_children(len(winner))[null, None]
        for _ in range(len(winner).bit_length()):
            node = 2 * node + 2 - goes[node, np.arange(len(node))]
        return node - len(winner)


def grow(
    data: PlainData,
    config: TrainConfig,
    numerics: Numerics,
    values: np.ndarray,
    coins: Iterable[Coins],
    sample: np.ndarray | None = None,
) -> PlainTree:
    """Grow a tree on integers [g, h] or [g, h, 1], [s, n], at the histogram scale, from a sample of candidates.

    `coins` has those of each level for the candidates of the sample.
    """
    null = data.layout.candidates - 1
    edges = np.flatnonzero(data.layout.useful) if sample is None else sample[:-1]
    nodes = [np.ones((1, values.shape[1]), bool)]
    winners: list[int] = []
    for _, of_level in zip(range(config.max_depth), coins, strict=False):
        at_node = nodes[-1]
        blocks = data.histograms(values, at_node)
        total = sum(blocks[p][:, :, 0].sum(axis=-1) for p in data.layout.cover)
        left = data.candidates.left_sums(blocks)[..., edges]
        key = keys(numerics, left, total, config.min_child_samples, of_level, data.directions[edges])
        if data.interactions:
            # A candidate that may not follow is not valid.
            may = followers(data.interactions, winners)[-len(at_node) :, edges]
            key = np.where(may, key, key % (1 << numerics.score_bits))
        best = edges[key.argmax(axis=1)].tolist()
        goes = [data.goes_left(winner) for winner in best]
        nodes.append(np.stack([at_node[v // 2] & (goes[v // 2] ^ (v % 2 == 1)) for v in range(2 * len(best))]))
        winners += best
    sums = np.concatenate(nodes) @ values.T.astype(np.int64)
    ways, fits = data.directions[winners], np.ones(len(winners), bool)
    if data.interactions:
        fits = followers(data.interactions, winners)[np.arange(len(winners)), winners]
    lasts = lasting(numerics, sums, config.min_child_samples, ways, fits)
    winner = np.where(lasts, winners, null)
    leaf = data.leaves(winner)
    held = hold(ways, _weights(config, numerics, sums))
    at_end = np.arange(len(held))
    for node in range(1, len(held)):
        parent = (node - 1) // 2
        at_end[node] = node if parent == at_end[parent] and lasts[parent] else at_end[parent]
    reached = np.isin(np.arange(len(winner) + 1), leaf)
    return PlainTree(winner, np.where(reached, held[at_end[len(winner) :]], 0), leaf)


def _weights(config: TrainConfig, numerics: Numerics, sums: np.ndarray) -> np.ndarray:
    """Sums of nodes, [nodes, s] -> weights, float64[nodes]; as in XGBoost, 0 if H is below min_child_weight."""
    G, H = sums[:, 0], sums[:, 1]
    unit = 1 << numerics.histogram_scale
    numerator = bounded(numerics, soft_threshold(G, numerics.l1), H) / unit
    heavy = H + numerics.l2 >= max(1, numerics.min_weight)
    weight = np.divide(numerator, (H + numerics.l2) / unit, out=np.zeros(len(G)), where=heavy)
    return -config.leaf_rate * weight


def draw_coins(numerics: Numerics, depth: int, candidates: int, rng: np.random.Generator) -> Iterator[Coins]:
    """Yield the masks of each level of a tree, for `candidates` candidates without the null split."""
    for level in range(depth):
        shape = 1 << level, candidates
        shapes: list[tuple[int, ...]] = [shape, shape]
        if numerics.split is None:
            shapes = [(2, *shape)] * (1 if numerics.shrunk is None else 2)
            shapes.append((2, 2, *shape) if numerics.bounded else shape)
        yield tuple(rng.integers(0, 1 << 63, s, np.uint64) for s in shapes)


def _base_margin(config: TrainConfig, labels: np.ndarray) -> float:
    mean = float(labels.mean())
    if config.log_odds:
        return math.log(mean / (1 - mean))
    if config.pseudo_huber:
        g, h = derivatives(config, np.zeros(len(labels)), labels / config.huber_slope)
        return float(-g.sum() / h.sum()) * config.huber_slope
    return math.log(mean) if config.power else mean


@dataclass(frozen=True)
class PlainEnsemble:
    """A training of the twin: its trees, margins of all rows after each tree, float64[T, n], and the base margin."""

    data: PlainData
    config: TrainConfig
    trees: list[PlainTree]
    margins: np.ndarray
    base: float

    def predict_margin(self, features: np.ndarray) -> np.ndarray:
        """Rows of the whole table, float[m, d] -> margins by the thresholds of the trees, float64[m]."""
        features = features.astype(np.float32)
        out = np.full(len(features), self.base)
        candidates, layout = self.data.candidates, self.data.layout
        # What goes right of sets, by candidate.
        rights = np.zeros((len(candidates.thresholds), layout.feature_count), bool)
        for number in {int(w) for tree in self.trees for w in tree.winner}:
            if found := candidates.cut_of(number):
                rights[number, slice(*layout.sets[found[0]])] = candidates.orders[found[0]][:, found[1]] == 0
        for tree in self.trees:
            node = np.zeros(len(features), np.int64)
            for _ in range(self.config.max_depth):
                winner = tree.winner[node]
                null = winner == len(candidates.thresholds)
                safe = np.where(null, 0, winner)
                value = features[np.arange(len(features)), candidates.features[safe]]
                in_set = (rights[safe] & (features == 1)).any(axis=1)
                below = np.where(rights[safe].any(axis=1), ~in_set, value < candidates.thresholds[safe])
                cut = np.where(np.isnan(value), candidates.missing_left[safe], below)
                left = np.where(null, (node > 0) & (node % 2 == 1), cut)
                node = 2 * node + np.where(left, 1, 2)
            out += tree.leaves[node - len(tree.winner)]
        return out


def train(
    tables: tuple[np.ndarray, np.ndarray],
    labels: tuple[np.ndarray, ...],
    config: TrainConfig,
    rng: np.random.Generator,
    names: Names | None = None,
) -> PlainEnsemble:
    """Train the twin on two classes or on numbers, with all features and without weights.

    Several classes and samples of features are not supported. Gradients are float64, rounded stochastically to the
    histogram scale.
    """
    assert config.classes == config.colsample_bytree == 1, "what the docstring says"
    data = PlainData.of(tables, config, names)
    y = np.concatenate(labels).astype(float)
    base = config.base_margin if config.base_score is not None else _base_margin(config, y)
    scale = 1.0
    if config.squared:
        scale = math.ldexp(1.0, ceil_log2(math.sqrt(((y - base) ** 2).mean())))
    if config.pseudo_huber:
        scale = config.huber_slope
    largest = float(np.abs(y).max())
    unit = PublicFacts("", (), data.layout, math.ldexp(1.0, ceil_log2(largest)) if largest else 1.0, power=config.power)
    numerics = plan_numerics(config, Size(data.rows, margin_unit=scale, hessian_unit=unit.power_unit))
    margin = np.full(len(y), base / scale)
    trees, margins = list[PlainTree](), list[np.ndarray]()
    for _ in range(config.n_estimators):
        g, h = (x / unit.power_unit for x in derivatives(config, margin, y / scale))
        rows = [np.ones(len(y)) / (1 << numerics.histogram_scale)] if config.min_child_samples > 1 else []
        exact = np.stack([g, h, *rows]) * (1 << numerics.histogram_scale)
        values = np.floor(exact + rng.random(exact.shape) * (exact != np.round(exact))).astype(np.int64)
        if not trees:
            data = data.ordered(numerics, values)
        for _ in range(config.num_parallel_tree):
            coins = draw_coins(numerics, config.max_depth, int(data.layout.useful.sum()), rng)
            kept = rng.random(len(y)) < config.subsample if config.subsample < 1 else True
            tree = grow(data, config, numerics, np.where(kept, values, 0), coins)
            margin = margin + tree.leaves[tree.leaf]
            trees.append(tree)
            margins.append(margin * scale)
    scaled = [PlainTree(t.winner, t.leaves * scale, t.leaf) for t in trees]
    return PlainEnsemble(data, config, scaled, np.array(margins), base)
