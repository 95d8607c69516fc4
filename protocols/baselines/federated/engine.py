"""A federation as its server sees it: named steps, one message to each client, one reply from each that answers.

A message is a dictionary of numpy arrays (bytes are sent as uint8), so nothing received is ever unpickled or
evaluated. `Federation` has two implementations: `LocalFederation` calls the clients in this process, and
`protocols.baselines.federated.flower.FlowerFederation` reaches them through Flower. The systems use only `Federation`,
so both run the same training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mpc.errors import DataError, PeerVanished, ProtocolDesync

Message = dict[str, np.ndarray]
HELPER = -1


def as_bytes(data: bytes) -> np.ndarray:
    """bytes -> uint8[n], the form in which bytes are sent."""
    return np.frombuffer(data, np.uint8)


def message_bytes(message: Message) -> int:
    """Return the payload bytes of a message: its arrays, without names and framing."""
    return sum(array.nbytes for array in message.values())


def field(message: Message, name: str, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array `name` of a received message; -1 in `shape` is any length. Raises ProtocolDesync."""
    array = message.get(name)
    if array is None:
        raise ProtocolDesync(f"the message has no {name!r}; it has {', '.join(sorted(message)) or 'nothing'}")
    fits = array.ndim == len(shape) and all(want in (-1, got) for want, got in zip(shape, array.shape, strict=True))
    if array.dtype != np.dtype(dtype) or not fits:
        expected = f"{np.dtype(dtype)}{list(shape)}"
        raise ProtocolDesync(f"{name!r}: expected {expected}, got {array.dtype}{list(array.shape)}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ProtocolDesync(f"{name!r}: every value must be finite")
    return array


class Participant:
    """A client, or the helper of a secure sum: the steps that it answers, and its state between them.

    `memory` has only arrays, and is the whole state: an engine may move it from one process to another.
    """

    def __init__(self) -> None:
        self.memory: Message = {}

    @property
    def steps(self) -> dict[str, Callable[[Message], Message]]:
        """The handler of each step."""
        raise NotImplementedError

    def answer(self, step: str, message: Message) -> Message:
        """Answer a message. Raises ProtocolDesync for a step that this participant does not have."""
        handler = self.steps.get(step)
        if handler is None:
            raise ProtocolDesync(f"{type(self).__name__} has no step {step!r}")
        return handler(message)


class Federation(ABC):
    """The clients of a system, as its server uses them. `clients`: their ids, ascending.

    `sent` and `received` count the payload bytes of each step, over all clients and the helper.
    """

    def __init__(self, clients: Iterable[int], minimum: int) -> None:
        self.clients = tuple(sorted(clients))
        self.minimum = minimum
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        if not 1 <= minimum <= len(self.clients):
            raise DataError(f"{len(self.clients)} clients joined, and at least {max(minimum, 1)} are needed")

    @abstractmethod
    def _deliver(self, step: str, messages: Mapping[int, Message]) -> dict[int, Message]:
        """Send each client its message; return the replies that came in time. A refusal raises its own error."""

    def ask(self, step: str, messages: Mapping[int, Message]) -> dict[int, Message]:
        """Run one round; return the replies by client id, ascending, without clients that dropped out.

        Raises PeerVanished if fewer than `minimum` clients answer.
        """
        replies = self._exchange(step, messages)
        if len(replies) < self.minimum:
            raise PeerVanished(f"step {step!r}: {len(replies)} clients answered, at least {self.minimum} are needed")
        return replies

    def broadcast(self, step: str, message: Message) -> dict[int, Message]:
        """Call `ask` with the same message for every client."""
        return self.ask(step, dict.fromkeys(self.clients, message))

    def ask_helper(self, step: str, message: Message) -> Message:
        """Send a message to the helper, and return its reply. Raises PeerVanished if it does not answer."""
        replies = self._exchange(step, {HELPER: message})
        if HELPER not in replies:
            raise PeerVanished(f"step {step!r}: the helper did not answer")
        return replies[HELPER]

    def _exchange(self, step: str, messages: Mapping[int, Message]) -> dict[int, Message]:
        self.sent[step] += sum(map(message_bytes, messages.values()))
        replies = self._deliver(step, messages)
        self.received[step] += sum(map(message_bytes, replies.values()))
        return dict(sorted(replies.items()))


class LocalFederation(Federation):
    """All participants in this process. `absent(step, client)` says whether the client drops out of the step."""

    def __init__(
        self,
        participants: Mapping[int, Participant],
        minimum: int = 1,
        absent: Callable[[str, int], bool] = lambda step, client: False,
    ) -> None:
        super().__init__((i for i in participants if i != HELPER), minimum)
        self._participants = participants
        self._absent = absent

    def _deliver(self, step: str, messages: Mapping[int, Message]) -> dict[int, Message]:
        present = {i: m for i, m in messages.items() if i in self._participants and not self._absent(step, i)}
        return {i: self._participants[i].answer(step, message) for i, message in present.items()}
