"""The importance of each feature to a model, as in XGBoost. It is revealed to both parties if both ask for it.

weight        number of nodes that split on the feature
total_gain    sum of the gains of these splits; gain: their mean
total_cover   sum of the hessians of these nodes; cover: their mean

As in XGBoost, a gain is twice the reduction of the loss, before min_split_loss. For a mean, both the sum and the number
of nodes are revealed. The error of a sum is at most one unit of its scale per node.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from mpc.arithmetic.bits import select
from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.shares import AShare
from secure_tree.agreement.models import agree_on_importance
from secure_tree.model.shared_model import SharedModel
from secure_tree.public.config import Importance
from secure_tree.public.context import PublicFacts
from secure_tree.public.names import column_of

KINDS: tuple[Importance, ...] = get_args(Importance)


def feature_importance(party: Party, model: SharedModel, kind: Importance) -> np.ndarray:
    """Return the importance of each feature, float64[d], in the order of `model.facts.names`; 0 without a split.

    Of a column that is split by sets, the first indicator has the importance, and the others have 0. Raises
    ConfigError, DataError.
    """
    if kind not in KINDS:
        raise ConfigError(f"importance must be one of {', '.join(KINDS)}, got {kind!r}")
    agree_on_importance(party, model, kind)
    if kind == "weight":
        return _weight(party, model)
    total = _total(party, model, "gain" if "gain" in kind else "cover")
    return total if kind.startswith("total") else total / np.maximum(1, _weight(party, model))


def by_column(facts: PublicFacts, importances: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return names of features, and of columns that are split by sets, and their importances."""
    columns, of_sets = facts.layout.columns, facts.layout.in_sets
    _, first = np.unique(columns, return_index=True)
    names = [column_of(facts.names[f]) if f in of_sets else facts.names[f] for f in first.tolist()]
    return names, importances[first]


def _weight(party: Party, model: SharedModel) -> np.ndarray:
    counts = model.ensemble.chosen[..., : model.facts.layout.feature_count].sum(axis=(0, 1))
    return _opened(party, counts, "how many nodes split on each feature")


def _total(party: Party, model: SharedModel, what: Literal["gain", "cover"]) -> np.ndarray:
    statistics, features = model.ensemble.statistics, model.ensemble.features
    if statistics is None or statistics.gains is None:
        raise DataError("a shared plain model has no gains and covers: compute them on the plain model")
    of_gain, of_cover = model.facts.statistics_units
    if what == "gain":
        values, unit = statistics.gains, of_gain
    else:
        values, unit = statistics.covers[:, : features.shape[1]], of_cover
    sums = select(party, features, values.map(lambda w: w[..., None])).sum(axis=(0, 1))
    return _opened(party, sums, f"the total {what} of the splits on each feature") * unit


def _opened(party: Party, share: AShare, what: str) -> np.ndarray:
    opened = party.reveal(share, what=what)
    assert opened is not None, "revealed to both"
    return opened.astype(np.float64)
