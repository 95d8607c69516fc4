"""Material that two parties have made ahead of time: each keeps its halves in a file, and uses each piece once.

Functionality  a plan -> a file per party; later its requests, in any order and over several sessions -> their values
Messages       at the start of a session, both ways: the random id of the pair of files (pairwise.py), then how many
               pieces of each request have been used
File           SHA-256 of the label; the label; the counts of used pieces; the pieces, those of equal requests
               together. With a key, the label, which has the seed, and every piece are encrypted; the counts are not
Cost           bytes of the derived values, and 16 per piece; masks are drawn again from a seed and the piece's index.
               Not stored: requests that take no message, and requests about a kept matrix, which need data
Security       a piece is used once: it is marked as used on disk before its values are given out, and neither party
               uses a piece that either has used. So a crash loses pieces, and a file that one party has restored from
               a copy gives out nothing twice. The file is bound to its inode, birth and generation, which a copy does
               not have; device numbers are not compared, since they may change on mounting. An old state written into
               the file is refused by the counts that the user's state folder keeps. Only old disks of both parties,
               state folders included, would be accepted. Checksums detect damage, not forgery.
               Whoever has both parties' files, or one and the messages to that party, learns what the material hid
Source         precomputed correlated randomness: Beaver, CRYPTO 1995
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from cryptography.exceptions import InvalidTag

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.encryption import TAG_BYTES, FileKey, opened
from mpc.host.files import birth_of, write_bytes, writing
from mpc.host.folders import state_folder
from mpc.offline.correlation import Correlation
from mpc.rings import AnyRing
from mpc.words import U8, U64, Shape
from protocols.offline.dealer.server import FEW_BYTES
from protocols.offline.pairwise.cost import request_transfers
from protocols.offline.plan import Plan, decode_plan, encode_plan
from protocols.offline.sizes import request_bytes
from protocols.offline.streams import Streams
from protocols.offline.supply import Request
from protocols.offline.views import PartyView, in_words
from protocols.transport.channel import Channel
from protocols.transport.codec import decode, encode

log = logging.getLogger("sharewood")

FORMAT = 2
_LENGTH, _DIGEST, _TAG = 8, 32, TAG_BYTES
_ROLE = "prepared material"
# The count of used pieces of a request, and its complement.
_MARK = 2 * U64.itemsize


@dataclass(frozen=True)
class Label:
    """The label of a file: random id of the pair, 32 bytes; seed of this party's masks; its rank; both names."""

    pair: bytes
    seed: bytes
    rank: int
    parties: tuple[str, str]


@dataclass(frozen=True)
class _Shelf:
    """The pieces of one request: index of the first, number of pieces, bytes of each, and offset in the file."""

    first: int
    count: int
    size: int
    start: int

    @property
    def end(self) -> int:
        return self.start + self.count * (self.size + _TAG)


class _StoredView(PartyView):
    """Draws this party's masks, and reads every derived value from the piece."""

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        return super().half(ring, shape, None)


def preparable(plan: Plan) -> Plan:
    """Return the part of a plan to prepare, by request: it needs no data and takes messages. Raises NeedsDealer."""
    counts = Counter[Correlation[object]]()
    for requests, times in plan:
        for request in requests:
            counts[request] += times
    return [([r], n) for r, n in counts.items() if n and not hasattr(r, "number") and request_transfers(r).waves]


@contextmanager
def preparing(
    path: Path, label: Label, plan: Plan, key: FileKey | None = None
) -> Iterator[Callable[[Sequence[np.ndarray]], None]]:
    """Write a file: yield a function to call with the packed derived values of each request of the plan, in order.

    The file appears once the block has succeeded; with a key, it is encrypted. Raises DataError.
    """
    with writing(path) as file:
        facts = {"format": FORMAT, "identity": _identity(file.fileno()), "plan": encode_plan(plan), **asdict(label)}
        text = b"".join(encode(facts))
        text = key.encrypt(text, _ROLE) if key else text
        digest = hashlib.sha256(text).digest()
        file.write(len(text).to_bytes(_LENGTH, "little") + digest + text)
        file.write(bytes(_marks_start(len(text)) - file.tell()))
        file.write(_marks(np.zeros(len(plan), U64)))
        keeper = _keeper(key, digest)
        index = 0

        def add(values: Sequence[np.ndarray]) -> None:
            nonlocal index
            data = b"".join(part.data for value in values for part in in_words(value))
            file.write(keeper.closed(index, data))
            index += 1

        yield add


