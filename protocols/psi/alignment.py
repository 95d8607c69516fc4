"""The rows that all parties have: private set intersection of their ids, with openmined-psi.

Functionality  ids of the guest and of every host -> to each party, its rows of the common ids, all in the same order
Messages       guest <-> each host: an ECDH-PSI over the curve P-256 (request, response and set-up); then the
               guest sends the common ids to every host
Security       semi-honest. With one host, each party learns the common ids and how many ids the other has, and
               nothing about an id that it does not have itself: it sees only a point of the curve, blinded by a key
               that is used once. The common ids are sorted as text, so their order reveals nothing about other rows.
               With several hosts the protocol runs between the guest and each of them, so the guest also learns
               its intersection with each host; the hosts learn only the ids common to all
Source         Meadows 1986; Huberman, Franklin and Hogg, EC 1999
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

import numpy as np
import pandas as pd

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.extras import install
from protocols.transport.channel import Channel
from protocols.transport.frames import DATA_LIMIT, FACTS_LIMIT

NONE_IN_COMMON = "ids: the parties have none in common; ids are compared as text"
_COUNT, _REQUEST, _RESPONSE, _COMMON = (f"align.{step}" for step in ("count", "request", "response", "common"))
_NO_FALSE_POSITIVES = 1e-12  # ignored: the RAW structure has no false positives


def align_guest(hosts: Mapping[str, Channel], ids: Sequence[object]) -> np.ndarray:
    """ids, one per row -> the rows of the common ids, int64, sorted by the ids as text. Raises DataError."""
    return _some(_guest(hosts, _checked(ids)))


def align_host(guest: Channel, ids: Sequence[object]) -> np.ndarray:
    """Run the host's part: return its rows of the common ids, int64, in the guest's order. Raises DataError."""
    return _some(_host(guest, _checked(ids)))


def align_shard(peer: Channel, rank: int, ids: Sequence[object]) -> np.ndarray:
    """Align one shard, which may have no ids, or none in common; party 0 is the guest.

    Shards are aligned one after another, or each over its own channel: no process holds all ids.
    """
    own = _checked(ids) if len(ids) else []
    theirs = peer.exchange_public(_COUNT, len(own), FACTS_LIMIT)
    if type(theirs) is not int or theirs < 0:
        raise ProtocolDesync(f"{peer.peer} must send its number of ids")
    if not own or not theirs:
        return np.zeros(0, np.int64)
    return _guest({peer.peer: peer}, own) if rank == 0 else _host(peer, own)


def _guest(hosts: Mapping[str, Channel], own: list[str]) -> np.ndarray:
    library = psi()
    parties = {name: library.client.CreateWithNewKey(True) for name in hosts}
    for name, channel in hosts.items():
        channel.send(_REQUEST, (len(own), parties[name].CreateRequest(own).SerializeToString()))
    common = np.ones(len(own), bool)
    for name, channel in hosts.items():
        answer = channel.receive(_RESPONSE, DATA_LIMIT)
        try:
            setup, response = answer
            found = parties[name].GetIntersection(
                library.ServerSetup.FromString(setup), library.Response.FromString(response)
            )
        except Exception as error:  # the library and protobuf raise their own kinds
            raise ProtocolDesync(f"{name} sent a malformed intersection: {error}") from error
        common &= np.isin(np.arange(len(own)), found)
    shared = sorted(np.array(own, object)[common])
    for channel in hosts.values():
        channel.send(_COMMON, shared)
    return _rows(own, shared)


def _host(guest: Channel, own: list[str]) -> np.ndarray:
    library = psi()
    party = library.server.CreateWithNewKey(True)
    question = guest.receive(_REQUEST, DATA_LIMIT)
    try:
        count, request = question
        response = party.ProcessRequest(library.Request.FromString(request))
        setup = party.CreateSetupMessage(_NO_FALSE_POSITIVES, count, own, library.DataStructure.RAW)
    except Exception as error:  # the library and protobuf raise their own kinds
        raise ProtocolDesync(f"{guest.peer} sent a malformed request: {error}") from error
    guest.send(_RESPONSE, (setup.SerializeToString(), response.SerializeToString()))
    shared = guest.receive(_COMMON, DATA_LIMIT)
    if type(shared) is not list or any(type(each) is not str for each in shared) or shared != sorted(set(shared)):
        raise ProtocolDesync(f"{guest.peer} must name the common ids in order, each once")
    if not set(own).issuperset(shared):
        raise ProtocolDesync(f"{guest.peer} named common ids that are not here")
    return _rows(own, shared)


def psi() -> ModuleType:
    """Import openmined-psi. Raises ConfigError if it is not installed."""
    try:
        from private_set_intersection import python
    except ImportError:
        needs = "private set intersection needs openmined-psi, which is not installed"
        raise ConfigError(f"{needs}: {install('align')}") from None
    return python


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
