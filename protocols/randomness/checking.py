"""Checks of dealt values, by parties and dealer: relations (mpc/relations.py) and proofs of products (proofs.py).

Functionality  dealt requests -> at each party, the message with which the parties check that the relations hold
Messages       for each point   party -> dealer: its part of the coin, once it has received everything before
                                dealer -> party: its shares of the next step of the proof
               then, before a verdict (mpc/verdict.py), party <-> party: 3 elements per proof, and a digest
Coins          SHA-256 of both parties' parts, which are derived from a seed that the parties share. Each party sends
               its part only after it has received everything, so the dealer learns no coin before both have
Security       what the parties send each other is uniform, or derived from what both know; it depends on dealt values
               only, so neither a failure nor a success reveals anything about the data
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpc.correlation import Correlation, Recipe
from mpc.errors import ProtocolDesync
from mpc.relations import Relations
from mpc.ring import U64, Shape
from mpc.rings import AnyRing
from protocols.randomness.prg import Streams
from protocols.randomness.proofs import Statement, joint, proving, statements, verifying
from protocols.randomness.views import NotYet, PartyView
from protocols.transport.channel import Channel

COIN_BYTES = 16
_ROOM = 1 << 16


class CheckedView(PartyView):
    """A party's view that also collects relations."""

    def __init__(self, relations: Relations, rank: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(rank, *args, **kwargs)
        self._relations = relations

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        value = super().derived(ring, shape, recipe, to)
        if check := getattr(recipe, "check", None):
            check(value, self._relations)
        return value


def _coin(parts: Sequence[bytes]) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()[:COIN_BYTES]


def _point(coin: bytes) -> np.uint64:
    """Return the point of a coin; it is not 0 modulo 2^48, since the last point of a proof must not be 0."""
    return np.uint64(int.from_bytes(coin[:8], "little") | (int.from_bytes(coin[:6], "little") == 0))


@dataclass
class Proof:
    """One party's part of the proof about some requests."""

    relations: bytes
    ends: list[Statement]


@dataclass
class Checks:
    """A party's side: it verifies proofs, and keeps those that the program depends on so far."""

    rank: int
    seed: bytes
    _steps: int = 0
    _taken: list[Proof] = field(default_factory=list)

    def verify(self, dealer: Channel, relations: Relations) -> Proof:
        """Make the dealer prove what it has just dealt."""
        ends = []
        weights = self._told(dealer)
        for statement in statements(relations, weights):
            steps = verifying(statement)
            words = next(steps)
            while True:
                told = dealer.receive("dealer.proof", _ROOM)
                if not isinstance(told, np.ndarray) or told.dtype != U64 or told.shape != (words,):
                    raise ProtocolDesync(f"{dealer.peer} must send {words} words of a proof")
                try:
                    words = steps.send((told, _point(self._told(dealer))))
                except StopIteration as done:
                    ends.append(done.value)
                    break
        return Proof(relations.digest(), ends)

    def _told(self, dealer: Channel) -> bytes:
        """Send the dealer this party's part of the next coin, and return the coin."""
        self._steps += 1
        parts = [
            hmac.digest(self.seed, self._steps.to_bytes(8, "big") + bytes([rank]), "sha256")[:COIN_BYTES]
            for rank in (0, 1)
        ]
        dealer.send("dealer.coin", parts[self.rank])
        return _coin(parts)

    def depend(self, proof: Proof) -> None:
        """Record that the program uses values covered by a proof."""
        if not self._taken or self._taken[-1] is not proof:
            self._taken.append(proof)

    def said(self) -> bytes:
        """Return this party's message about the proofs since the last verdict."""
        ends = (end for proof in self._taken for end in proof.ends)
        words = b"".join(x.tobytes() for end in ends for x in (end.u, end.v, end.t))
        return hashlib.sha256(b"".join(proof.relations for proof in self._taken)).digest() + words

    def hold(self, theirs: object) -> bool:
        """Return whether everything dealt since the last verdict is right, given the other party's message."""
        mine, proofs = self.said(), self._taken
        self._taken = []
        if not isinstance(theirs, bytes) or len(theirs) != len(mine):
            raise ProtocolDesync(f"audit.dealer: the other party must send {len(mine)} bytes about proofs")
        right, words = mine[:32] == theirs[:32], np.frombuffer(theirs[32:], U64)
        for end in (end for proof in proofs for end in proof.ends):
            width = end.field.width
            other, words = words[: 3 * width].reshape(3, 1, width), words[3 * width :]
            u, v, t = (end.field.add(x, y) for x, y in zip((end.u, end.v, end.t), other, strict=True))
            right &= np.array_equal(end.field.dot(u, v), t)
        return bool(right)


@dataclass
class Dealt:
    """The dealer's side: what it dealt to each party for one plan, collected as the parties do."""

    streams: tuple[Streams, Streams]

    def __post_init__(self) -> None:
        self._relations = Relations(0), Relations(1)

    def add(self, request: Correlation[Any], index: int, corrections: Sequence[list[np.ndarray]]) -> None:
        """Add a request, with the corrections to each party."""
        for rank in (0, 1):
            told = np.concatenate([np.zeros(0, np.uint8), *corrections[rank]])
            stream = self.streams[rank].of(index)
            collect(request, CheckedView(self._relations[rank], rank, stream, told, {}, ahead=True))

    def prove(self, parties: tuple[Channel, Channel]) -> None:
        """Prove it to both parties, once they have received everything."""
        coin = _next_coin(parties)
        both = (statements(relations, coin) for relations in self._relations)
        for first, second in zip(*both, strict=True):
            steps = proving(joint(first, second))
            shares = next(steps)
            while True:
                for channel, share in zip(parties, shares, strict=True):
                    channel.send("dealer.proof", share.reshape(-1))
                point = _point(_next_coin(parties))
                try:
                    shares = steps.send(point)
                except StopIteration:
                    break


def collect(request: Correlation[Any], view: CheckedView) -> Any:
    """Return the values of a request; None if they cannot be made ahead of its turn."""
    try:
        return request.deal(view)
    except NotYet:
        return None


def _next_coin(parties: tuple[Channel, Channel]) -> bytes:
    parts = []
    for channel in parties:
        part = channel.receive("dealer.coin", _ROOM)
        if not isinstance(part, bytes) or len(part) != COIN_BYTES:
            raise ProtocolDesync(f"{channel.peer} must send a part of a coin")
        parts.append(part)
    return _coin(parts)
