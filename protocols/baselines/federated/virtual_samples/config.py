"""The configuration of a training on virtual samples; learning rate and depth are the paper's (section 5)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from protocols.baselines.federated.objectives import Objective
from secure_tree.public.config import Parameters


class VirtualSamplesConfig(Parameters):
    """Parameters that are the same at the server and every node; defaults not in the paper are XGBoost's."""

    objective: Objective = "binary:logistic"
    """binary:logistic, reg:squarederror or count:poisson."""
    clusters: int = Field(10, ge=2, le=1_000_000)
    """Clusters per feature; at most the rows of the smallest client are used."""
    min_group: int = Field(5, ge=1)
    """Minimum number of rows behind a sum that a client sends."""
    n_estimators: int = Field(50, ge=1, le=10_000)
    """Number of trees."""
    max_depth: int = Field(4, ge=1, le=10)
    """Depth of each tree."""
    learning_rate: float = Field(0.1, gt=0, le=1)
    """Learning rate of the trees."""
    reg_lambda: float = Field(1.0, gt=0)
    """L2 penalty of a leaf's weight."""
    min_split_loss: float = Field(0.0, ge=0)
    """Least gain of a split."""
    min_child_weight: float = Field(1.0, ge=0)
    """Minimum sum of hessians of each side of a split."""
    update_estimators: int = Field(0, ge=0, le=10_000)
    """Maximum number of trees in the sparse update; 0 trains on all rows, without an update."""
    rechoose: bool = True
    """Choose misclassified rows again for each tree of the update, or only once."""
    # With new ones, new rows have as many clusters of their own (S^L of algorithm 1).
    update_boundaries: Literal["base", "new"] = "base"
    """Clusters of new rows: base (those of all rows) or new."""
    # These rows never join.
    update_check: float = Field(0.2, ge=0, le=0.5)
    """Fraction of new rows that decides how many trees of the update are kept; 0 keeps all."""
