"""Check that the rows of vertical tables have the same ids in the same order.

Functionality  a digest of the ids from each party -> one bit to both: whether they are equal; and of <a digest> of each
               owner who is no party, whether it is that of both parties
Cost           six rounds: 16 bytes in the first, and two bits for each of 15 conjunctions; of owners, four rounds: 16
               bytes, 16 bits and two for each
Security       semi-honest, perfect given the digests: they are compared on shares, and only the bit is revealed
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from mpc.arithmetic.bits import and_bits
from mpc.errors import DataError
from mpc.lookup.equality import equals_zero
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare, BShare
from mpc.words import U8

BYTES = 16
# A digest is a polynomial in FACTOR modulo a prime, whose coefficients are hashes of the ids.
_PRIME = (1 << 128) - 159
_FACTOR = int.from_bytes(hashlib.sha256(b"ids of rows").digest()[:BYTES], "little")


def digest_of(ids: Iterable[str]) -> bytes:
    """Return a digest of ids in their order."""
    value = 0
    for one in ids:
        value = (value * _FACTOR + int.from_bytes(hashlib.sha256(one.encode()).digest()[:BYTES], "little")) % _PRIME
    return value.to_bytes(BYTES, "little")


def joined_digest(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Return `digest_of` the ids of parts, one after the other, from the digests of these and their numbers of rows."""
    value = 0
    for digest, rows in parts:
        value = (value * pow(_FACTOR, rows, _PRIME) + int.from_bytes(digest, "little")) % _PRIME
    return value.to_bytes(BYTES, "little")


def check_same_rows(party: Party, digest: bytes, where: str = "") -> None:
    """Raise DataError at both parties if their ids or the order of these differ.

    Both parties, or for shards each pair of workers, must call this with `digest_of` their ids. The message begins with
    `where`, such as "shard 3: ".
    """
    word = np.frombuffer(digest, U8)
    difference = AShare(word if party.rank == 0 else np.negative(word), party.rank)

    def program(party: Party) -> bool:
        same = party.reveal(party.run(_equal(party, difference)), what="whether the rows have the same ids")
        assert same is not None, "revealed to both"
        return bool(same[0])

    if not planned(party, "rows", program):
        raise DataError(f"{where}both parties must have the same ids in the same order: run sharewood align first")


def check_rows_of_owners(party: Party, digest: bytes | None, owners: Mapping[str, np.ndarray | None]) -> None:
    """Raise DataError at both parties, which names an owner, unless all owners have the ids of both parties.

    `digest` is that of the parties' ids, which are equal. owners: a party's half of each owner's digest, uint8[16]. If
    the parties' rows have no ids, those of owners must have none, and the other way round.
    """
    for name, half in owners.items():
        if (half is None) != (digest is None):
            having, lacking = (name, "the parties have") if digest is None else ("the parties", f"{name} has")
            raise DataError(
                f"{having} {'has' if digest is None else 'have'} ids of rows, and {lacking} none: by "
                "columns everyone must have ids, or nobody"
            )
    if digest is None or not owners:
        return
    halves = np.stack([np.unpackbits(half) for half in owners.values() if half is not None])
    if party.rank == 0:
        halves ^= np.unpackbits(np.frombuffer(digest, U8))

    def program(party: Party) -> np.ndarray | None:
        same = party.run(_all(party, ~BShare(halves, party.rank)))
        return party.reveal(same, what="whether the rows of each owner have the same ids")

    same = planned(party, "rows", program)
    assert same is not None, "revealed to both"
    for name, equal in zip(owners, same, strict=True):
        if not equal:
            raise DataError(f"{name}: must have the same ids as the parties, in the same order")


def _all(party: Party, bits: BShare) -> Steps[BShare]:
    """<bits>, [m, 128] -> <all of them are 1>, [m]."""
    for size in (8, 8, 2):
        flat = bits.reshape(-1, size)
        bits = (yield from all_of.steps(party, flat)).reshape(len(bits), -1)
    return bits[:, 0]


def _equal(party: Party, difference: AShare) -> Steps[BShare]:
    """[x], uint8[16] -> <all bytes are zero>, [1]."""
    bits = yield from equals_zero.steps(party, difference, 8)
    while len(bits) > 1:
        half = len(bits) // 2
        bits = yield from and_bits.steps(party, bits[:half], bits[half:])
    return bits
