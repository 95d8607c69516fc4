"""Check that the rows of two vertical tables have the same ids in the same order.

Functionality  a digest of the ids from each party -> one bit to both: whether they are equal
Cost           six rounds: 16 bytes in the first, and two bits for each of 15 conjunctions
Security       semi-honest, perfect given the digests: they are compared on shares, and only the bit is revealed
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from mpc.arithmetic.bits import and_bits
from mpc.errors import DataError
from mpc.lookup.equality import equals_zero
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare, BShare
from mpc.words import U8

BYTES = 16


def digest_of(ids: Iterable[str]) -> bytes:
    """Return a digest of ids in their order."""
    digest = hashlib.sha256()
    for one in ids:
        digest.update(f"{len(one)}:{one}".encode())
    return digest.digest()[:BYTES]


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


def _equal(party: Party, difference: AShare) -> Steps[BShare]:
    """[x], uint8[16] -> <all bytes are zero>, [1]."""
    bits = yield from equals_zero.steps(party, difference, 8)
    while len(bits) > 1:
        half = len(bits) // 2
        bits = yield from and_bits.steps(party, bits[:half], bits[half:])
    return bits
