"""Bins of a party whose rows lie in shards: each shard is sketched where it lies, and the sketches are merged.

Functionality  features of a shard -> a Sketch of each; sketches of all shards -> one; a merged one -> the party's Bins
How            a feature with at most MOST_COUNTED distinct values over all shards, such as a category, is counted, and
               its cuts are those that one process finds (secure_tree/binning.py). Any other is a KLL sketch with the
               parameter SKETCH_K, whose retained values, each with the number of values that it stands for, are cut by
               the same rule; the minimum is exact. Missing values do not count
Error          of the rank of a quantile as a share of the values that are there: at most `rank_error` for 99% of
               sketches, fitted by the library's authors over thousands of trials; 0 where values were counted. How
               often shards are merged, and in which order, does not matter to it
Size           about 50 kB a feature and shard, sent inside the party only
Random         KLL discards every other value by coins of its own, so that two sketches of the same rows differ within
               the error: bins are found once, and a training that resumes takes those it had
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
from secure_tree.binning import Bins, Counted

SKETCH_K = 4096
MOST_COUNTED = 4096
# A column that shows more distinct values than MOST_COUNTED in so many rows is not sorted as a whole.
_GLANCE = 4 * MOST_COUNTED


@dataclass(frozen=True)
class Sketch:
    """Of one feature: how many values are there and how many missing; the `counted` ones where they are few; a
    serialised KLL sketch.
    """

    present: int
    missing: int
    counted: Counted | None
    kll: bytes
    dtype: np.dtype

    @classmethod
    def of(cls, column: np.ndarray) -> Sketch:
        """float32[n] or float64[n], NaN where a value is missing."""
        present = column[~np.isnan(column)]
        kll = _kind(column.dtype)(SKETCH_K)
        kll.update(np.ascontiguousarray(present))
        return cls(present.size, column.size - present.size, _few(present), kll.serialize(), column.dtype)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of the values of both."""
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
        """See the header."""
        kll = self._kll
        return kll.normalized_rank_error(False) if self.counted is None and kll.is_estimation_mode() else 0.0

    @property
    def values(self) -> Counted:
        """The values, or those of the sketch with the numbers that they stand for; the minimum is among them."""
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
    """For the report of a training: rows of all shards, the sketch's parameter, and by feature the rank error, as of
    the header: 0 for one that was counted.
    """

    rows: int
    k: int
    rank_errors: dict[str, float]

    @classmethod
    def of(cls, sketches: Sequence[Sketch], names: Sequence[str]) -> SketchReport:
        """Of a party's features, merged over its shards."""
        rows = sketches[0].present + sketches[0].missing
        errors = {name: sketch.rank_error for name, sketch in zip(names, sketches, strict=True)}
        return cls(rows, SKETCH_K, errors)

    @property
    def rank_error(self) -> float:
        """The largest."""
        return max(self.rank_errors.values())


def sketch(features: np.ndarray) -> list[Sketch]:
    """A shard's features, float32[n, d] -> a sketch of each. Raises ConfigError without the library."""
    return [Sketch.of(column) for column in features.T]


def merge(shards: Iterable[list[Sketch]]) -> list[Sketch]:
    """The sketches of the features of all shards, at least one -> of the party's. One shard is held at a time.

    Raises DataError where shards differ in their number of features.
    """
    return reduce(_merge_two, shards)


def bins_of_shards(merged: Sequence[Sketch], size: int, finer: int = 1) -> Bins:
    """A party's bins, without features: a worker replaces those by its own. As of `secure_tree.binning.make_bins`."""
    none = np.zeros((0, len(merged)), np.float32)
    return Bins.of(none, (each.values for each in merged), size, finer)


def check_exact(merged: Sequence[Sketch], names: Sequence[str]) -> None:
    """Raises ConfigError where `max_bin="exact"` asks for more candidates than shards count."""
    for each, name in zip(merged, names, strict=True):
        if each.counted is None:
            raise ConfigError(
                f"max_bin must be a number where a feature has more than {MOST_COUNTED} distinct values over the "
                f'shards of a party, got "exact", and {name!r} has more'
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
            "bins over shards need datasketches, which is not installed: pip install 'sharewood[cluster]'"
        ) from None
    return datasketches
