"""What a consortium agrees on around contributions of rows: the parties' bounds, and what each owner consents to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import Field

from mpc.errors import ConfigError, DataError
from secure_tree.public.config import Parameters, TrainConfig, validated
from secure_tree.public.context import OwnerFacts


class Consent(Parameters):
    """What an owner consents to, besides parameters of trainings."""

    least_owners: int = Field(1, ge=1)
    """Number of contributions, this one included, that every training must have at least."""
    until: dt.date | None = None
    """Last day of trainings with the contribution, in UTC."""
    reveal_to: tuple[str, ...] = ()
    """Names of those who may get a model in the clear that was trained on the contribution."""
    explore: bool = True
    """Whether the contribution may be explored, as well as trained on."""

    @classmethod
    def divided(cls, terms: Mapping[str, Any]) -> tuple[Consent, dict[str, Any]]:
        """Divide an owner's terms into its consent and parameters of trainings. Raises ConfigError."""
        own = {name: value for name, value in terms.items() if name in cls.model_fields}
        others = {name: value for name, value in terms.items() if name not in own}
        TrainConfig.of(**others)
        return validated(cls, own), others

    @property
    def facts(self) -> dict[str, Any]:
        """Return the fields as `OwnerFacts` has them."""
        until = self.until.isoformat() if self.until else None
        return {**dict(self), "until": until}


class Bounds(Parameters):
    """What the parties accept of owners. They must be equal at both parties."""

    least: int | None = Field(None, ge=1)
    """Number of contributions that are enough for `collect`: an owner that is late or fails is then left out, and the
    others are kept. By default, all owners must contribute.
    """
    until: dt.date | None = None
    """Last day of contributions, in UTC."""
    most_rows: int | None = Field(None, ge=1)
    """Most rows that an owner may contribute."""
    most_share: float = Field(1.0, gt=0, le=1)
    """Largest fraction of all rows that an owner may contribute."""

    def check_day(self) -> None:
        """Raise ConfigError if it is too late to contribute."""
        if self.until and today() > self.until:
            raise ConfigError(f"contributions are accepted until {self.until} (owners.until), and today is {today()}")

    def check_columns(self) -> None:
        """Raise ConfigError for bounds that contributions of columns do not have."""
        if self.least is not None or self.most_rows is not None or self.most_share < 1:
            raise ConfigError("least, most_rows and most_share are bounds of contributions of rows")

    def check_rows(self, owner: OwnerFacts) -> None:
        """Raise DataError if an owner contributes too many rows."""
        if self.most_rows is not None and owner.rows > self.most_rows:
            raise DataError(f"{owner.name}: contributes {owner.rows} rows, more than most_rows, {self.most_rows}")

    def check_shares(self, owners: Sequence[OwnerFacts], rows: int) -> None:
        """Raise DataError if an owner has too many of all rows."""
        for owner in owners:
            if owner.rows > self.most_share * rows:
                raise DataError(
                    f"{owner.name}: contributes {owner.rows} of {rows} rows, more than most_share, {self.most_share:g}"
                )


NO_BOUNDS = Bounds.of()


def check_consent(owners: Collection[OwnerFacts]) -> None:
    """Raise DataError unless all owners consent to a training of today with these contributions."""
    for owner in owners:
        check_until(owner)
        if owner.least_owners > len(owners):
            raise DataError(
                f"{owner.name}: consents to trainings on at least {owner.least_owners} contributions, and there are "
                f"{len(owners)}"
            )


def check_until(owner: OwnerFacts) -> None:
    """Raise DataError if an owner consents no longer."""
    if owner.until is not None and today().isoformat() > owner.until:
        raise DataError(f"{owner.name}: consents to trainings until {owner.until}, and today is {today()}")


def today() -> dt.date:
    """Return the day in UTC, which is the same at all hosts."""
    return dt.datetime.now(dt.UTC).date()
