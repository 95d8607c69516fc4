"""Bins of a party whose rows are in shards: each shard is sketched by its worker, and the sketches are merged.

Functionality  features of a shard -> a Sketch of each; sketches of all shards -> one; merged ones -> the party's Bins
How            a feature with at most MOST_COUNTED distinct values over all shards is counted, and its cuts are those of
               a single process (secure_tree/data/bins.py). Any other feature gets a KLL sketch with parameter SKETCH_K.
               Its retained values are cut by the same rule, each with the number of values that it represents. The
               minimum is exact. Missing values do not count
Error          the error of a quantile's rank, as a fraction of the non-missing values, is at most `rank_error` for 99%
               of sketches, as fitted by the library's authors over thousands of trials; 0 for counted values. It does
               not depend on the number or order of merges
Size           about 50 kB per feature and shard, sent only within the party
Randomness     KLL discards values at random, so two sketches of the same rows differ within the error. Bins are
               therefore cut once, and a resumed training uses the saved ones
Source         Karnin, Lang and Liberty, FOCS 2016; Apache DataSketches
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from secure_tree.data.bins import Bins, Counted

SKETCH_K = 4096
MOST_COUNTED = 4096
# A column with more than MOST_COUNTED distinct values in this number of rows is not sorted as a whole.
_GLANCE = 4 * MOST_COUNTED


@dataclass(frozen=True)
class Sketch:
    """A sketch of one feature.

    present, missing: numbers of values. counted: the distinct values with their counts, if they are few. kll: a
    serialised KLL sketch.
    """

    present: int
    missing: int
    counted: Counted | None
    kll: bytes
    dtype: np.dtype

    @classmethod
    def of(cls, column: np.ndarray) -> Sketch:
        """Sketch a column, float32[n] or float64[n], NaN if a value is missing."""
        present = column[~np.isnan(column)]
        kll = _kind(column.dtype)(SKETCH_K)
        kll.update(np.ascontiguousarray(present))
        return cls(present.size, column.size - present.size, _few(present), kll.serialize(), column.dtype)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of both sets of values."""
        kll, more = (each._kll for each in (self, other))
        kll.merge(more)
        both = None
        if self.counted is not None and other.counted is not None:
            both = Counted.of(*(np.concatenate(part) for part in zip(_pair(self), _pair(other), strict=True)))
        counted = both if both is None or both.values.size <= MOST_COUNTED else None
        present, missing = self.present + other.present, self.missing + other.missing
        return Sketch(present, missing, counted, kll.serialize(), self.dtype)

    @property
    def rank_error(self) -> float:
        """The error of a quantile's rank (see the header)."""
        kll = self._kll
        return kll.normalized_rank_error(False) if self.counted is None and kll.is_estimation_mode() else 0.0

    @property
    def values(self) -> Counted:
        """The counted values, or the sketch's values with the numbers that they represent, including the minimum."""
        if self.counted is not None:
            return self.counted
        kll = self._kll
        values = np.unique(np.array([kll.get_min_value(), *(value for value, _ in kll)], self.dtype))
        # The library's iterator weighs values wrongly where its lowest level is empty; ranks are right.
        up_to = np.rint(np.array(kll.get_cdf(values, True)[:-1]) * self.present).astype(np.int64)
        return Counted(values, np.diff(up_to, prepend=0))

    @property
    def _kll(self) -> Any:
        return _kind(self.dtype).deserialize(self.kll)


@dataclass(frozen=True)
class SketchReport:
    """For the report of a training: the rows of all shards, the sketch's parameter, and the rank error by feature."""

    rows: int
    k: int
    rank_errors: dict[str, float]

    @classmethod
    def of(cls, sketches: Sequence[Sketch], names: Sequence[str]) -> SketchReport:
        """Report on the merged sketches of a party's features."""
        rows = sketches[0].present + sketches[0].missing
        errors = {name: sketch.rank_error for name, sketch in zip(names, sketches, strict=True)}
        return cls(rows, SKETCH_K, errors)

    @property
    def rank_error(self) -> float:
        """The largest rank error."""
        return max(self.rank_errors.values())


def sketch(features: np.ndarray) -> list[Sketch]:
    """A shard's features, float32[n, d] -> a sketch of each. Raises ConfigError if datasketches is not installed."""
    return [Sketch.of(column) for column in features.T]


def merge(shards: Iterable[list[Sketch]]) -> list[Sketch]:
    """Merge the sketches of all features over at least one shard. Only one shard's are in memory at a time.

    Raises DataError if the shards have different numbers of features.
    """
    return reduce(_merge_two, shards)


def bins_of_shards(merged: Sequence[Sketch], size: int, finer: int = 1) -> Bins:
    """Cut a party's bins as `secure_tree.data.bins.make_bins` does, but without features, which each worker adds."""
    none = np.zeros((0, len(merged)), np.float32)
    return Bins.of(none, (each.values for each in merged), size, finer)


def check_exact(merged: Sequence[Sketch], names: Sequence[str]) -> None:
    """Raise ConfigError if a feature has too many distinct values for `max_bin="exact"`."""
    for each, name in zip(merged, names, strict=True):
        if each.counted is None:
            raise ConfigError(
                f'max_bin must be a number, got "exact": {name!r} has more than {MOST_COUNTED} distinct values over '
                "the shards of this party"
            )


def _merge_two(first: list[Sketch], second: list[Sketch]) -> list[Sketch]:
    if len(first) != len(second):
        raise DataError(f"all shards of a party must have the same features, got {len(first)} and {len(second)}")
    return [one.merge(other) for one, other in zip(first, second, strict=True)]


def _few(present: np.ndarray) -> Counted | None:
    if np.unique(present[:_GLANCE]).size > MOST_COUNTED:
        return None
    counted = Counted.of(present)
    return counted if counted.values.size <= MOST_COUNTED else None


def _pair(sketch: Sketch) -> tuple[np.ndarray, np.ndarray]:
    assert sketch.counted is not None, "asked for counted values only"
    return sketch.counted.values, sketch.counted.counts


def _kind(dtype: np.dtype) -> Any:
    return _library().kll_doubles_sketch if dtype == np.float64 else _library().kll_floats_sketch


def _library() -> ModuleType:
    try:
        import datasketches
    except ImportError:
        raise ConfigError(
            f"bins over shards require datasketches, which is not installed: {install('cluster')}"
        ) from None
    return datasketches
