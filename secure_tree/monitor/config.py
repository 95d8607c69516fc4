"""What a monitoring computes and reveals: public, and the same at both parties."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from secure_tree.public.config import Method, Parameters

Statistic = Literal["scores", "features", "auc", "ks", "ece", "slope", "parity", "odds", "calibration", "loss"]
# Statistics that need a profile, labels, and groups.
OF_PROFILE: tuple[Statistic, ...] = ("scores", "features")
OF_LABELS: tuple[Statistic, ...] = ("auc", "ks", "ece", "slope", "odds", "calibration", "loss")
OF_GROUPS: tuple[Statistic, ...] = ("parity", "odds", "calibration", "loss")
FAIRNESS: tuple[Statistic, ...] = ("parity", "odds", "calibration")


class MonitorFloors(Parameters):
    """Below these, nothing is revealed."""

    rows: int = Field(500, ge=2)
    """Fewest rows of each party."""
    class_rows: int = Field(50, ge=1)
    """Fewest rows of each class, by rows at each party, for statistics of labels."""
    group_rows: int = Field(50, ge=1)
    """Fewest rows that a rate of a group is of, by rows at each party; other groups are left out, in secret."""
    cell_rows: int = Field(10, ge=1)
    """Rows by which the rows of two monitorings differ, if they are not the same."""
    digits: int = Field(3, ge=1, le=6)
    """Most decimals of a number; fewer where its standard error is larger."""
    bits: float = Field(0.05, gt=0, le=1)
    """Fraction of the labels' entropy that all monitorings of the same rows may reveal."""


class Alarms(Parameters):
    """Thresholds beyond which there is an alarm."""

    psi: float = Field(0.25, gt=0, le=8)
    """Largest stability index of scores and of each feature."""
    auc_drop: float = Field(0.05, gt=0, lt=1)
    """Largest decrease of `auc` since the profile."""
    ks_drop: float = Field(0.1, gt=0, lt=1)
    """Largest decrease of `ks` since the profile."""
    ece: float = Field(0.05, gt=0, lt=1)
    """Largest expected calibration error."""
    slope: float = Field(0.2, gt=0, lt=1)
    """Largest distance of the calibration slope from 1."""
    parity: float = Field(0.8, gt=0, lt=1)
    """Least ratio of the smallest selection rate of a group to the largest."""
    odds: float = Field(0.1, gt=0, lt=1)
    """Largest difference of equalised odds."""
    calibration: float = Field(0.05, gt=0, lt=1)
    """Largest difference of the calibration within groups."""


class MonitorConfig(Parameters):
    """Parameters of a monitoring. They must be equal at both parties."""

    statistics: tuple[Statistic, ...] = FAIRNESS
    """Drift of `scores` and `features`; `auc`, `ks`, expected calibration error `ece` and calibration `slope`; and of
    groups demographic `parity`, equalised `odds`, `calibration` within groups, and the mean `loss` of each.
    """
    reveal: Literal["numbers", "alarms"] = "numbers"
    """Rounded numbers, or a bit for each: whether it is beyond its alarm."""
    method: Method = "bins"
    """How rows are routed, as in a prediction."""
    cut: float = Field(0.5, gt=0, lt=1)
    """The probability from which a row is selected."""
    span: tuple[float, float] = (-6.0, 6.0)
    """Log-odds between which margins are counted, in 12 bins, and in 96 for curves."""
    every: float = Field(1.0, ge=1)
    """Days before any of the same rows can be monitored again."""
    label: str = "label"
    """The name of the labels in the ledger."""
    alarms: Alarms = Field(default_factory=Alarms.of)
    floors: MonitorFloors = Field(default_factory=MonitorFloors.of)

    @model_validator(mode="after")
    def _consistent(self) -> MonitorConfig:
        if not self.statistics or len(set(self.statistics)) < len(self.statistics):
            raise ValueError(f"statistics must be distinct, and at least one, got {', '.join(self.statistics)}")
        if self.reveal == "alarms" and "loss" in self.statistics:
            raise ValueError("statistics must not have loss with alarms: a loss of a group has no alarm")
        low, high = self.span
        if not (-64 <= low < high <= 64 and high - low >= 0.5):
            raise ValueError(f"span must be two log-odds within +-64 that are at least 0.5 apart, got {self.span}")
        return self

    def asks(self, *of: Statistic) -> bool:
        """Return whether any of these statistics is asked for."""
        return any(s in of for s in self.statistics)

    @property
    def of_labels(self) -> bool:
        return self.asks(*OF_LABELS)
