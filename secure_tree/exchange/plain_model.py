"""Models in and out of shares: a shared model is revealed to one party, or one party's plain model is shared.

Trees are full and binary, in level order: the children of node i are 2i + 1 and 2i + 2. A row goes left if
x < threshold in float32. A node without a split sends every row left if it is a left child, otherwise right
(secure_tree/tree/grow.py). For several classes, trees take turns, one per class. A model that was not trained here
may have deeper trees: each then has its own shape, which is shared as well.

Rows are predicted by thresholds with a model that was shared. Only the margins of a row, one per class, are revealed to
its owner, who computes probabilities and the class from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError, RangeError
from mpc.host.encryption import FileKey
from mpc.party import Party
from mpc.planning import planned
from mpc.rings import Z8
from mpc.shares import AShare, BShare, public_ring
from mpc.sharing import share
from secure_tree.agreement.models import MOST_PATHS, PlainFacts, agree_on_reveal, agree_on_sharing
from secure_tree.agreement.training import check_declared
from secure_tree.data.bins import order_key, order_value
from secure_tree.data.magnitudes import SMALLEST_LABEL
from secure_tree.model.ensemble import Ensemble, NodeStatistics, left_children
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import Arrays, read_arrays, reading, write_arrays
from secure_tree.public.config import DEEPEST, Missing, TrainConfig
from secure_tree.public.context import PublicFacts
from secure_tree.public.exact import ceil_log2
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import TRAITS
from secure_tree.tree.thresholds import ONE, ZERO, to_the_left

NO_SPLIT = -1
FORMAT = 8
_FILE = f"revealed model file of format {FORMAT}"
_ROLE = "revealed model"
_ARRAYS = ("features", "thresholds", "missing_left", "leaves", "gains", "covers")
_SOMETIMES = ("paths", "rights")
WHAT = "the model: features, thresholds, ways of missing values, base score, leaf weights, gains and sums of hessians"
WHAT_SETS = "the sets of categories that go right"
# A margin of a shared model is at most 2^LARGEST of its unit.
LARGEST = 30
# Margins of logarithms and log-odds above this have no reasons.
LARGEST_EXPLAINED = 2.0**13
COVER_BITS = 29


@dataclass(frozen=True)
class PlainModel:
    """A model in the clear: T trees of m nodes, by rounds; several classes take turns, one tree each.

    Attributes
    ----------
    objective : str
        XGBoost's name of the objective.
    names : tuple of str
        The names of the d features.
    base_margins : tuple of float
        The margin before the first tree, one per class.
    features : int64[T, m]
        The feature of each split, or NO_SPLIT.
    thresholds : float32[T, m]
        The threshold of each split.
    missing_left : bool[T, m]
        Whether a missing value goes left.
    leaves : float64[T, m + 1]
        The leaf weights, which are added to the base margin.
    gains : float64[T, m]
        The gains of the splits; 0 for a model that was not trained here.
    covers : float64[T, 2 m + 1]
        Sums of hessians of nodes, then of leaves; 0 for a model that was brought in without them.
    paths : int16[T, m + 1, m + 1] or None
        Of trees that are not full: for each leaf, -1 at the nodes where its path goes left and 1 where it goes right,
        then the number of its turns to the left. Where left is 1 and right is 0, the sum of the products is the number
        of nodes at which a row leaves the path.
    parallel : int
        Trees per round and class.
    sets : tuple of (int, int)
        Of each column that is split by sets of categories, the first of its indicators among the features, and the one
        after the last. A split on the column has the first one as its feature, and no meaningful threshold.
    rights : bool[T, m, d] or None
        If there are such columns: the indicators of the categories that a split on one sends right.
    """

    objective: str
    names: tuple[str, ...]
    base_margins: tuple[float, ...]
    features: np.ndarray
    thresholds: np.ndarray
    missing_left: np.ndarray
    leaves: np.ndarray
    gains: np.ndarray
    covers: np.ndarray
    paths: np.ndarray | None = None
    sets: tuple[tuple[int, int], ...] = ()
    rights: np.ndarray | None = None
    parallel: int = field(default=1, kw_only=True)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Return the model as plain facts and arrays."""
        facts = {"format": FORMAT, "revealed": True, "objective": self.objective, "parallel": self.parallel}
        lists = {"names": list(self.names), "base_margins": list(self.base_margins), "sets": list(map(list, self.sets))}
        more = {name: array for name in _SOMETIMES if (array := getattr(self, name)) is not None}
        return {**facts, **lists}, {name: getattr(self, name) for name in _ARRAYS} | more

    def save(self, path: str | Path, key: FileKey | None = None) -> None:
        """Write the model atomically, encrypted if there is a key. Raises DataError."""
        write_arrays(path, *self.pack(), key, _ROLE)

    @classmethod
    def load(cls, path: str | Path, key: FileKey | None = None) -> PlainModel:
        """Read what `save` wrote. Raises DataError."""
        facts, arrays = read_arrays(path, _FILE, key, _ROLE)
        with reading(path, _FILE):
            if facts["revealed"] is not True or facts["format"] != FORMAT:
                raise DataError(f"{path}: revealed model format {facts['format']}, this Sharewood reads {FORMAT}")
            names, base_margins = tuple(facts["names"]), tuple(facts["base_margins"])
            parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
            parts |= {name: arrays.get(name) for name in _SOMETIMES}
            sets = tuple((int(first), int(end)) for first, end in facts["sets"])
            return cls(facts["objective"], names, base_margins, **parts, sets=sets, parallel=int(facts["parallel"]))


