"""The configuration of a SecureBoost training: the common boosting parameters, and those of this protocol."""

from __future__ import annotations

from numbers import Integral
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from secure_tree.public.config import DEEPEST, MAX_DELTA_STEP, BoostingConfig
from secure_tree.public.exact import ln

# The encryption library takes the hosts' bins as int8, and one more bin has the missing values.
LARGEST_MAX_BIN = 126


class SecureBoostConfig(BoostingConfig):
    """Hyper-parameters under XGBoost's names. Only the guest is configured; hosts receive what they need."""

    objective: Literal["binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"] = "binary:logistic"
    """binary:logistic, multi:softprob, reg:squarederror or count:poisson."""
    # Fewer than XGBoost's 100, since every tree costs seconds of encryption.
    n_estimators: int = Field(20, ge=1, le=10_000)
    """Number of trees."""
    max_depth: int = Field(3, ge=1, le=DEEPEST)
    """Depth of each tree."""
    max_bin: int = 32
    """Bins per column, 2 to 126."""
    base_score: float = 0.5
    missing: Literal["all"] = "all"
    """Any value may be missing."""
    # The root of every tree, or the whole first tree, which only the guest owns, reduce quality and hide little.
    guest_only: Literal["none", "root", "first_tree"] = "none"
    """Splits that only the guest may own: none, root or first_tree; only none is lossless."""
    encryption: Literal["paillier", "ou"] = "paillier"
    """paillier, or ou (Okamoto-Uchiyama), which is faster."""
    key_bits: int = Field(2048, ge=1024, le=8192)
    """Key size in bits."""
    packing: bool = True
    """g and h in one plaintext, and several sums in one ciphertext; False: one ciphertext per number."""
    sibling_subtraction: Literal["guest", "host", "off"] = "guest"
    """Only the smaller child of a split is summed, and its sibling is derived, by the guest after decryption or by the
    host on ciphertexts; off: both children are summed.
    """
    # The sums of all hosts are together (epsilon, 10^-6)-DP (noise.py); the host derives siblings, so that every node
    # has its own noise.
    epsilon: float | None = Field(None, gt=0, le=1e9)
    """Differential privacy of the hosts' sums by noise; without it, sums are exact."""

    @field_validator("max_bin", mode="before")
    @classmethod
    def _few_bins(cls, value: object) -> object:
        if not isinstance(value, Integral) or not 2 <= int(value) <= LARGEST_MAX_BIN:
            raise ValueError(f"must be a whole number from 2 to {LARGEST_MAX_BIN} in SecureBoost, got {value}")
        return int(value)

    @model_validator(mode="after")
    def _counts_start_above_zero(self) -> Self:
        if self.counts and self.base_score <= 0:
            raise ValueError(f"base_score must be a count above 0 under count:poisson, got {self.base_score:g}")
        return self

    @property
    def counts(self) -> bool:
        """Whether labels are counts, and the margin is the logarithm of the expected count."""
        return self.objective == "count:poisson"

    @property
    def largest_step(self) -> float | None:
        """The largest leaf weight before the learning rate, None for no limit; for counts, XGBoost's default."""
        return MAX_DELTA_STEP if self.counts else None

    @property
    def base_margin(self) -> float:
        """base_score on the scale of the margin."""
        return ln(self.base_score) if self.counts else super().base_margin

    @property
    def siblings(self) -> str:
        """Which side derives siblings: guest, host, or off."""
        noisy = self.epsilon is not None and self.sibling_subtraction == "guest"
        return "host" if noisy else self.sibling_subtraction

    def columns_per_tree(self, columns: int) -> int:
        """Return how many of a party's columns each tree may use."""
        return min(columns, max(1, int(self.colsample_bytree * columns)))

    @property
    def classifies(self) -> bool:
        return self.objective in ("binary:logistic", "multi:softprob")
