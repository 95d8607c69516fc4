"""The configuration of a FedXGBllr training; defaults are the paper's (Ma et al. 2023, section 4.1), except for three.

These are `local_epochs`, since 100 epochs overfit (the authors ran 100 batches: `local_batches`), and `start` and
`validation_share`, which keep the network from being worse than the mean of the clients' margins (docs/fedxgbllr.md).
The paper does not specify the regularisation of the local ensembles: those three defaults are XGBoost's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from mpc.errors import ConfigError
from protocols.baselines.federated.objectives import Objective
from secure_tree.public.config import validated

MOST_TREES = 10_000
DEEPEST = 12
Architecture = Literal["interpretable", "standard", "fcnn"]
Start = Literal["mean", "kaiming"]
Beta = Annotated[float, Field(ge=0, lt=1)]


class FedXGBllrConfig(BaseModel):
    """Public hyper-parameters, the same at the server and every client.

    `local_batches` ends a client's part of a round after that many batches instead of `local_epochs` passes. `start`
    chooses the network's initial weights: the mean of the clients' margins, or the paper's Kaiming initialisation.
    `validation_share` of each client's rows is used to train neither its trees nor the network, and selects the round
    to keep; 0 keeps the last round, as in the paper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    objective: Objective = "binary:logistic"
    total_trees: int = Field(500, ge=1, le=MOST_TREES)
    max_depth: int = Field(8, ge=1, le=DEEPEST)
    eta: float = Field(0.1, gt=0, le=1)
    reg_alpha: float = Field(0.0, ge=0)
    min_split_loss: float = Field(0.0, ge=0)
    subsample: float = Field(1.0, gt=0, le=1)
    architecture: Architecture = "interpretable"
    channels: int = Field(64, ge=2, le=1024)
    start: Start = "mean"
    rounds: int = Field(10, ge=1, le=1000)
    local_epochs: int = Field(2, ge=1, le=10_000)
    local_batches: int | None = Field(None, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(0.001, gt=0, le=1)
    betas: tuple[Beta, Beta] = (0.5, 0.999)
    validation_share: float = Field(0.1, ge=0, le=0.5)
    seed: int = Field(0, ge=0)

    @property
    def classification(self) -> bool:
        return self.objective == "binary:logistic"

    def trees_per_client(self, clients: int) -> int:
        """Return 500 / K of section 4.1. Raises ConfigError if a client would have no tree."""
        if clients > self.total_trees:
            raise ConfigError(f"total_trees must be at least the number of clients, {clients}, got {self.total_trees}")
        return self.total_trees // clients

    @classmethod
    def of(cls, **parameters: Any) -> Self:
        """Build and validate. Raises ConfigError with one sentence."""
        return validated(cls, parameters)
