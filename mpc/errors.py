"""Every error that Sharewood raises on purpose, and the exit status the command line gives it."""


class SharewoodError(Exception):
    """An error whose message is meant for the person who runs Sharewood."""

    exit_status = 2


class PeerFailure(SharewoodError):
    """The peer or the network is at fault, not this party's input."""

    exit_status = 3


class ProtocolDesync(PeerFailure):
    """The peer sent something other than what this step of the protocol expects."""


class PeerTimeout(PeerFailure):
    """The peer stayed silent for longer than the agreed time."""


class AuditFailure(SharewoodError):
    """What both parties computed contradicts itself: a fault of a machine, a wrong program, or a dealer's error."""

    exit_status = 3


class MacFailure(SharewoodError):
    """What was opened does not fit its MACs: a lie or a fault of the other party, of this one, or of the dealer."""

    exit_status = 3


class PeerVanished(PeerFailure):
    """The peer closed the connection or died in the middle of the protocol."""


class WorkersLost(PeerFailure):
    """A worker of this party or of the other has ended. Both parties know, at the same step."""


class ShapeMismatch(SharewoodError):
    """Operands whose shapes do not fit each other."""


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
