"""The configuration of a SecureBoost training: the common boosting parameters, and those of this protocol."""

from __future__ import annotations

from numbers import Integral
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from secure_tree.public.config import MAX_DELTA_STEP, BoostingConfig
from secure_tree.public.exact import ln

# The encryption library takes the hosts' bins as int8, and one more bin has the missing values.
LARGEST_MAX_BIN = 126


class SecureBoostConfig(BoostingConfig):
    """Hyper-parameters under XGBoost's names. Only the guest is configured; hosts receive what they need.

    n_estimators     fewer than XGBoost's 100 by default, since every tree costs seconds of encryption
    missing          any value may be missing
    guest_only       which splits only the guest may own: none, the root of every tree, or the whole first tree.
                     With none the trees are those of the joined table; the others reduce quality and hide little
    packing          g and h in one plaintext, and several sums in one ciphertext; False: one ciphertext per number
    sibling_subtraction   only the smaller child of a split is summed, and its sibling is derived, by the guest after
                     decryption or by the host on ciphertexts; off: both children are summed
    epsilon          hosts add noise to their sums, which together are (epsilon, 10^-6)-DP (noise.py); None: exact sums.
                     With noise, the host derives siblings, so that every node has its own noise
    """

    objective: Literal["binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"] = "binary:logistic"
    n_estimators: int = Field(20, ge=1, le=10_000)
    missing: Literal["all"] = "all"
    base_score: float = 0.5
    guest_only: Literal["none", "root", "first_tree"] = "none"
    encryption: Literal["paillier", "ou"] = "paillier"
    key_bits: int = Field(2048, ge=1024, le=8192)
    packing: bool = True
    sibling_subtraction: Literal["guest", "host", "off"] = "guest"
    epsilon: float | None = Field(None, gt=0, le=1e9)

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
    def bins(self) -> int:
        """max_bin, which must be a number here."""
        return int(self.max_bin)

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
