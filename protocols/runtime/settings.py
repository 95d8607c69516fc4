"""Settings of a session that travel together, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mpc.authenticated.reveal import check_session_for_macs
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


def check_alone(what: str, shards: int) -> None:
    """Raise ConfigError if the rows are divided among workers, which `what` does not allow."""
    if shards:
        raise ConfigError(f"{what} must be used with one process at each party: leave out shards")


def check_together(offline: Offline, shards: int, audit: bool = False, mac: bool = False, prepared: str = "") -> None:
    """Raise ConfigError if settings exclude each other; `prepared` names the setting with prepared material, if any."""
    if prepared and not offline.pairwise:
        raise ConfigError(f'{prepared} must be used with offline = "pairwise": with a dealer, leave it out')
    if mac:
        check_session_for_macs(not offline.pairwise, audit, shards)
    for what in filter(None, [prepared, "an audit" if audit else ""]):
        check_alone(what, shards)
