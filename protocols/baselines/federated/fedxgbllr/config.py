"""The configuration of a FedXGBllr training; defaults are the paper's (Ma et al. 2023, section 4.1), except for three.

These are `local_epochs`, since 100 epochs overfit (the authors ran 100 batches: `local_batches`), and `start` and
`validation_share`, which keep the network from being worse than the mean of the clients' margins (docs/fedxgbllr.md).
The paper does not specify the regularisation of the local ensembles: those three defaults are XGBoost's.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mpc.errors import ConfigError
from protocols.baselines.federated.objectives import Objective
from secure_tree.public.config import Parameters

MOST_TREES = 10_000
DEEPEST = 12
Architecture = Literal["interpretable", "standard", "fcnn"]
Start = Literal["mean", "kaiming"]
Beta = Annotated[float, Field(ge=0, lt=1)]


class FedXGBllrConfig(Parameters):
    """Parameters that are the same at the server and every client."""

    objective: Objective = "binary:logistic"
    """binary:logistic, reg:squarederror or count:poisson."""
    total_trees: int = Field(500, ge=1, le=MOST_TREES)
    """Total number of trees of all clients."""
    max_depth: int = Field(8, ge=1, le=DEEPEST)
    """Depth of each tree."""
    eta: float = Field(0.1, gt=0, le=1)
    """Learning rate of the trees."""
    reg_alpha: float = Field(0.0, ge=0)
    """L1 penalty of a leaf's weight."""
    min_split_loss: float = Field(0.0, ge=0)
    """Least gain of a split."""
    subsample: float = Field(1.0, gt=0, le=1)
    """Fraction of the rows that each tree is grown on."""
    architecture: Architecture = "interpretable"
    """interpretable, standard or fcnn."""
    channels: int = Field(64, ge=2, le=1024)
    """Channels of the convolution."""
    # The second is the paper's Kaiming initialisation.
    start: Start = "mean"
    """Initial weights: mean (of the clients' margins) or kaiming."""
    rounds: int = Field(10, ge=1, le=1000)
    """Rounds of the network's training."""
    local_epochs: int = Field(2, ge=1, le=10_000)
    """Passes over a client's rows per round."""
    local_batches: int | None = Field(None, ge=1)
    """Batches per round, instead of --local-epochs."""
    batch_size: int = Field(64, ge=1)
    """Rows per batch."""
    learning_rate: float = Field(0.001, gt=0, le=1)
    """Learning rate of Adam."""
    betas: tuple[Beta, Beta] = (0.5, 0.999)
    """Decay rates of Adam's two moments."""
    # These rows train neither a client's trees nor the network. The paper keeps the last round.
    validation_share: float = Field(0.1, ge=0, le=0.5)
    """Fraction of a client's rows held out to choose the round; 0 keeps the last round."""
    seed: int = Field(0, ge=0)
    """Seed of trees, network and batches."""

    @property
    def classification(self) -> bool:
        return self.objective == "binary:logistic"

    def trees_per_client(self, clients: int) -> int:
        """Return 500 / K of section 4.1. Raises ConfigError if a client would have no tree."""
        if clients > self.total_trees:
            raise ConfigError(f"total_trees must be at least the number of clients, {clients}, got {self.total_trees}")
        return self.total_trees // clients
