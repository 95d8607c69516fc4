"""A model in and out of shares: revealed to one party, or a plain model of one party shared.

Full binary trees, node i's children 2i + 1 and 2i + 2 in level order; x < threshold goes left, on float32. A node
without a split sends every row right, or left where it is a left child (secure_tree/tree.py). Where there are several
classes, trees come round by round, one a class.

Rows of a model that was brought in are predicted by thresholds. What is revealed, to the owner of a row alone, is its
margin, or one a class: probabilities and the class follow from them there.
"""

from __future__ import annotations

import reprlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError, RangeError
from mpc.party import Party
from mpc.shares import AShare, BShare, public_ring
from mpc.tracing import Trace
from secure_tree.binning import order_key, order_value
from secure_tree.boost import Ensemble
from secure_tree.config import Missing, Objective, TrainConfig
from secure_tree.layout import Facts, Layout
from secure_tree.messages import Hexadecimal, Message, Names, Text, swap
from secure_tree.model import SharedModel
from secure_tree.numerics import LEAF_SCALE
from secure_tree.session import agree_on_reveal, check_declared, pairing_id
from secure_tree.storage import Arrays, read_arrays, reading

NO_SPLIT = -1
FORMAT = 5
_FILE = f"revealed model file of format {FORMAT}"
_ARRAYS = ("features", "thresholds", "missing_left", "leaves", "gains", "covers")
WHAT = "the model: features, thresholds, ways of missing values, base score, leaf weights, gains and sums of hessians"
DEEPEST = 8
LARGEST = 2.0**30


