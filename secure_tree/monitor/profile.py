"""The profile of a training's rows, against which drift is measured: counts on shares, saved beside the model's half.

Bins of features begin at quantiles: by columns at those of their owner's rows, by rows at joint ones, which become
public. Nothing else is revealed. The file has values of the party's table, so it stays with its owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.comparison.comparison import below
from mpc.host.encryption import FileKey
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare
from secure_tree.data.bins import Counted
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.explore.histograms import joint_edges_of
from secure_tree.explore.own_table import numbers_at, sums
from secure_tree.model.storage import read_arrays, reading, write_arrays
from secure_tree.monitor.agreement import agree_on_profile
from secure_tree.monitor.calibration import class_counts
from secure_tree.monitor.known import Known, own_labels
from secure_tree.monitor.scores import FINE, bins, ends, monitored_model, score
from secure_tree.public.config import Method

FORMAT = 1
BINS = 10
_WHAT = f"Sharewood profile of format {FORMAT}"
_ROLE = "profile of a training"
STAGE = "monitor"


@dataclass(frozen=True)
class Profile:
    """One party's half. pairing: the id of the model. rows: how many, of all rows. labelled: whether there were labels.

    span: that of the scores' bins. scores: [rows labelled 1, and all rows of each bin], [2, 96]. edges: where the bins
    of its features begin, float32[d, 10], by rows of all features. features: how many of its own rows are in each bin,
    the last for missing values, uint64[d, 11].
    """

    rank: int
    pairing: str
    id: str
    rows: int
    labelled: bool
    span: tuple[float, float]
    scores: AShare
    edges: np.ndarray
    features: np.ndarray

    def save(self, path: str | Path, key: FileKey | None = None) -> None:
        """Write the half atomically to `path`, encrypted if there is a key. Raises DataError."""
        names = ("rank", "pairing", "id", "rows", "labelled", "span")
        facts = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        arrays = {"scores": self.scores.words, "edges": self.edges, "features": self.features}
        write_arrays(path, facts, arrays, key, _ROLE)

    @classmethod
    def load(cls, path: str | Path, key: FileKey | None = None) -> Profile:
        """Read a half. Raises DataError."""
        facts, arrays = read_arrays(path, _WHAT, key, _ROLE)
        with reading(path, _WHAT):
            if facts.pop("format") != FORMAT:
                raise ValueError(f"format must be {FORMAT}")
            scores = AShare(arrays["scores"].astype(np.uint64).reshape(2, FINE), facts["rank"])
            edges, features = arrays["edges"].astype(np.float32), arrays["features"].astype(np.uint64)
            if edges.shape != (len(features), BINS) or features.shape[1:] != (BINS + 1,):
                raise ValueError("its counts do not fit its edges")
            low, high = facts.pop("span")
            return cls(**facts, span=(float(low), float(high)), scores=scores, edges=edges, features=features)

    def count(self, features: np.ndarray) -> np.ndarray:
        """Count a party's own rows, float32[n, d], by the bins of the profile: uint64[d, 11]."""
        return own_counts(features, self.edges)


def own_counts(features: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count own rows by bins that begin at `edges`, the last for missing values: uint64[d, 11]."""
    numbers = numbers_at(features, edges, np.zeros(len(edges), bool))
    return sums(numbers, BINS + 1, np.ones((1, len(features)), np.uint8))[0]


def make_profile(
    party: Party,
    model: Any,
    X: TableLike,
    y: ColumnLike | None = None,
    *,
    span: tuple[float, float] = (-6.0, 6.0),
    method: Method = "bins",
) -> Profile:
    """Count the scores and features of the rows that a model was trained on, on shares, for later monitorings.

    Both parties must call this at the same time, each with its part of the rows, as `predict`. Labels allow alarms of
    `auc` and `ks`. Nothing is revealed but, by rows, joint quantiles of each feature. Stages of the meter:
    predict_offline, predict, monitor. Raises ConfigError, DataError.
    """
    half = monitored_model(model)
    scored = score(party, half, X, method)
    features = scored.features
    assert features is not None, "scored here"
    labels = own_labels(y, len(features))
    identity, labelled = agree_on_profile(party, scored, labels is not None, span)
    if scored.layout.vertical:
        spread = [Counted.of(column[~np.isnan(column)]).spread(BINS) for column in features.T]
        edges = np.array(spread, np.float32).reshape(-1, BINS)
    else:
        edges = joint_edges_of(party, scored.layout.row_count, features, BINS)
    known = Known.of(party.rank, scored, labels, None, 0, True)
    low, high = ends(span)

    def program(party: Party) -> Steps[AShare]:
        under = yield from below.steps(party, scored.margin, [low, high], scored.bits)
        fine = yield from bins(party, scored.margin, under, span, FINE)
        return (yield from class_counts(party, fine, known.labels))

    counted = planned(party, STAGE, lambda party: party.run(program(party)))
    return Profile(
        party.rank,
        half.facts.pairing,
        identity,
        scored.layout.row_count,
        labelled,
        span,
        counted,
        edges,
        own_counts(features, edges),
    )