def reveal_model(party: Party, model: SharedModel, to: int) -> PlainModel | None:
    """Reveal the model to party `to`. Return None at the other party. Raises ConfigError, DataError."""
    agree_on_reveal(party, model, to)
    if model.ensemble.paths is not None:
        raise ConfigError(f"a model with trees deeper than {DEEPEST} cannot be revealed: ask the party that brought it")

    layout = model.facts.layout

    def program(party: Party) -> list[np.ndarray | None]:
        e = model.ensemble
        sent_right = e.chosen[..., len(model.facts.names) :].sum(axis=-1)
        parts: tuple[AShare | BShare, ...] = (e.features, e.null, e.thresholds, sent_right, e.leaves, e.base)
        if e.statistics and e.statistics.gains is not None:
            parts = (*parts, e.statistics.gains, e.statistics.covers)
        revealed = [party.reveal(x, to=to, what=WHAT, units=True) for x in parts]
        if e.factors is not None:
            revealed.insert(0, party.reveal(e.factors[..., layout.in_sets], to=to, what=WHAT_SETS))
        return revealed

    opened = [part for part in planned(party, "reveal", program) if part is not None]
    party.revealed[:] = dict.fromkeys(party.revealed)
    if not opened:
        return None
    rights = None
    if layout.sets:
        rights = np.zeros((*opened[0].shape[:2], layout.feature_count), bool)
        rights[..., layout.in_sets] = opened.pop(0) == 1
    one_hot, null, keys, right, leaves, base, *statistics = opened
    features = np.where(null.astype(bool), NO_SPLIT, one_hot.argmax(axis=-1))
    without = null.astype(bool) | np.isin(features, layout.in_sets)
    thresholds = order_value(np.where(without, order_key(np.zeros(1)), keys))
    missing_left = np.isin(features, layout.missing) & (right == 0)
    gains, covers = _statistics(model, statistics)
    unit = model.facts.margin_unit / (1 << MARGIN_SCALE)
    return PlainModel(
        objective=model.config.objective,
        names=model.facts.names,
        base_margins=tuple((base * unit).tolist()),
        features=features,
        thresholds=thresholds,
        missing_left=missing_left,
        leaves=leaves * unit,
        gains=np.where(features == NO_SPLIT, 0, gains),
        covers=covers,
        parallel=model.config.num_parallel_tree,
        sets=layout.sets,
        rights=rights,
    )


