"""The shard that a row belongs to, if two parties hold columns of the same rows.

agree_on_shards  each party's number of shards -> a key that both drew, 32 bytes
shard_numbers    ids, key -> the shard of each: the keyed hash of its text, modulo the number of shards

Messages         each party -> the other: the number of shards, 32 random bytes                  (one round)
Cost             one round
Security         semi-honest. Both know the key, and hence how many rows each shard has; no id is sent. A new key is
                 drawn for every division, so the shards of one reveal nothing about those of another
Source           BLAKE2b, RFC 7693, keyed
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

import numpy as np

from mpc.errors import ConfigError, ProtocolDesync
from protocols.transport.channel import Channel

_KEY_BYTES = 32
_LIMIT = 4096


def agree_on_shards(peer: Channel, rank: int, count: int) -> bytes:
    """Agree on the key of a division into `count` shards, 0 for none. Raises ConfigError if the parties differ."""
    mine = os.urandom(_KEY_BYTES)
    told = peer.exchange_public("shards.key", {"count": count, "bytes": mine}, _LIMIT)
    if (
        not isinstance(told, dict)
        or told.keys() != {"count", "bytes"}
        or type(told["count"]) is not int
        or not isinstance(told["bytes"], bytes)
        or len(told["bytes"]) != _KEY_BYTES
    ):
        raise ProtocolDesync(f"{peer.peer} must name its number of shards and {_KEY_BYTES} bytes")
    if told["count"] != count:
        raise ConfigError(
            f"both parties must divide their rows into the same number of shards, got {count or 'none'} here and "
            f"{told['count'] or 'none'} at {peer.peer}"
        )
    both = (mine, told["bytes"]) if rank == 0 else (told["bytes"], mine)
    return hashlib.blake2b(b"".join(both), digest_size=_KEY_BYTES, person=b"sharewood shards").digest()


def shard_numbers(ids: Iterable[str], key: bytes, count: int) -> np.ndarray:
    """Return the shard of each id, int64[n], 0 .. count - 1."""
    hashes = (hashlib.blake2b(one.encode(), digest_size=8, key=key).digest() for one in ids)
    return (np.frombuffer(b"".join(hashes), "<u8") % np.uint64(count)).astype(np.int64)
