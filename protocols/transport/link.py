"""Link: what a Channel needs of a connection, which moves bytes both ways at the same time, and fills an Intake."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from mpc.host.streaming import Pieces
from protocols.transport.codec import Buffer
from protocols.transport.frames import Reader, read_nothing

T = TypeVar("T")


class Intake(Generic[T]):
    """Where a link puts received bytes: it fills `target` until that is None; then `result` is set."""

    target: memoryview | None
    result: T

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._advance()

    def filled(self, count: int) -> None:
        """Record that the first `count` bytes of `target` have arrived."""
        assert self.target is not None, "nothing more is expected"
        self.target = self.target[count:]
        if not self.target:
            self._advance()

    def _advance(self) -> None:
        try:
            self.target = next(self._reader)
        except StopIteration as done:
            self.target, self.result = None, done.value


class Link(ABC):
    """A duplex stream of bytes to the peer."""

    peer: str
    sent = 0
    received = 0
    timeout: float | None = None
    session = bytes(16)
    # The certificate (DER) by which the peer is known, empty if it needs none.
    certificate = b""
    # Whether a message has been sent only in part.
    cut_short = False

    @property
    def descriptor(self) -> int | None:
        """The descriptor to poll; None if the next bytes may already be buffered, or come from this process."""
        return None

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed its end; earlier messages may still be unread."""
        return False

    @abstractmethod
    def watch(self, other: "Link", gone: Callable[[], None]) -> None:
        """Call `gone` once if the peer of `other` hangs up while this link waits for its own peer."""

    @abstractmethod
    def unwatch(self, other: "Link") -> None:
        """End the `watch` of `other`."""

    @abstractmethod
    def deafen(self) -> None:
        """Receive nothing from now on: a thread that waits for the peer gets PeerVanished."""

    def pace(self, rate: float | None) -> None:
        """Send at most `rate` bytes per second from now on, None: as fast as possible, where the system can do so."""
        return

    @abstractmethod
    def transfer(self, outgoing: Sequence[Buffer | Pieces], intake: Intake[T], step: str) -> None:
        """Send all of `outgoing` and fill all of `intake`, at the same time.

        Raises PeerTimeout if no byte moves either way for `timeout` seconds, PeerVanished if the peer is gone.
        """

    def post(self, outgoing: Sequence[Buffer | Pieces], reader: Reader[T], step: str) -> Callable[[], T]:
        """Start a transfer; the result waits for it. A link may continue it while the caller computes.

        Calls and their results are in the same order.
        """
        self.transfer(outgoing, Intake(read_nothing()), step)

        def finish() -> T:
            intake = Intake(reader)
            self.transfer([], intake, step)
            return intake.result

        return finish

    @abstractmethod
    def close(self) -> None:
        """End the stream, which the peer notices.  Calling it again has no effect."""