def _statistics(model: SharedModel, opened: list[np.ndarray]) -> list[np.ndarray]:
    """Convert opened gains and covers to numbers; 0 if the model has none."""
    statistics, (trees, m) = model.ensemble.statistics, model.ensemble.thresholds.shape
    if statistics is None or statistics.gains is None:
        return [np.zeros((trees, m)), np.zeros((trees, 2 * m + 1))]
    kinds = zip(opened, (statistics.gains, statistics.covers), model.facts.statistics_units, strict=True)
    return [values * 2.0**-share.scale * unit for values, share, unit in kinds]


def share_model(party: Party, plain: PlainModel | None, missing: Missing = "none") -> SharedModel:
    """Share the plain model of one party, for prediction by thresholds. Both parties must call this at the same time.

    Public are the objective, the feature names, the numbers of classes, rounds, trees per round and levels of the
    trees, or if one has more than DEEPEST levels a power of two above the number of leaves of the largest; and for
    numbers a power of two above the largest margin. Margins are rounded to 2^-50 of it, for other objectives to 2^-20.

    Parameters
    ----------
    party : Party
        The connection to the other party.
    plain : PlainModel or None
        The model at the party that brings it, None at the other.
    missing : "none", "all" or tuple of str, default "none"
        The features that may be missing in rows to predict, as in TrainConfig. Must be equal at both parties.

    Returns
    -------
    SharedModel
        This party's half.

    Raises
    ------
    ConfigError
        If not exactly one party brings a model, or if `missing` differs between the parties.
    DataError
        If the model cannot be shared.
    RangeError
        If margins of the model may exceed 2^30, for classes and counts.
    """
    public, pairing = agree_on_sharing(party, None if plain is None else _facts(plain), missing)
    owner = party.rank if plain is not None else 1 - party.rank
    config = TrainConfig.of(
        objective=public.objective,
        num_class=public.classes if public.classes > 1 else None,
        n_estimators=public.rounds,
        num_parallel_tree=public.parallel,
        max_depth=min(public.depth, DEEPEST),
        base_score={"identity": 0.0, "softmax": 0.0, "log": 1.0, "logit": 0.5}[TRAITS[public.objective].link],
        missing=missing,
    )
    names = tuple(public.names)
    check_declared(config, (names,))
    optional = tuple(f for f, name in enumerate(names) if config.may_miss(name))
    unit = 2.0 ** (public.exponent - LARGEST)
    scales = (0, 0, MARGIN_SCALE, 0)[: 4 if public.covers else 3]
    parts = [None] * len(scales) if plain is None else _words(plain, optional, unit)[: len(scales)]
    with party.stage("share"):
        shared = [party.share(words, owner, scale) for words, scale in zip(parts, scales, strict=True)]
        paths = factors = None
        if public.sets:
            factors = party.share(None if plain is None else _factors(plain, optional), owner, 0)
        if public.any_shape:
            shape = config.trees, 1 << public.depth, 1 << public.depth
            words = None if plain is None else plain.paths
            paths = party.run(share.steps(party, words, owner, shape, 0, Z8))
    thresholds, chosen, leaves, *covers = shared
    d, m, trees = len(names), (1 << public.depth) - 1, config.trees
    expected = (trees, m), (trees, m, d + len(optional)), (trees, m + 1), (trees, 2 * m + 1)
    if tuple(share.shape for share in shared) != expected[: len(scales)] or (
        factors is not None and factors.shape != expected[1]
    ):
        raise DataError("the shared model does not have the shape that was announced")
    # The least significant bits of an additive sharing are an xor sharing of the least significant bit.
    features = BShare((chosen.words[..., :d] & np.uint64(1)).astype(np.uint8), party.rank)
    nowhere = BShare(np.zeros((trees, m, d, 0), np.uint8), party.rank)
    base = public_ring(np.zeros(config.classes, np.int64), party.rank, MARGIN_SCALE)
    null, statistics = ~features.parity(axis=-1), NodeStatistics(None, covers[0]) if covers else None
    ensemble = Ensemble(
        [nowhere, nowhere], features, null, thresholds, chosen, leaves, base, statistics, paths, factors
    )
    layout = Layout("horizontal", (0, 0), (d, d), (0, 0), (optional, optional), sets=tuple(public.sets))
    facts = PublicFacts(pairing, names, layout, unit)
    return SharedModel(party.rank, config, facts, np.zeros((d, 0), np.float32), ensemble)


