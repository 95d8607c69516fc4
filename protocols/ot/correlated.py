"""Correlated OT in both directions between two parties: Ferret, or SoftSpoken without LPN.

Functionality  sender: delta, and blocks q; receiver: random bits c, and blocks t = q xor c delta
Messages       set-up: base OTs, trees of SoftSpoken, and for Ferret one extension by SoftSpoken; then `extend`
Cost           0.71 (Ferret) or 31 (SoftSpoken) bits per COT, one way; three rounds per extension
Security       malicious; see base.py, softspoken.py, ferret.py, and for the check consistency.py
Source         Ishai, Kilian, Nissim and Petrank, CRYPTO 2003 (the correlation)

The blocks are not pads yet: `pads` hashes them into pads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from mpc.rounds import Steps, parallel
from protocols.ot import ferret, softspoken
from protocols.ot.consistency import TAKEN, batches

OtKind = Literal["ferret", "softspoken"]
# Bits on the wire per correlated OT.
COT_BITS: dict[OtKind, float] = {"ferret": 0.71, "softspoken": 31.0}


@dataclass(frozen=True)
class Extension:
    """What an extension makes and sends: COTs per batch, the bits per batch, which `extender` sends, and the bits of
    its check, of the sender and of the receiver.
    """

    batch: int
    bits: int
    extender: Literal["sender", "receiver"]
    check: tuple[int, int]
    rounds = 3

    def made(self, count: int) -> tuple[int, int]:
        """Return the batches of an extension by at least `count` COTs, and how many COTs it makes."""
        number = batches(count, self.batch)
        return number, number * self.batch - TAKEN


EXTENSIONS: dict[OtKind, Extension] = {
    "ferret": Extension(ferret.FRESH, ferret.MESSAGE_BITS, "sender", ferret.CHECK_BITS),
    "softspoken": Extension(softspoken.BATCH, softspoken.MESSAGE_BITS, "receiver", softspoken.CHECK_BITS),
}


class CotSender(Protocol):
    """The sender in one direction, with one delta for the session."""

    # uint64[2]; the lowest bit is 1.
    delta: np.ndarray

    def extend(self, count: int) -> Steps[np.ndarray]:
        """Make the next q: uint64[n, 2] with n >= `count`, as many as suits the protocol."""


class CotReceiver(Protocol):
    """The receiver in one direction."""

    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Make the next random choice bits uint8[n] and t = q xor choice delta, uint64[n, 2], n as at the sender."""


def set_up(
    rank: int, session: bytes, kind: OtKind, draw: Callable[[int], bytes]
) -> Steps[tuple[CotSender, CotReceiver]]:
    """Set up this party's sender and receiver, whose other ends the peer has. Both parties use the same `kind`.

    `session`, 32 bytes, is known to both parties and fresh for each session; `draw` returns secret random bytes.
    """
    assert len(session) == 32, "a session must be 32 bytes"
    # Each direction is named by the rank of its sender.
    mine, theirs = session + bytes([rank]), session + bytes([1 - rank])
    sender, receiver = yield from parallel(
        softspoken.set_up_sender(mine, draw), softspoken.set_up_receiver(theirs, draw)
    )
    if kind == "softspoken":
        return sender, receiver
    return (yield from parallel(ferret.set_up_sender(mine, sender), ferret.set_up_receiver(theirs, receiver)))
