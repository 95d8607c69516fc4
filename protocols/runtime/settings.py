"""Settings of a session that travel together, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mpc.errors import ConfigError
from protocols.ot.correlated import OtKind

# Who makes the correlated randomness: a third process, or the two parties.
Maker = Literal["dealer", "pairwise"]


@dataclass(frozen=True)
class Offline:
    """Who makes correlated randomness and, without a dealer, by which oblivious transfers. Raises ConfigError."""

    maker: Maker = "dealer"
    ot: OtKind = "ferret"

    def __post_init__(self) -> None:
        for name, value, known in (("offline", self.maker, get_args(Maker)), ("ot", self.ot, get_args(OtKind))):
            if value not in known:
                raise ConfigError(f"{name} must be {' or '.join(known)}, got {value!r}")

    @property
    def pairwise(self) -> bool:
        """Whether the two parties make it."""
        return self.maker == "pairwise"


FROM_DEALER = Offline()


def check_together(offline: Offline, shards: int, audit: bool = False, mac: bool = False, prepared: str = "") -> None:
    """Raise ConfigError if settings exclude each other; `prepared` names the setting with prepared material, if any."""
    if prepared and not offline.pairwise:
        raise ConfigError(f'{prepared} must be used with offline = "pairwise": with a dealer, leave it out')
    if mac and offline.pairwise:
        raise ConfigError('predict.mac needs a dealer: offline must be "dealer", got "pairwise"')
    if mac and audit:
        raise ConfigError("a prediction must use mac or audit, not both")
    alone = {prepared: bool(prepared), "an audit": audit, "predict.mac": mac}
    for what in [what for what, used in alone.items() if used and shards]:
        raise ConfigError(f"{what} must be used with one process at each party: leave out shards")