class Prepared:
    """An open file of prepared material, locked against other processes until it is closed.

    Raises DataError for a file that is damaged, of other parties, a copy, restored, used up, or encrypted under another
    key.
    """

    label: Label
    _used: np.ndarray

    def __init__(self, path: Path, rank: int, parties: tuple[str, str], key: FileKey | None = None) -> None:
        self.path, self._key = path, key
        with self._using():
            self._file = open(path, "r+b")  # noqa: SIM115  closed by `close`
        try:
            with self._using():
                self._lock()
                self._read_label()
                self._refuse_if_restored()
            if (self.label.rank, self.label.parties) != (rank, parties):
                raise DataError(
                    f"{path}: must have been prepared by {' and '.join(parties)} for {parties[rank]}, got a file of "
                    f"{' and '.join(self.label.parties)} for {self.label.parties[self.label.rank]}"
                )
            self._refuse_if_used_up()
        except BaseException:
            self._file.close()
            raise

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._shelves[-1].end if self._shelves else 0

    @property
    def count(self) -> int:
        """The number of pieces, used or not."""
        return int(self._counts.sum())

    @property
    def used(self) -> int:
        """The number of used pieces."""
        return int(self._used.sum())

    def agree(self, channel: Channel) -> None:
        """Mark as used what the peer, whose file is of the same pair, has used. Raises DataError if nothing is left."""
        limit = self._used.nbytes + FEW_BYTES
        theirs = channel.exchange_public("pair.used", self._used, limit)
        if not isinstance(theirs, np.ndarray) or theirs.dtype != U64 or theirs.shape != self._used.shape:
            raise ProtocolDesync(f"{channel.peer} must send how many of its prepared pieces are used")
        self._used = np.maximum(self._used, np.minimum(theirs, self._counts))
        self._refuse_if_used_up()

    def fulfil(self, requests: Sequence[Request]) -> list[Request]:
        """Set the values of requests for which there are pieces left; return the other requests. Raises DataError."""
        taken, left = list[tuple[Request, _Shelf, int]](), list[Request]()
        for request in requests:
            place = self._places.get(request.correlation)
            if place is None or self._used[place] == self._counts[place]:
                left.append(request)
            else:
                taken.append((request, self._shelves[place], int(self._used[place])))
                self._used[place] += 1
        if taken:
            with self._using():
                os.pwrite(self._file.fileno(), _marks(self._used), self._marks_start)
                os.fsync(self._file.fileno())
                # Only now: a crash in between must not make the file look older than it is.
                self._note_elsewhere()
        for request, shelf, number in taken:
            view = _StoredView(self.label.rank, self._streams.of(shelf.first + number), self._piece(shelf, number), {})
            request.values = request.correlation.deal(view)
        return left

    def close(self) -> None:
        self._file.close()
        if self.used:
            log.info("%s: %d of %d pieces of prepared material are used", self.path, self.used, self.count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{self.path}: another run is using this prepared material") from None

    def _read_label(self) -> None:
        status = os.fstat(self._file.fileno())
        length = int.from_bytes(self._file.read(_LENGTH), "little")
        digest = self._file.read(_DIGEST)
        text = self._file.read(min(length, status.st_size))
        if hashlib.sha256(text).digest() != digest:
            self._refuse()
        self._keeper = _keeper(self._key, digest)
        facts: Any = decode(bytearray(opened(text, _ROLE, self._key, self.path)))
        if facts["format"] != FORMAT:
            raise DataError(f"{self.path}: prepared material must have format {FORMAT}, got {facts['format']}")
        self.label = Label(facts["pair"], facts["seed"], facts["rank"], tuple(facts["parties"]))
        self._streams = Streams(self.label.seed, self.label.pair)
        self._marks_start = _marks_start(length)
        plan = [(requests[0], count) for requests, count in decode_plan(facts["plan"])]
        self._places = {request: place for place, (request, _) in enumerate(plan)}
        self._counts = np.array([count for _, count in plan], U64)
        self._shelves = list[_Shelf]()
        first, start = 0, self._marks_start + _MARK * len(plan)
        for request, count in plan:
            self._shelves.append(_Shelf(first, count, _size(request), start))
            first, start = first + count, self._shelves[-1].end
        if status.st_size != start:
            self._refuse()
        if facts["identity"] != _identity(self._file.fileno()):
            raise DataError(f"{self.path}: this is a copy of prepared material: only the original file may be used")
        used = _counts_of(os.pread(self._file.fileno(), _MARK * len(plan), self._marks_start), self._counts)
        if used is None:
            self._refuse()
        self._used = used

    def _refuse_if_restored(self) -> None:
        """Compare the marks with the last ones that this user's runs wrote on this machine."""
        try:
            folder = state_folder() / "prepared"
            folder.mkdir(mode=0o700, exist_ok=True)
        except (ConfigError, OSError) as error:
            raise DataError(
                f"{self.path}: what is used must also be noted outside of the file: set XDG_STATE_HOME to a folder of "
                f"this user ({error})"
            ) from None
        self._elsewhere = folder / f"{self.label.pair.hex()}-{self.label.rank}"
        if not self._elsewhere.exists():
            return
        noted = _counts_of(self._elsewhere.read_bytes(), self._counts)
        if noted is None:
            raise DataError(f"{self._elsewhere}: is damaged, so that {self.path} may be an old copy: prepare again")
        if (noted > self._used).any():
            raise DataError(
                f"{self.path}: an old copy of prepared material was restored: {self.used} pieces are marked as used, "
                f"but {int(noted.sum())} were: prepare again at both parties"
            )

    def _note_elsewhere(self) -> None:
        if not self._elsewhere.exists():
            write_bytes(self._elsewhere, _marks(np.zeros_like(self._used)))
        with open(self._elsewhere, "r+b") as file:
            file.write(_marks(self._used))
            file.flush()
            os.fsync(file.fileno())

    def _piece(self, shelf: _Shelf, number: int) -> np.ndarray:
        """Read the packed derived values of a request."""
        piece = np.empty(shelf.size + _TAG, U8)
        with self._using():
            self._file.seek(shelf.start + number * piece.size)
            self._file.readinto(piece.data)
        data = self._keeper.opened(shelf.first + number, piece)
        if data is None:
            self._refuse()
        return data

    def _refuse(self) -> NoReturn:
        raise DataError(f"{self.path}: is not prepared material, or is damaged: prepare again at both parties")

    def _refuse_if_used_up(self) -> None:
        if self.used == self.count:
            raise DataError(f"{self.path}: all of this prepared material is used: prepare again at both parties")

    @contextmanager
    def _using(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise DataError(f"{self.path}: there is no such file: run sharewood prepare at both parties") from None
        except OSError as error:
            raise DataError(f"{self.path}: cannot be used ({error.strerror})") from None


def _size(request: Correlation[object]) -> int:
    """Return the bytes of the derived values of a request, each padded to whole words."""
    return sum(request_bytes(request).corrections)


def _marks_start(length: int) -> int:
    """Return where the marks begin after a label of this length: a multiple of a mark, so that none is half written."""
    end = _LENGTH + _DIGEST + length
    return end + -end % _MARK


def _identity(descriptor: int) -> list[int]:
    """Return what tells a file from its copies."""
    return [os.fstat(descriptor).st_ino, *birth_of(descriptor)]


def _counts_of(marks: bytes, most: np.ndarray) -> np.ndarray | None:
    """Return the counts in marks; None if they are damaged."""
    if len(marks) != _MARK * len(most):
        return None
    used, complement = np.frombuffer(marks, U64).reshape(-1, 2).T.copy()
    return None if (used != ~complement).any() or (used > most).any() else used


def _marks(used: np.ndarray) -> bytes:
    return np.stack([used, ~used], axis=1).tobytes()


class _Checked:
    """Pieces with a checksum that binds each to its file and its index."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def closed(self, index: int, data: bytes) -> bytes:
        """Return a piece as it is written to the file."""
        return data + self._tag(index, data)

    def opened(self, index: int, piece: np.ndarray) -> np.ndarray | None:
        """Return the content of a piece; None if it is damaged."""
        data, tag = piece[:-_TAG], piece[-_TAG:].tobytes()
        return data if tag == self._tag(index, data.data) else None

    def _tag(self, index: int, data: bytes | memoryview) -> bytes:
        checksum = hashlib.sha256(self._digest + index.to_bytes(8, "little"))
        checksum.update(data)
        return checksum.digest()[:_TAG]


class _Encrypted:
    """Encrypted pieces; the nonce is the index, and the key is unique to this file."""

    def __init__(self, key: FileKey, digest: bytes) -> None:
        self._cipher, self._digest = key.cipher(digest, b"sharewood pieces"), digest

    def closed(self, index: int, data: bytes) -> bytes:
        """Return a piece as it is written to the file."""
        return self._cipher.encrypt(index.to_bytes(12, "big"), data, self._digest)

    def opened(self, index: int, piece: np.ndarray) -> np.ndarray | None:
        """Return the content of a piece; None if it is damaged."""
        try:
            return np.frombuffer(self._cipher.decrypt(index.to_bytes(12, "big"), piece.data, self._digest), U8)
        except InvalidTag:
            return None


def _keeper(key: FileKey | None, digest: bytes) -> _Checked | _Encrypted:
    """Return how pieces are stored. `digest` is of the label, which is random or encrypted with a random salt."""
    return _Encrypted(key, digest) if key else _Checked(digest)