@dataclass(frozen=True)
class PlainModel:
    """T full trees of m nodes, in the clear; under multi:ova round by round, a tree for each of `classes`.

    features int64[T, m] (NO_SPLIT where there is none), thresholds float32[T, m], missing_left bool[T, m], leaves
    float64[T, 2^depth] added to `base_margins`, one a class; `names` of the features, XGBoost's `objective`. gains
    float64[T, m] of the splits and covers float64[T, 2 m + 1], sums of hessians: 0 for a model that was brought in.
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

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """The model as plain facts and arrays."""
        facts = {"format": FORMAT, "revealed": True, "objective": self.objective}
        lists = {"names": list(self.names), "base_margins": list(self.base_margins)}
        return {**facts, **lists}, {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def load(cls, path: str | Path) -> PlainModel:
        """What `write_arrays(path, *model.pack())` wrote. Raises DataError."""
        facts, arrays = read_arrays(path, _FILE)
        with reading(path, _FILE):
            if facts["revealed"] is not True or facts["format"] != FORMAT:
                raise DataError(f"{path}: revealed model format {facts['format']}, this Sharewood reads {FORMAT}")
            names, base_margins = tuple(facts["names"]), tuple(facts["base_margins"])
            return cls(facts["objective"], names, base_margins, *(arrays[n] for n in _ARRAYS))


class PlainFacts(Message):
    """What is public of a plain model that is shared."""

    objective: Objective
    names: Names
    classes: Annotated[int, Field(ge=1, le=1000)]
    rounds: Annotated[int, Field(ge=1, le=10_000)]
    depth: Annotated[int, Field(ge=1, le=DEEPEST)]


class ShareFacts(Message):
    """Whether this party brings a model, and which features of rows to predict may lack."""

    token: Hexadecimal
    missing: Literal["none", "all"] | list[Text]
    model: PlainFacts | None


def reveal_model(party: Party, model: SharedModel, to: int) -> PlainModel | None:
    """Open both halves to party `to` alone; None at the other. Raises ConfigError, DataError."""
    agree_on_reveal(party, model, to)

    def program(party: Party) -> list[np.ndarray | None]:
        e = model.ensemble
        sent_right = e.chosen[..., len(model.facts.names) :].sum(axis=-1)
        parts: tuple[AShare | BShare, ...] = (e.features, e.null, e.thresholds, sent_right, e.leaves, e.base)
        if e.worth:
            parts = (*parts, e.worth.gains, e.worth.covers)
        return [party.reveal(x, to=to, what=WHAT) for x in parts]

    with party.stage("reveal"):
        trace = Trace(party)
        program(trace.party)
        party.randomness.provide([(trace.cut(), 1)])
        opened = [part for part in program(party) if part is not None]
    party.revealed[:] = dict.fromkeys(party.revealed)
    if not opened:
        return None
    one_hot, null, keys, right, leaves, base, *worth = opened
    features = np.where(null.astype(bool), NO_SPLIT, one_hot.argmax(axis=-1))
    thresholds = order_value(np.where(null.astype(bool), order_key(np.zeros(1)), keys))
    missing_left = np.isin(features, model.facts.layout.missing) & (right == 0)
    gains, covers = _worth(model, worth)
    unit = model.facts.margin_unit / (1 << LEAF_SCALE)
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
    )


def _worth(model: SharedModel, opened: list[np.ndarray]) -> list[np.ndarray]:
    """Opened gains and covers as numbers; 0 where the model has none."""
    worth, (trees, m) = model.ensemble.worth, model.ensemble.thresholds.shape
    if worth is None:
        return [np.zeros((trees, m)), np.zeros((trees, 2 * m + 1))]
    kinds = zip(opened, (worth.gains, worth.covers), model.facts.worth_units, strict=True)
    return [values * 2.0**-share.scale * unit for values, share, unit in kinds]


def share_model(party: Party, plain: PlainModel | None, missing: Missing = "none") -> SharedModel:
    """A model that one party holds (the other passes None) -> each party's half, for prediction by thresholds.

    `missing`: the features that rows to predict may lack, as in TrainConfig, equal at both parties.
    Public: objective, feature names, number of classes, number and depth of the trees. Raises ConfigError, DataError,
    RangeError.
    """
    mine = ShareFacts.of(
        token=secrets.token_hex(16),
        missing=list(missing) if isinstance(missing, tuple) else missing,
        model=None if plain is None else _facts(plain),
    )
    theirs = swap(party, "share.facts", mine)
    if (mine.model is None) == (theirs.model is None):
        raise ConfigError(
            f"{'neither party brings' if plain is None else 'both parties bring'} a model to share: one does"
        )
    if theirs.missing != mine.missing:
        raise ConfigError(
            f"the parties disagree on missing: {mine.missing} here, {reprlib.repr(theirs.missing)} at the other"
        )
    owner = party.rank if plain is not None else 1 - party.rank
    public = mine.model or theirs.model
    assert public is not None, "one of them brings it"
    config = TrainConfig.of(
        objective=public.objective,
        num_class=public.classes if public.classes > 1 else None,
        n_estimators=public.rounds,
        max_depth=public.depth,
        base_score={"reg:squarederror": 0.0, "count:poisson": 1.0}.get(public.objective, 0.5),
        missing=missing,
    )
    names = tuple(public.names)
    check_declared(config, (names,))
    optional = tuple(f for f, name in enumerate(names) if config.may_miss(name))
    parts = [None] * 3 if plain is None else _words(plain, optional)
    with party.stage("share"):
        thresholds, chosen, leaves = (party.share(words, owner) for words in parts)
    d, m, trees = len(names), config.nodes, config.trees
    expected = (trees, m), (trees, m, d + len(optional)), (trees, m + 1)
    if (thresholds.shape, chosen.shape, leaves.shape) != expected:
        raise DataError("the shared model does not have the shape that was announced")
    # The least significant bits of an additive sharing are an xor sharing of the least significant bit.
    features = BShare((chosen.words[..., :d] & np.uint64(1)).astype(np.uint8), party.rank)
    nowhere = BShare(np.zeros((trees, m, d, 0), np.uint8), party.rank)
    base = public_ring(np.zeros(config.classes, np.int64), party.rank)
    ensemble = Ensemble([nowhere, nowhere], features, ~features.parity(axis=-1), thresholds, chosen, leaves, base)
    tokens = (mine.token, theirs.token) if party.rank == 0 else (theirs.token, mine.token)
    layout = Layout("horizontal", (0, 0), (d, d), (0, 0), (optional, optional))
    shared = Facts(pairing_id(*tokens), names, layout, 1.0)
    return SharedModel(party.rank, config, shared, np.zeros((d, 0), np.float32), ensemble)


def _facts(plain: PlainModel) -> dict:
    trees, leaves = plain.leaves.shape
    depth, classes = leaves.bit_length() - 1, len(plain.base_margins)
    if depth > DEEPEST:
        raise DataError(f"the model has trees of depth {depth}: at most {DEEPEST} can be shared")
    if np.abs(plain.leaves).max(axis=1).sum() + np.abs(plain.base_margins).max() > LARGEST:
        raise RangeError("the model's margins may go beyond 2^30")
    known = {"objective": plain.objective, "names": list(plain.names), "classes": classes}
    return {**known, "rounds": trees // classes, "depth": depth}


def _words(plain: PlainModel, optional: tuple[int, ...]) -> list[np.ndarray]:
    """Thresholds' keys [T, m], `Ensemble.chosen` [T, m, d + o], leaves [T, 2^depth] with base margins in round 0's."""
    split = plain.features != NO_SPLIT
    keys = np.where(split, order_key(plain.thresholds), 0)
    one_hot = plain.features[..., None] == np.arange(len(plain.names))
    missing_right = one_hot[..., list(optional)] & ~plain.missing_left[..., None]
    leaves = plain.leaves.copy()
    leaves[: len(plain.base_margins)] += np.array(plain.base_margins)[:, None]
    chosen = np.concatenate([one_hot, missing_right], axis=-1).astype(np.int64)
    return [keys, chosen, np.round(leaves * (1 << LEAF_SCALE)).astype(np.int64)]
