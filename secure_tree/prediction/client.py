"""What a client does who is no party: it divides rows into halves, and adds up the halves of their margins.

Functionality  a client's rows -> their margins, to the client only; the parties learn the number of rows
Messages       party -> client: what is public about the model; client -> party: a half of the keys of the rows;
               party -> client: its half of the margins, released by `Party.release`
Cost           8 (d + o) bytes per row and party, for d features of which o may be missing, and 8 per class back
Security       parties that do not collude: each half of a row is uniform by itself. The halves of a margin are uniform
               but for their sum. A client may send any words: shared_router (predict.py) says what that can do

Clients need numpy only: nothing that is imported here may import more.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mpc.errors import DataError, ProtocolDesync
from secure_tree.data.bins import keys_of
from secure_tree.functions import links
from secure_tree.public.names import columns_behind, indicator
from secure_tree.public.objectives import TRAITS

if TYPE_CHECKING:
    from secure_tree.owners.lines import Line
    from secure_tree.public.config import TrainConfig
    from secure_tree.public.context import PublicFacts

ID_BYTES = 16
_MOST_CLASSES = 1000
_KINDS = {"model": str, "classes": int, "logistic": bool, "counts": bool, "unit": float, "most": int}
# An array [n, d] of features in the order of the model, or columns by name, as in a DataFrame.
Rows = Any


@dataclass(frozen=True)
class Offer:
    """What both parties say about a model to clients.

    model: the id of its training. names: of the features. missing: the features that may be missing. classes: margins
    per row. unit: the value of a margin of 1. most: rows of the largest request.
    """

    model: str
    names: tuple[str, ...]
    missing: tuple[int, ...]
    objective: str
    classes: int
    logistic: bool
    counts: bool
    unit: float
    most: int

    @classmethod
    def made(cls, config: TrainConfig, facts: PublicFacts, scale: int, most: int) -> Self:
        """Return a party's offer of its model, whose margins are in units of 2^-scale."""
        kind = config.objective, config.classes, config.logistic, config.counts
        return cls(facts.pairing, facts.names, facts.layout.missing, *kind, facts.margin_unit / (1 << scale), most)

    @classmethod
    def agreed(cls, told: Sequence[Any], parties: Sequence[str]) -> Self:
        """Return what both parties have said. Raises DataError unless it is the same, and an offer."""
        first, second = parties
        if told[0] != told[1]:
            raise DataError(f"{first} and {second} do not serve the same model: nothing was sent to them")
        try:
            names, missing = tuple(map(str, told[0]["names"])), tuple(map(int, told[0]["missing"]))
            offer = cls(**{**told[0], "names": names, "missing": missing})
            sound = all(type(getattr(offer, name)) is kind for name, kind in _KINDS.items())
            sound = sound and offer.objective in TRAITS and math.isfinite(offer.unit)
            sound = sound and 1 <= offer.classes <= _MOST_CLASSES and offer.most >= 1
            sound = sound and all(0 <= f < len(names) for f in missing)
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError(f"{first} and {second} must say which model they serve, and sent something else")
        return offer

    def facts(self) -> dict[str, Any]:
        """Return plain values, as they are sent."""
        return {**asdict(self), "names": list(self.names), "missing": list(self.missing)}

    @property
    def width(self) -> int:
        """The number of words of a row."""
        return len(self.names) + len(self.missing)

    def keys(self, rows: Rows) -> np.ndarray:
        """Return the keys of rows that both parties multiply, uint64[n, d + o]. Raises DataError."""
        if hasattr(rows, "keys"):
            rows = self._of_columns(rows)
        try:
            with np.errstate(over="ignore"):
                features = np.asarray(rows, np.float64).astype(np.float32)
        except (TypeError, ValueError):
            raise DataError("rows must be numbers, or columns by name") from None
        if features.ndim != 2 or features.shape[1] != len(self.names):
            raise DataError(f"rows must have the model's {len(self.names)} features, got shape {features.shape}")
        allowed = np.isnan(features) & np.isin(np.arange(len(self.names)), self.missing)
        if not (np.isfinite(features) | allowed).all():
            row, f = np.argwhere(~(np.isfinite(features) | allowed))[0]
            raise DataError(f"column {self.names[f]!r}, row {row}: value is missing, infinite, or beyond float32")
        return keys_of(features, self.missing)

    def check_named(self) -> None:
        """Raise DataError unless columns can be told by name: parties may have equal names by columns."""
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise DataError(
                f"the model has several features {twice[0]!r}: pass an array in its order, not columns by name"
            )

    def _of_columns(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Columns by name -> features, float64[n, d]. A text column becomes indicators of the model's categories."""
        self.check_named()
        features = {}
        for name, categories in columns_behind(self.names, list(columns.keys())).items():
            if name not in columns:
                raise DataError(f"rows have no column {name!r}, which the model needs")
            values = np.asarray(columns[name])
            if not categories:
                features[name] = values
                continue
            absent = np.array([value is None or value != value for value in values], bool)
            text = values.astype(str)
            if strange := sorted(set(text[~absent].tolist()) - set(categories)):
                raise DataError(f"column {name!r}: value must be one of {', '.join(categories)}, got {strange[0]!r}")
            features |= {indicator(name, c): np.where(absent, np.nan, text == c) for c in categories}
        try:
            return np.stack([np.asarray(features[name], np.float64) for name in self.names], axis=1)
        except ValueError:
            raise DataError("columns must be numbers or categories, and have the same length") from None

    def margins(self, halves: Sequence[np.ndarray]) -> np.ndarray:
        """Two halves, uint64[classes, n] -> margins, float64[n] or, for several classes, [n, classes]."""
        own = (halves[0] + halves[1]).astype(np.int64) * self.unit
        return own.T if self.classes > 1 else own[0]

    def probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Return the probabilities of classes 0, 1, ..., float64[n, classes]. Raises DataError for a regression."""
        if not self.logistic:
            raise DataError(f"a model of {self.objective} predicts numbers: ask for predict")
        return links.probabilities(self, margins)

    def predictions(self, margins: np.ndarray) -> np.ndarray:
        """Return the most probable classes, int64[n], or numbers, float64[n]."""
        return links.classes(margins) if self.logistic else links.values(self, margins)


def divide(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two halves of words, each uniform by itself."""
    first = np.frombuffer(os.urandom(keys.nbytes), np.uint64).reshape(keys.shape)
    return first, keys - first


def is_id(id: object) -> bool:
    """Return whether this is an id, by which both parties find the halves of a request."""
    return isinstance(id, str) and re.fullmatch("[0-9a-f]{32}", id) is not None


def checked_half(half: Any, shape: tuple[int, ...], sender: str) -> np.ndarray:
    """Return a half of words that has this shape. Raises ProtocolDesync, which names the sender."""
    if not isinstance(half, np.ndarray) or half.dtype != np.uint64 or half.shape != shape:
        raise ProtocolDesync(f"{sender}: a half must have {' x '.join(map(str, shape))} words of 64 bits")
    return half


def ask(lines: Sequence[Line], rows: Rows) -> np.ndarray:
    """Ask both parties, over lines to them, for probabilities of classes or for numbers. Raises DataError."""
    parties = [line.peer for line in lines]
    offer = Offer.agreed([line.receive("client.offer") for line in lines], parties)
    keys, id = offer.keys(rows), os.urandom(ID_BYTES).hex()
    for line, half in zip(lines, divide(keys), strict=True):
        line.send("client.rows", {"id": id, "half": half})
    shape = offer.classes, len(keys)
    limit = 8 * math.prod(shape) + (1 << 12)
    halves = [checked_half(line.receive("client.margins", limit), shape, line.peer) for line in lines]
    margins = offer.margins(halves)
    return offer.probabilities(margins) if offer.logistic else offer.predictions(margins)
