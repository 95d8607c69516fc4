"""Settings of a session that travel together, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mpc.authenticated.reveal import check_session_for_macs
from mpc.endpoint import ROUND_PRICE
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
# Bits per second at which a faster line makes no byte cheaper: it is made, masked and read more slowly.
_FASTEST = 4e8


@dataclass(frozen=True)
class Link:
    """The line of a host: seconds from it to another host and back, bits per second in each direction.

    Raises ConfigError.
    """

    round_trip: float
    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.round_trip < float("inf"):
            raise ConfigError(f"round_trip must be seconds, 0 or more, got {self.round_trip}")
        if not 0 < self.rate < float("inf"):
            raise ConfigError(f"rate must be bits per second, more than 0, got {self.rate}")

    @property
    def round_price(self) -> int:
        """What a round is worth in bytes dealt: those that a line carries in a round trip.

        A message takes half of it; but what is dealt arrives while messages are under way.
        """
        return int(self.round_trip * min(self.rate, _FASTEST) / 8)


def price_of(link: Link | None) -> int:
    """Return what a round is worth on this link, or where nothing is known of it."""
    return link.round_price if link else ROUND_PRICE


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
