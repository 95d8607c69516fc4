"""The frame around every message: its kind, step tag, number and length.

Frame    header (24 bytes, little-endian) | step tag (utf-8, at most 255 bytes) | payload
Header   magic "SHRW" | version u16 | kind u8 | tag length u8 | sequence number u64 | payload length u64
Checks   every field is compared with what this party's own step expects, before the payload is received
         or memory allocated for it; a difference raises ProtocolDesync
Ending   a party that gives up may send one last frame of kind END: its tag is the reason, and it has no payload

A reader is a generator: it yields the next buffer to fill, and returns once its frame is complete.
"""

import struct
from collections.abc import Generator
from enum import IntEnum
from typing import TypeVar

from mpc.errors import PeerVanished, ProtocolDesync

MAGIC = b"SHRW"
VERSION = 4
HEADER = struct.Struct("<4sHBBQQ")
MAX_TAG = 255
# Most bytes of a payload: of public facts, and of anything that grows with the data.
FACTS_LIMIT, DATA_LIMIT = 256 << 20, 8 << 30
_SKIPPED = 64 << 10

T = TypeVar("T")
Reader = Generator[memoryview, None, T]


class Kind(IntEnum):
    """How to read the payload."""

    ARRAYS = 0  # raw bytes of arrays whose shapes and dtypes the receiver knows
    TREE = 1  # see codec.py
    END = 2


def head(kind: Kind, tag: str, sequence: int, length: int) -> bytes:
    """Return header and step tag of a frame whose payload has `length` bytes.  Raises ValueError."""
    encoded = tag.encode()
    if len(encoded) > MAX_TAG:
        raise ValueError(f"step tag of {len(encoded)} bytes, at most {MAX_TAG} allowed: {tag}")
    return HEADER.pack(MAGIC, VERSION, kind, len(encoded), sequence, length) + encoded


def read_head(kind: Kind, tag: str, sequence: int, limit: int, peer: str) -> Reader[int]:
    """Read header and step tag, and return the length of the payload.

    Raises ProtocolDesync, and PeerVanished with the reason if `peer` has ended the session.
    """
    seen_kind, seen_sequence, length, seen_tag = yield from _read_any_head()
    if seen_kind == Kind.END:
        raise _ended(peer, seen_tag)
    if seen_tag != tag.encode():
        raise ProtocolDesync(f"expected {tag}, got {_printable(seen_tag)}")
    _expect(f"{tag}: frame number", sequence, seen_sequence)
    _expect(f"{tag}: payload kind", kind.value, seen_kind)
    if length > limit:
        raise ProtocolDesync(f"{tag}: payload of {length} bytes announced, at most {limit} allowed")
    return length


def read_nothing() -> Reader[None]:
    yield from ()


def read_to_the_end(peer: str) -> Reader[None]:
    """Skip all frames up to the one with which `peer` ended the session. Raises PeerVanished, ProtocolDesync."""
    while True:
        kind, _, length, tag = yield from _read_any_head()
        if kind == Kind.END:
            raise _ended(peer, tag)
        while length:
            skipped = bytearray(min(length, _SKIPPED))
            yield memoryview(skipped)
            length -= len(skipped)


def _read_any_head() -> Reader[tuple[int, int, int, bytearray]]:
    """Read kind, sequence number, payload length and step tag. Raises ProtocolDesync."""
    header = bytearray(HEADER.size)
    yield memoryview(header)
    magic, version, kind, tag_length, sequence, length = HEADER.unpack(header)
    _expect("magic", MAGIC, magic)
    _expect("protocol version", VERSION, version)
    tag = bytearray(tag_length)
    if tag:
        yield memoryview(tag)
    return kind, sequence, length, tag


def _ended(peer: str, reason: bytearray) -> PeerVanished:
    failure = PeerVanished(f"{peer} ended the session: {_printable(reason)}")
    failure.explained = True
    return failure


def _expect(what: str, expected: object, seen: object) -> None:
    if seen != expected:
        raise ProtocolDesync(f"{what}: expected {expected}, got {seen}")


def _printable(tag: bytearray) -> str:
    text = tag.decode(errors="backslashreplace")
    return text if text.isprintable() else ascii(text)
