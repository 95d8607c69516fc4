"""The configuration of a training on virtual samples; learning rate and depth are the paper's (section 5)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from protocols.baselines.federated.objectives import Objective
from secure_tree.public.config import validated


class VirtualSamplesConfig(BaseModel):
    """Public hyper-parameters, the same at the server and every node; defaults not in the paper are XGBoost's.

    min_group: the fewest rows behind any sum of g and h that a node sends. rechoose: whether the rows that the model
    gets wrong are chosen again for each tree of an update, or once before it. update_boundaries: whether new rows
    use the clusters of the base rows, or as many of their own (S^L of algorithm 1). update_check: the share of new
    rows that never join, but decide how many trees of the update are kept; 0 keeps all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    objective: Objective = "binary:logistic"
    clusters: int = Field(10, ge=2, le=1_000_000)
    min_group: int = Field(5, ge=1)
    n_estimators: int = Field(50, ge=1, le=10_000)
    update_estimators: int = Field(0, ge=0, le=10_000)
    rechoose: bool = True
    update_boundaries: Literal["base", "new"] = "base"
    update_check: float = Field(0.2, ge=0, le=0.5)
    learning_rate: float = Field(0.1, gt=0, le=1)
    max_depth: int = Field(4, ge=1, le=10)
    reg_lambda: float = Field(1.0, gt=0)
    min_split_loss: float = Field(0.0, ge=0)
    min_child_weight: float = Field(1.0, ge=0)

    @classmethod
    def of(cls, **parameters: Any) -> Self:
        """Build and validate. Raises ConfigError with one sentence."""
        return validated(cls, parameters)
