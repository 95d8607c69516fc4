"""The bins of a training, cut at each party's private edges or at joint edges, which become public.

Functionality  own rows -> own Bins. The K joint edges of a feature are the lowest float32 and K - 1 inverted-cdf
               quantiles of both parties' values. If some are equal, the remaining edges are quantiles of the values
               that are not edges yet, until K edges are found or no value is left. A feature with fewer than K distinct
               values thus has an edge at each of them, and its last edge is repeated
Security       as mpc/comparison/pooled_quantiles.py: at most K - 1 values of each feature, rounded to `edge_bits` bits,
               become public. They are values of rows: a party that does not have such a value knows that the other has
               it
Weights        a row counts by its weight, as in the sketch of XGBoost's `hist`, in units of 2^-20 of the power of two
               above the largest weight; if owners contribute rows, each row counts once. Missing values do not count
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mpc.comparison.pooled_quantiles import PooledColumn, masses_of, pooled_quantiles
from mpc.errors import DataError, RangeError
from mpc.party import Party
from mpc.planning import planned
from secure_tree.data.bins import ORDER_BITS, Bins, order_key, order_value
from secure_tree.data.own_rows import OwnRows, Part
from secure_tree.data.table import Table
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.layout import LEAST_FLOAT, known_edges

log = logging.getLogger("sharewood")
EDGES = "edges of the bins: quantiles of the rows of both parties"
WEIGHT_SCALE = 20
# With fewer rows per edge, a warning says how much becomes public.
FEW_ROWS = 8
# Halves of counts are words of these many bits.
HALF_BITS = 32

# Names under which a part keeps its values, and those of its values that are not edges yet.
_VALUES, _OTHERS = "keys and masses", "keys and masses without edges"

# Keys and masses of the non-missing values of a feature, both int64[n].
Values = tuple[np.ndarray, np.ndarray]
# {feature: keys that are edges already}
Known = Mapping[int, np.ndarray]
# (known, rank, parts, both int64[f, k]) -> quantiles of the other keys of the features in `known`, int64[f, k].
Quantiles = Callable[[Known, np.ndarray, np.ndarray], np.ndarray]


def cut_bins(party: Party, context: TrainingContext, own: OwnRows) -> Bins:
    """Own rows -> own bins. Stage: setup."""
    layout = context.layout
    if not layout.joint:
        return own.private_bins(layout, party.rank).with_indicators(layout.own_indicators(party.rank))
    collected = own.contributed.edges if own.contributed else None
    edges = find_joint(party, context, own) if collected is None else collected
    if edges.shape[1] != layout.sizes[0]:
        raise DataError(
            f"contributions were collected with {edges.shape[1]} edges per feature, and {layout.row_count} rows have "
            f"{layout.sizes[0]}: collect again with a smaller max_bin"
        )
    return own.with_features(Bins(np.zeros((0, len(edges)), np.float32), edges, edges))


def find_joint(party: Party, context: TrainingContext, own: OwnRows) -> np.ndarray:
    """Return joint edges, float32[d, K]. A party adds up the masses of its parts. Stage: setup."""
    config, facts, layout = context.config, context.facts, context.layout
    if config.searched(facts.names) and layout.row_count < FEW_ROWS * layout.sizes[0]:
        log.warning(
            "joint edges make up to %d values of each feature public, from only %d rows of both parties: set a smaller "
            "max_bin, or private edges",
            layout.sizes[0] - 1,
            layout.row_count,
        )
    bits = _mass_bits(facts) + layout.sizes[0].bit_length() + 1
    if own.contributed and bits > HALF_BITS:
        raise RangeError(
            f"contributed rows must be fewer than 2^{HALF_BITS - 1} over max_bin, got {layout.row_count} rows"
        )

    def quantiles(known: Known, rank: np.ndarray, parts: np.ndarray) -> np.ndarray:
        def up_to(keys: np.ndarray) -> np.ndarray:
            masses: np.ndarray = np.sum(own.each(_masses_up_to, facts, config.edge_bits, known, keys), axis=0)
            return masses + own.contributed.masses_up_to(known, keys) if own.contributed else masses

        def program(p: Party) -> np.ndarray:
            def of_own(keys: np.ndarray) -> np.ndarray:
                # A rehearsal asks no rows.
                return p.audit.once(lambda: up_to(keys) if p is party else np.zeros_like(keys))

            return pooled_quantiles(p, of_own, rank, parts, config.edge_bits, bits, EDGES)

        return planned(party, "setup", program)

    known = known_edges(config, facts.names, layout.sizes[0])
    edges = joint_edges(quantiles, layout.feature_count, layout.sizes[0], config.edge_bits, known)
    own.each(_forget)
    party.revealed[:] = dict.fromkeys(party.revealed)
    return edges


def _masses_up_to(part: Part, facts: PublicFacts, bits: int, known: Known, keys: np.ndarray) -> np.ndarray:
    """Return the mass of a part's keys up to each of `keys`, without the known ones, int64[f, k]."""
    if _VALUES not in part.kept:
        part.kept[_VALUES] = columns(part.table.features, masses(facts, part.table), bits)
    asked = {f: tuple(edges.tolist()) for f, edges in known.items()}
    before, others = part.kept.get(_OTHERS, (None, []))
    if before != asked:
        others = without(part.kept[_VALUES], known)
        part.kept[_OTHERS] = asked, others
    return masses_of(others)(keys)


