"""A party's side of the dealer: plans go out, corrections come in ahead, and every request is given out once.

Requests are expanded from seed and corrections as they come in, up to a bound on memory; beyond it, when taken. What
takes no correction is made while the dealer is at work, for the requests that it fulfils first.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, BinaryIO, TypeVar

import numpy as np

from mpc.correlation import Correlation
from mpc.errors import DataError, ProtocolDesync
from mpc.linear_map import MatrixVectors
from protocols.randomness.dealer import BATCH, BATCH_REQUESTS, FEW_BYTES, NONCE_BYTES, SEED_BYTES
from protocols.randomness.plan import Plan, encode_plan, in_order
from protocols.randomness.prg import Streams
from protocols.randomness.sizes import correction_bytes
from protocols.randomness.views import NotYet, PartyView
from protocols.transport.channel import Channel
from protocols.transport.codec import encode

T = TypeVar("T")
log = logging.getLogger("sharewood")
IN_MEMORY = 1 << 30
_SILENCE = 10.0
EXPANDED = 1 << 28
EARLY = BATCH


@dataclass
class _Waiting:
    """A request to be taken: its place in the streams, the size of its corrections, and what is known ahead."""

    index: int
    correlation: Correlation[Any]
    size: int
    own: list[np.ndarray] | None = None
    computed: np.ndarray | None = None
    values: Any = None
    ready: bool = False
    held: int = 0


class DealtRandomness:
    """Implements `mpc.party.Randomness` over a channel to the dealer."""

    def __init__(self, rank: int, dealer: Channel) -> None:
        self._rank, self._dealer = rank, dealer
        own = os.urandom(NONCE_BYTES)
        dealer.send("dealer.hello", own)
        seed, nonce = _parts_of(dealer.receive("dealer.session", FEW_BYTES), {"seed": bytes, "nonce": bytes})
        if len(seed) != SEED_BYTES or len(nonce) != 3 * NONCE_BYTES or own not in (nonce[16:32], nonce[32:]):
            raise ProtocolDesync(f"{dealer.peer} opened a session that is not this party's")
        self.session = hashlib.sha256(nonce).digest()
        self._streams = Streams(seed, nonce)
        self._matrices: dict[int, np.ndarray] = {}
        self._waiting: deque[_Waiting] = deque()
        self._spool = _Spool()
        self._index = self._expanded = self.used = 0

    @property
    def received(self) -> int:
        return self._dealer.wire_received

    def keep(self, number: int, masked: np.ndarray) -> None:
        self._matrices[number] = masked

    def forget(self, number: int) -> None:
        self._matrices.pop(number, None)

    def provide(self, plan: Plan) -> None:
        """Send the plan and take in its corrections; what this party can compute ahead is computed."""
        self._dealer.send("dealer.plan", b"".join(encode(encode_plan(plan))))
        coming = deque(
            _Waiting(index, request, correction_bytes(request)[self._rank])
            for index, request in enumerate(in_order(plan), self._index)
        )
        total = len(coming)
        self._index += total
        self._start(coming)
        longest = BATCH + max((request.size for request in coming), default=0) + 8 * BATCH_REQUESTS + FEW_BYTES
        logged = monotonic()
        while coming:
            for request, corrections in self._batch(coming, longest):
                self._add(request, corrections)
            if coming and monotonic() - logged >= _SILENCE:
                logged, share = monotonic(), (total - len(coming)) / total
                log.info("correlated randomness: %.0f%% of the requests, %.0f MB", 100 * share, self.received / 1e6)

    def _batch(self, coming: deque[_Waiting], longest: int) -> list[tuple[_Waiting, np.ndarray]]:
        """The next requests with their corrections, from a message of at most so many bytes. Raises ProtocolDesync."""
        message = self._dealer.receive("dealer.batch", longest)
        sizes, data = _parts_of(message, {"sizes": np.int64, "data": np.uint8})
        if not 0 < sizes.size <= len(coming):
            raise ProtocolDesync(f"the dealer must answer {len(coming)} requests at most, got {sizes.size} answers")
        answered = [coming.popleft() for _ in range(sizes.size)]
        due = np.array([request.size for request in answered], np.int64)
        if not np.array_equal(sizes, due) or due.sum() != data.size:
            raise ProtocolDesync("the dealer's corrections do not fit the plan")
        return list(zip(answered, np.split(data, np.cumsum(due)[:-1]), strict=True))

    def _start(self, coming: Iterable[_Waiting]) -> None:
        """Make what the first requests to come hold without corrections."""
        made = 0
        for request in coming:
            if made > EARLY or self._expanded + made > EXPANDED:
                break
            view = self._view(request, None, ahead=True)
            with suppress(NotYet):
                request.correlation.deal(view)
                request.own = view.own
            made += view.held

    def _add(self, request: _Waiting, corrections: np.ndarray) -> None:
        self._waiting.append(request)
        room = self._expanded < EXPANDED
        # The product with a known matrix is worked out ahead in any case.
        if room or isinstance(request.correlation, MatrixVectors):
            view = self._view(request, corrections, ahead=True)
            request.own = None
            with suppress(NotYet):
                values = request.correlation.deal(view)
                request.computed = view.computed_result
                if room:
                    request.values, request.ready, request.held = values, True, view.held
                    self._expanded += request.held
                    return
        self._spool.put(corrections)

    def _view(self, request: _Waiting, corrections: np.ndarray | None, ahead: bool = False) -> PartyView:
        stream, own, computed = self._streams.of(request.index), request.own, request.computed
        return PartyView(self._rank, stream, corrections, self._matrices, ahead, own, computed)

    def take(self, correlation: Correlation[T]) -> T:
        """The next request of the plan, which must be this one; without a plan it is asked for on the spot."""
        if not self._waiting:
            self.provide([([correlation], 1)])
        request = self._waiting.popleft()
        if request.correlation != correlation:
            raise ProtocolDesync(f"the plan has {request.correlation} where the program asks for {correlation}")
        self.used += request.size
        if request.ready:
            self._expanded -= request.held
            return request.values
        return correlation.deal(self._view(request, self._spool.get(request.size)))

    def close(self) -> None:
        """Tell the dealer that this party needs nothing more."""
        self._dealer.send("dealer.plan", None)


def _parts_of(message: Any, parts: dict[str, type]) -> list[Any]:
    """The parts of a message of the dealer by name: bytes, or flat arrays of a dtype. Raises ProtocolDesync."""
    if not isinstance(message, dict) or message.keys() != parts.keys():
        raise ProtocolDesync(f"the dealer must send {' and '.join(parts)}")
    for name, kind in parts.items():
        value = message[name]
        flat = isinstance(value, np.ndarray) and value.dtype == kind and value.ndim == 1
        if not (isinstance(value, bytes) if kind is bytes else flat):
            raise ProtocolDesync(f"the dealer must send {name} as {kind.__name__}")
    return [message[name] for name in parts]


class _Spool:
    """First in, first out: arrays of bytes in memory, and beyond a bound in a nameless file."""

    def __init__(self) -> None:
        self._held: deque[np.ndarray | None] = deque()
        self._bytes = 0
        self._file: BinaryIO | None = None
        self._written = self._read = 0

    def put(self, data: np.ndarray) -> None:
        """Raises DataError where the disk is full."""
        if self._bytes + data.size <= IN_MEMORY:
            self._bytes += data.size
            # A copy: a slice would hold the whole batch that it came in.
            self._held.append(data.copy())
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  lives as long as the spool
            rest = data.data
            while rest:
                count = os.pwrite(self._file.fileno(), rest, self._written)
                self._written, rest = self._written + count, rest[count:]
        except OSError as error:
            raise DataError(
                f"{tempfile.gettempdir()}: correlated randomness beyond {IN_MEMORY / 1e9:.1f} GB cannot be written "
                f"({error.strerror}): make room there, or name another folder by TMPDIR"
            ) from None
        self._held.append(None)

    def get(self, size: int) -> np.ndarray:
        data = self._held.popleft()
        if data is not None:
            self._bytes -= data.size
            return data
        assert self._file is not None, "spooled data has a file"
        data = np.empty(size, np.uint8)
        rest = data.data
        while rest:
            count = os.preadv(self._file.fileno(), [rest], self._read)
            assert count, "what was written is there"
            self._read, rest = self._read + count, rest[count:]
        return data
