"""What an exploration has revealed to a party, and the columns that a screening keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import DataError
from mpc.host.files import read_bounded, write_bytes
from mpc.host.frames import pd
from secure_tree.data.inputs import TableLike, frame_of
from secure_tree.explore.config import ExploreConfig

# The format of a file of screened names.
FORMAT = 1


@dataclass(frozen=True)
class Screened:
    """The names of the best features, in the order of the tables: which of them is best stays secret.

    names: of each party, by rows those of both under party 0; own: which of the two are this party's.
    """

    names: tuple[tuple[str, ...], tuple[str, ...]]
    own: int
    rank: str
    of_features: int
    ledger: int | None = None

    def of(self, X: TableLike) -> TableLike:
        """Return the named columns of this party's table. Raises DataError if one is not there."""
        frame, names = frame_of(X), self.names[self.own]
        if frame is not None:
            if absent := [name for name in names if name not in map(str, frame.columns)]:
                raise DataError(f"X has no column {absent[0]!r}, which was screened")
            return frame[[c for c in frame.columns if str(c) in names]]
        array: Any = np.asarray(X)
        places = [f for f in range(array.shape[1]) if f"f{f}" in names]
        if len(places) < len(names):
            raise DataError(f"X has {array.shape[1]} columns, but not all of those screened, such as {names[-1]}")
        return array[:, places]

    def save(self, path: str | Path) -> None:
        """Write the names to a file, for `train --screened`. Raises DataError."""
        text = json.dumps({"format": FORMAT, **vars(self)}, indent=1)
        write_bytes(path, text.encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Screened:
        """Read what `save` has written. Raises DataError."""
        try:
            values = json.loads(read_bounded(path))
            if values.pop("format") != FORMAT:
                raise DataError(f"{path}: written in another format than {FORMAT}: screen again")
            first, second = ([str(name) for name in own] for own in values.pop("names"))
            return cls((tuple(first), tuple(second)), **values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path}: must be a file of screened features, as sharewood explore writes it") from None


@dataclass(frozen=True)
class Exploration:
    """What was revealed. Features are those named, in the order of the tables, as (party, name).

    run: a random id. rows: of each party, and of each owner. numbers: by statistic, float64[groups, features]. woe:
    float64[groups, features, bins], NaN where hidden. moments: missing rate, mean, deviation and vif,
    float64[features] each, NaN for categories. correlation: float64[features, features]. starts: where the bins of
    this party's features begin. own: statistics of this party's features, and quantiles: of those named, from its own
    rows only; counts: its own rows of each class. bits: what was revealed about the labels, by part; spent: before;
    budget: of this party's labels, None without. privacy: rho, epsilon and delta of the labels, None without noise.
    """

    run: str
    config: ExploreConfig
    rows: tuple[int, ...]
    screened: Screened
    features: list[tuple[int, str]]
    numbers: Mapping[str, np.ndarray]
    woe: np.ndarray | None
    moments: Mapping[str, np.ndarray]
    correlation: np.ndarray | None
    label_rate: float | None
    starts: Mapping[str, list[float] | list[str]]
    own: pd.DataFrame
    quantiles: pd.DataFrame
    counts: list[int]
    bits: Mapping[str, int]
    spent: int
    budget: float | None
    privacy: tuple[float, float, float] | None
    ledger: int | None
    revealed: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the features; with the rank of its party, if both have a feature of that name."""
        names = [name for _, name in self.features]
        return [f"{name} of party {p}" if names.count(name) > 1 else name for p, name in self.features]

    @property
    def iv(self) -> dict[str, float]:
        """The information value of each feature, added up over the classes."""
        return self.by_name("iv")

    def by_name(self, statistic: str) -> dict[str, float]:
        """Return a statistic by the name of the feature; of several classes, the sum. Raises DataError."""
        if statistic not in self.numbers:
            raise DataError(f"{statistic} was not revealed to this party: ask for it with reveal='numbers'")
        return dict(zip(self.names, self.numbers[statistic].sum(axis=0).tolist(), strict=True))

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table, one row per feature; of several classes, one column per class."""
        columns: dict[str, Any] = {
            "party": [p for p, _ in self.features],
            "feature": [name for _, name in self.features],
        }
        for name, values in self.numbers.items():
            several = len(values) > 1
            columns |= {f"{name}_{c}" if several else name: line for c, line in enumerate(values)}
        columns |= self.moments
        return pd.DataFrame(columns)