def _forget(part: Part) -> None:
    part.kept.clear()


def masses(facts: PublicFacts, table: Table) -> np.ndarray:
    """Return the mass of each of a party's rows, int64[n]."""
    if facts.weight_scale is None or facts.owners:
        return np.ones(len(table.features), np.int64)
    weights = np.ones(len(table.features)) if table.weights is None else table.weights
    return np.round(weights * (2.0**WEIGHT_SCALE / facts.weight_scale)).astype(np.int64)


def _mass_bits(facts: PublicFacts) -> int:
    """Return the number of bits of the sum of all masses."""
    rows = facts.layout.row_count
    return ceil_log2(rows + 1 if facts.masses is None or facts.owners else sum(facts.masses) * 2.0**WEIGHT_SCALE + rows)


def columns(features: np.ndarray, masses: np.ndarray, bits: int) -> list[Values]:
    """features float32[n, d], masses int64[n] -> for each feature, leading bits of its values' keys, and masses."""
    present = ~np.isnan(features)
    keys = order_key(features) - 1 >> ORDER_BITS - bits
    return [(keys[there, f], masses[there]) for f, there in enumerate(present.T)]


def without(values: Sequence[Values], known: Known) -> list[PooledColumn]:
    """Return the values of the features in `known`, without those whose keys are known."""
    others = [(*values[f], ~np.isin(values[f][0], keys)) for f, keys in known.items()]
    return [PooledColumn.of(keys[these], masses[these]) for keys, masses, these in others]


def joint_edges(
    quantiles: Quantiles, features: int, size: int, bits: int, fixed: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Return joint edges of d features, float32[d, K], from quantiles of keys with `bits` bits.

    Edges that are `fixed` are not searched for. Which features need another pass follows from the
    edges found so far, which are public.
    """
    known = [np.zeros(0, np.int64)] * features
    asked = [f for f in range(features) if f not in fixed]
    while asked:
        free = np.array([size - 1 - known[f].size for f in asked])
        rank = np.minimum(np.arange(1, free.max() + 1), free[:, None])
        parts = np.repeat(free[:, None] + 1, rank.shape[1], axis=1)
        before = {f: known[f] for f in asked}
        for f, found in zip(asked, quantiles(before, rank, parts), strict=True):
            # A quantile of 0 stands for no value: no value has key 0.
            known[f] = np.union1d(known[f], found[found > 0])
        asked = [f for f, keys in before.items() if keys.size < known[f].size < size - 1]
    edges = [
        order_value(np.maximum(np.append(0, keys) + 1, order_key(LEAST_FLOAT)))
        for keys in (k << ORDER_BITS - bits for k in known)
    ]
    found = [np.pad(line, (0, size - line.size), mode="edge") for line in edges]
    return np.stack([fixed.get(f, line) for f, line in enumerate(found)])
