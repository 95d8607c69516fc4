"""Every error that Sharewood raises on purpose, and the exit status that the command line returns for it."""

from typing import Self


class SharewoodError(Exception):
    """An error whose message is meant for the person who runs Sharewood."""

    exit_status = 2


class PeerFailure(SharewoodError):
    """The peer or the network is at fault, not this party's input.

    `source`: the peer whose message was due. `fact`: what happened, without the step of the protocol.
    """

    exit_status = 3
    source: str | None = None
    fact: str | None = None

    @classmethod
    def at(cls, fact: str, step: str, reason: str | None = None) -> Self:
        """Return a failure at a step of the protocol."""
        failure = cls(f"{fact} in {step}" + (f": {reason}" if reason else ""))
        failure.fact = fact
        return failure


class ProtocolDesync(PeerFailure):
    """The peer sent something other than this step of the protocol expects."""


class PeerTimeout(PeerFailure):
    """The peer stayed silent for longer than the agreed time."""


class AuditFailure(SharewoodError):
    """What both parties computed is inconsistent: a hardware fault, a wrong program, or an error of the dealer."""

    exit_status = 3


class MacFailure(SharewoodError):
    """An opened value does not match its MACs: a lie or a fault of the other party, of this one, or of the dealer."""

    exit_status = 3


class PeerVanished(PeerFailure):
    """The peer closed the connection or died in the middle of the protocol; `explained`: it said why."""

    explained = False


class WorkersLost(PeerFailure):
    """A worker of this party or of the other one has ended. Both parties learn this at the same step."""


class ShapeMismatch(SharewoodError):
    """Operands whose shapes do not match."""


class ScaleMismatch(SharewoodError):
    """Operands whose fixed-point scales differ where they must agree."""


class RangeError(SharewoodError):
    """A value outside the range that its encoding or protocol states."""


class MaskReuse(SharewoodError):
    """Correlated randomness was about to be used a second time."""


class ConfigError(SharewoodError):
    """A configuration that contradicts itself or names something unknown."""


class DataError(SharewoodError):
    """Input data that cannot be read, or that does not match its schema."""
