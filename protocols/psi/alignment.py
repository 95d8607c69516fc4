"""The rows that all parties have: private set intersection of their ids, by Diffie and Hellman.

Functionality  ids of the guest and of every host -> to each party, its rows of the common ids, all in the same order
Messages       guest <-> each host: its ids as masked points, 32 bytes each, the host's sorted        (one round)
               each host -> guest: the guest's points, masked by both, 16 bytes of each
               guest -> each host: the common ids
Cost           n ids of the guest, m of a host: 48 n + 32 m bytes, and the common ids; each party computes one hash to
               the curve for each of its ids, and n + m products
Security       semi-honest, by the decisional Diffie-Hellman assumption in the subgroup of prime order of Curve25519,
               with BLAKE2b as a random oracle. With one host, each party learns the common ids and how many ids the
               other has, and nothing about an id that it does not have itself: it sees only a point that is masked
               by a key that is used once. Elligator 2 reaches half of the curve: the simulator rejects points that it
               does not reach. The common ids are sorted as text, and a host's points as bytes, so their order reveals
               nothing about other rows. `pad` adds points that stand for no id, up to a multiple of it, so that the
               number of points bounds that of the ids. Points of small order, not reduced or repeated are refused
               With several hosts the protocol runs between the guest and each of them, so the guest also learns
               its intersection with each host; the hosts learn only the ids common to all
Source         Meadows, S&P 1986; Huberman, Franklin and Hogg, EC 1999
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mpc.errors import DataError, ProtocolDesync
from mpc.host.frames import pd
from protocols.psi.points import POINT, hashed, masked, read_points
from protocols.transport.channel import Channel
from protocols.transport.frames import DATA_LIMIT

NONE_IN_COMMON = "ids: the parties have none in common; ids are compared as text"
_POINTS, _TWICE, _COMMON = (f"align.{step}" for step in ("points", "twice", "common"))
# Bytes of a point that are compared: 10^7 ids of each party collide with probability 2^-81.
_TAG = 16


def align_guest(hosts: Mapping[str, Channel], ids: Sequence[object], pad: int = 1) -> np.ndarray:
    """ids, one per row -> the rows of the common ids, int64, sorted by the ids as text. Raises DataError.

    pad: the number of points that the hosts see is a multiple of it.
    """
    return _some(_guest(hosts, _checked(ids), pad))


def align_host(guest: Channel, ids: Sequence[object], pad: int = 1) -> np.ndarray:
    """Run the host's part: return its rows of the common ids, int64, in the guest's order. Raises DataError."""
    return _some(_host(guest, _checked(ids), pad))


def align_shard(peer: Channel, rank: int, ids: Sequence[object], pad: int = 1) -> np.ndarray:
    """Align one shard, which may have no ids, or none in common; party 0 is the guest.

    Shards are aligned one after another, or each over its own channel: no process holds all ids.
    """
    own = _checked(ids) if len(ids) else []
    return _guest({peer.peer: peer}, own, pad) if rank == 0 else _host(peer, own, pad)


def _guest(hosts: Mapping[str, Channel], own: list[str], pad: int) -> np.ndarray:
    points, keys = hashed(_padded(own, pad)), {name: os.urandom(POINT) for name in hosts}
    theirs = {name: _exchanged(channel, masked(points, keys[name])) for name, channel in hosts.items()}
    common = set(own)
    for name, channel in hosts.items():
        found = {point[:_TAG] for point in _masked(channel, theirs[name], keys[name])}
        answer = channel.receive(_TWICE, DATA_LIMIT)
        if type(answer) is not bytes or len(answer) != _TAG * len(points):
            raise ProtocolDesync(f"{name} must return {_TAG} bytes for each of {len(points)} points")
        common &= {text for row, text in enumerate(own) if answer[_TAG * row : _TAG * (row + 1)] in found}
    shared = sorted(common)
    for channel in hosts.values():
        channel.send(_COMMON, shared)
    return _rows(own, shared)


def _host(guest: Channel, own: list[str], pad: int) -> np.ndarray:
    key = os.urandom(POINT)
    theirs = _exchanged(guest, sorted(masked(hashed(_padded(own, pad)), key)))
    guest.send(_TWICE, b"".join(point[:_TAG] for point in _masked(guest, theirs, key)))
    shared = guest.receive(_COMMON, DATA_LIMIT)
    if type(shared) is not list or any(type(each) is not str for each in shared) or shared != sorted(set(shared)):
        raise ProtocolDesync(f"{guest.peer} must name the common ids in order, each once")
    if not set(own).issuperset(shared):
        raise ProtocolDesync(f"{guest.peer} named common ids that are not here")
    return _rows(own, shared)


def _padded(own: list[str], pad: int) -> list[bytes]:
    """Return the ids, and random ones up to a multiple of `pad`; at least one."""
    return [text.encode() for text in own] + [os.urandom(POINT) for _ in range(-len(own) % pad if own else pad)]


def _exchanged(peer: Channel, points: list[bytes]) -> list[bytes]:
    """Send masked points, and return the peer's. Raises ProtocolDesync."""
    told = peer.exchange_public(_POINTS, b"".join(points), DATA_LIMIT)
    if type(told) is not bytes:
        raise ProtocolDesync(f"{peer.peer} must send its ids as points")
    try:
        return read_points(told)
    except ValueError as error:
        raise ProtocolDesync(f"{peer.peer} sent malformed points: {error}") from None


def _masked(peer: Channel, theirs: list[bytes], key: bytes) -> list[bytes]:
    try:
        return masked(theirs, key)
    except ValueError as error:
        raise ProtocolDesync(f"{peer.peer} sent malformed points: {error}") from None


def _checked(ids: Sequence[object]) -> list[str]:
    """Return the ids as text. Raises DataError if one is missing, repeated, or not text or a whole number."""
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes)):
        raise DataError(f"ids must be a sequence of text or whole numbers, got {type(ids).__name__}")
    texts = [_text(row, value) for row, value in enumerate(ids)]
    if not texts:
        raise DataError("ids: must not be empty")
    repeated = pd.Series(texts, dtype=object).duplicated().to_numpy()
    if repeated.any():
        row = int(np.flatnonzero(repeated)[0])
        raise DataError(f"ids: row {row}: id {texts[row]!r} appears twice")
    return texts


def _text(row: int, value: object) -> str:
    if pd.api.types.is_scalar(value) and (pd.isna(value) or value == ""):
        raise DataError(f"ids: row {row}: the id is missing")
    if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool):
        raise DataError(f"ids: row {row}: an id must be text or a whole number, got a value of {type(value)}")
    text = str(value)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"ids: row {row}: id {text!r} is not valid Unicode")
    return text


def _rows(own: list[str], shared: list[str]) -> np.ndarray:
    return pd.Index(own).get_indexer(pd.Index(shared, dtype=object))


def _some(rows: np.ndarray) -> np.ndarray:
    if not rows.size:
        raise DataError(NONE_IN_COMMON)
    return rows
