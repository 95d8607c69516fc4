"""How much each feature matters to a model, as XGBoost counts it; revealed to both parties, if both ask for the same.

weight        how many nodes split on the feature
total_gain    the sum of those splits' gains; gain: their mean
total_cover   the sum of those nodes' hessians; cover: their mean

A gain is twice the loss that the split takes away, before min_split_loss, as in XGBoost. For a mean both the sum and
the number are revealed. Sums are exact to a unit of their scale for each node.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from mpc.bit_product import select
from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.shares import AShare
from secure_tree.agreement.models import agree_on_importance
from secure_tree.config import Importance
from secure_tree.model import SharedModel

KINDS: tuple[Importance, ...] = get_args(Importance)


def feature_importance(party: Party, model: SharedModel, kind: Importance) -> np.ndarray:
    """float64[d] in the order of `model.facts.names`, 0 for one without a split. Raises ConfigError, DataError."""
    if kind not in KINDS:
        raise ConfigError(f"importance must be one of {', '.join(KINDS)}, got {kind!r}")
    agree_on_importance(party, model, kind)
    if kind == "weight":
        return _weight(party, model)
    total = _total(party, model, "gain" if "gain" in kind else "cover")
    return total if kind.startswith("total") else total / np.maximum(1, _weight(party, model))


def _weight(party: Party, model: SharedModel) -> np.ndarray:
    counts = model.ensemble.chosen[..., : model.facts.layout.feature_count].sum(axis=(0, 1))
    return _opened(party, counts, "how many nodes split on each feature")


def _total(party: Party, model: SharedModel, what: Literal["gain", "cover"]) -> np.ndarray:
    statistics, features = model.ensemble.statistics, model.ensemble.features
    if statistics is None:
        raise DataError("a shared plain model has no gains and covers here: ask its owner")
    of_gain, of_cover = model.facts.statistics_units
    if what == "gain":
        values, unit = statistics.gains, of_gain
    else:
        values, unit = statistics.covers[:, : features.shape[1]], of_cover
    sums = select(party, features, values.map(lambda w: w[..., None])).sum(axis=(0, 1))
    return _opened(party, sums, f"the total {what} of the splits on each feature") * 2.0**-sums.scale * unit


def _opened(party: Party, share: AShare, what: str) -> np.ndarray:
    opened = party.reveal(share, what=what)
    assert opened is not None, "revealed to both"
    return opened.astype(np.float64)