def _facts(plain: PlainModel) -> PlainFacts:
    trees, leaves = plain.leaves.shape
    depth, classes = leaves.bit_length() - 1, len(plain.base_margins)
    if plain.paths is not None and plain.paths.size > MOST_PATHS:
        raise DataError(
            f"the model has {trees} trees of up to {leaves} leaves: of so many, at most {MOST_PATHS // leaves**2} can "
            "be shared"
        )
    largest = float(np.abs(plain.leaves).max(axis=1).sum() + np.abs(plain.base_margins).max())
    exponent = LARGEST
    if TRAITS[plain.objective].link == "identity":
        exponent = ceil_log2(max(largest, SMALLEST_LABEL))
    elif largest > 2.0**LARGEST:
        raise RangeError("the model's margins must be at most 2^30 in magnitude, but its leaves can add up to more")
    known = _has_covers(plain) and (TRAITS[plain.objective].link == "identity" or largest <= LARGEST_EXPLAINED)
    rounds, sets = trees // (classes * plain.parallel), list(plain.sets)
    shape = {"classes": classes, "rounds": rounds, "parallel": plain.parallel, "depth": depth}
    what = {"objective": plain.objective, "names": list(plain.names), "any_shape": plain.paths is not None}
    return PlainFacts.of(**what, **shape, exponent=exponent, covers=known, sets=sets)


def _has_covers(plain: PlainModel) -> bool:
    """Return whether the rows of each split are divided between its children, in full trees."""
    if plain.paths is not None:
        return False
    m, covers = plain.features.shape[1], plain.covers
    split = plain.features != NO_SPLIT
    apart = np.abs(covers[:, :m] - covers[:, 1::2] - covers[:, 2::2]) <= 1e-3 * covers[:, :m]
    return bool((covers[:, 0] > 0).all() and (covers >= 0).all() and (apart | ~split).all())


def _words(plain: PlainModel, optional: tuple[int, ...], unit: float) -> list[np.ndarray]:
    """Return keys of thresholds, [T, m], `Ensemble.chosen`, [T, m, d + o], leaves over the unit, [T, 2^depth], and sums
    of hessians, [T, 2 m + 1], of which every tree has 2^COVER_BITS.

    The base margins are added to the leaves of the first round.
    """
    split = plain.features != NO_SPLIT
    # No feature has the value 0 at a null split.
    keys = np.where(split, order_key(plain.thresholds), left_children(split.shape[1]).astype(np.int64))
    if plain.rights is not None:
        of_sets = np.isin(plain.features, [first for first, _ in plain.sets])
        keys = np.where(of_sets, (plain.rights.sum(axis=-1) - 1) * ZERO + ONE, keys)
    leaves = plain.leaves.copy()
    leaves[: len(plain.base_margins)] += np.array(plain.base_margins)[:, None]
    covers = np.rint(np.ldexp(plain.covers / np.maximum(plain.covers[:, :1], 1e-300), COVER_BITS)).astype(np.int64)
    leaf_words = np.round(leaves / unit * (1 << MARGIN_SCALE)).astype(np.int64)
    return [keys, _chosen(plain, optional), leaf_words, covers]


def _chosen(plain: PlainModel, optional: tuple[int, ...]) -> np.ndarray:
    one_hot = plain.features[..., None] == np.arange(len(plain.names))
    missing_right = one_hot[..., list(optional)] & ~plain.missing_left[..., None]
    return np.concatenate([one_hot, missing_right], axis=-1).astype(np.int64)


def _factors(plain: PlainModel, optional: tuple[int, ...]) -> np.ndarray:
    """Return `Ensemble.factors`, int64[T, m, d + o]."""
    factors = _chosen(plain, optional)
    assert plain.rights is not None, "there are columns that are split by sets"
    for first, _ in plain.sets:
        mine = plain.features == first
        factors[mine, first] = 0
        if first in optional:
            factors[mine, len(plain.names) + optional.index(first)] += to_the_left(plain.rights[mine].sum(axis=-1))
    factors[..., : len(plain.names)] += plain.rights
    return factors
