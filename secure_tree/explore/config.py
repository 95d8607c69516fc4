"""What an exploration computes and reveals: public, and the same at both parties."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, model_validator

from secure_tree.public.config import Parameters, Partition

# Statistics of histograms, one number per feature; and the others.
Statistic = Literal["iv", "auc", "ks", "psi"]
Other = Literal["missing", "mean", "deviation", "correlation", "vif", "label_rate"]
# Statistics of the labels, by which features can be ranked.
Rank = Literal["iv", "auc", "ks"]
Reveal = Literal["names", "numbers", "woe"]
OF_LABELS: tuple[Statistic, ...] = ("iv", "auc", "ks")
# Statistics that follow from bins, as those of owners' rows must.
OF_BINS = (*OF_LABELS, "psi", "missing", "label_rate")


class Floors(Parameters):
    """Below these, nothing is revealed."""

    rows: int = Field(1000, ge=2)
    """Fewest rows of each party."""
    class_rows: int = Field(100, ge=1)
    """Fewest rows of each class, by rows at each party."""
    cell_rows: int = Field(10, ge=1)
    """Fewest rows of a bin, of each class where a weight of evidence is shown; rows by which two releases differ."""
    digits: int = Field(3, ge=1, le=6)
    """Most decimals of a number; fewer where its standard error is larger."""
    bits: float = Field(0.05, gt=0, le=1)
    """Fraction of the labels' entropy that all releases together may reveal."""


class Privacy(Parameters):
    """Differential privacy of the labels; left out, there is no noise."""

    rho: float = Field(gt=0, le=100)
    """Zero-concentrated privacy of one exploration; those of several explorations add up."""
    delta: float = Field(1e-6, gt=0, lt=1)
    """The delta for which epsilon is shown."""
    most: float = Field(1.0, gt=0)
    """The sum of rho beyond which an owner of labels refuses, over all explorations of its ledger."""


class ExploreConfig(Parameters):
    """Parameters of an exploration. They must be equal at both parties."""

    partition: Partition = "horizontal"
    """Each party has some rows of all features, or some features of all rows."""
    statistics: tuple[Statistic | Other, ...] = ("iv",)
    """Statistics of each feature: information value `iv`, `auc` and `ks` of the feature's bin, stability index `psi`
    between the periods or, by rows, the parties; rate of `missing` values, `mean`, `deviation`; `correlation` of each
    pair, variance inflation `vif`; and the `label_rate`.
    """
    bins: int = Field(10, ge=2, le=64)
    """Bins per feature, of about equally many rows; one more for missing values."""
    reveal: Reveal = "names"
    """Only the names of the `top` features, in addition their numbers, or in addition the weight of evidence by bin."""
    top: int = Field(100, ge=1)
    """How many features are named. With as many as there are, none is left out and numbers are of all."""
    rank: Rank = "iv"
    """The statistic by which they are chosen: `auc` by its distance from one half."""
    to: int | None = Field(None, ge=0, le=1)
    """The party that learns the numbers: its rank, or in a configuration file its name; by default both."""
    classes: int = Field(2, ge=2, le=100)
    """Number of classes of the labels. Of more than two, each is compared with the others, and statistics add up."""
    numbers: bool = False
    """Labels are numbers, which are cut at their quantiles into `classes` classes of equally many rows."""
    label: str = "label"
    """The name of the labels in the ledger: the budget of bits is that of this name."""
    floors: Floors = Field(default_factory=Floors.of)
    privacy: Privacy | None = None

    @model_validator(mode="after")
    def _distinct(self) -> ExploreConfig:
        if len(set(self.statistics)) < len(self.statistics):
            raise ValueError(f"statistics must be distinct, got {', '.join(self.statistics)}")
        if self.privacy and "label_rate" in self.statistics:
            raise ValueError("statistics must not have label_rate with privacy: it would be exact")
        return self

    @property
    def groups(self) -> int:
        """How many classes are compared with the others."""
        return self.classes if self.classes > 2 else 1

    @property
    def shown(self) -> tuple[Statistic, ...]:
        """The statistics whose numbers are revealed."""
        known: tuple[Statistic, ...] = get_args(Statistic)
        return () if self.reveal == "names" else tuple(s for s in known if s in self.statistics)

    @property
    def others(self) -> tuple[str, ...]:
        """The other statistics that are revealed."""
        return () if self.reveal == "names" else tuple(s for s in self.statistics if s not in self.shown)

    @property
    def of_labels(self) -> bool:
        """Whether labels are needed."""
        return self.reveal != "numbers" or any(s in (*OF_LABELS, "label_rate") for s in self.statistics)
