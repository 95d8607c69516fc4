"""The configuration of a SecureBoost training: what every boosting has, and the parameters of this protocol."""

from __future__ import annotations

from numbers import Integral
from typing import Literal

from pydantic import Field, field_validator

from secure_tree.config import BoostingConfig

# Host bins reach the encryption library as int8, and one more bin holds the missing values.
LARGEST_MAX_BIN = 126


class SecureBoostConfig(BoostingConfig):
    """Hyper-parameters under XGBoost's names. The guest's configuration rules; hosts learn what they need.

    missing          any value may be missing
    guest_only       which splits only the guest may own: none, the root of every tree, or the whole first tree.
                     With none the trees are those of the joined table; the others cost quality and hide little
    packing          g and h in one plaintext, and several sums in one ciphertext; False: every number has its own
    sibling_subtraction   only the smaller child of a split is summed, and its sibling derived by the guest after
                     decryption, or by the host on ciphertexts; off: both children are summed
    """

    objective: Literal["binary:logistic", "multi:softprob", "reg:squarederror"] = "binary:logistic"
    missing: Literal["all"] = "all"
    base_score: float = 0.5
    guest_only: Literal["none", "root", "first_tree"] = "none"
    encryption: Literal["paillier", "ou"] = "paillier"
    key_bits: int = Field(2048, ge=1024, le=8192)
    packing: bool = True
    sibling_subtraction: Literal["guest", "host", "off"] = "guest"

    @field_validator("max_bin", mode="before")
    @classmethod
    def _few_bins(cls, value: object) -> object:
        if not isinstance(value, Integral) or not 2 <= int(value) <= LARGEST_MAX_BIN:
            raise ValueError(f"must be a whole number from 2 to {LARGEST_MAX_BIN} in SecureBoost, got {value}")
        return int(value)

    @property
    def bins(self) -> int:
        """max_bin, which is a number here."""
        return int(self.max_bin)

    @property
    def classifies(self) -> bool:
        return self.objective != "reg:squarederror"
