"""An audit: what both parties check beside a program, so that a wrong word anywhere ends in an error and no result.

Functionality  shares of values that have to be zero, by stage -> for every stage whether they all are
Messages       of what has to be zero, each party digests its own share; the bits in which the digests differ are shared
               by xor as they are. Whether all are zero: mpc/one_hot.py, three rounds; one bit a stage is revealed
Security       that of its parts: pass or fail of every stage, and nothing else, is revealed. A digest never leaves its
               party. Whatever fault does not depend on SHA-256 passes with probability 2^-128
What is zero   relations between stages, which secure_tree states; and the difference between two evaluations of every
               protocol, on the same shares with other correlated randomness. Most results are exact functions of the
               shares that they are made of, coins included; of the others the difference is within stated bounds, which
               comparisons find out
Source         random linear combinations of what has to be zero are common practice; modulo 2^k they miss an error of
               2^(k-1) every other time, and a digest stands in their place
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mpc.rings import Z2k
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, PShare, S, Share

DIGEST_BITS = 128
FIRST_STAGE = "set-up"


def turned(x: S, places: int, elements: int) -> S:
    """A share whose leading axes are `elements` in all, these turned by so many places."""

    def turn(words: np.ndarray) -> np.ndarray:
        return np.roll(words.reshape(elements, -1), places, axis=0).reshape(words.shape)

    return x.map(turn) if x.size else x


def turned_all(result: Any, places: int, elements: int) -> Any:
    """The same of a share, or of each of several."""
    if isinstance(result, tuple):
        return tuple(turned_all(part, places, elements) for part in result)
    return turned(result, places, elements)


class DealerChecks(Protocol):
    """Proofs that what the program took from a dealer is right."""

    def said(self) -> bytes:
        """What the other party has to know of those since the last verdict."""

    def hold(self, theirs: object) -> bool:
        """Whether they do, by what the other party said. Raises ProtocolDesync."""


@dataclass
class Audit:
    """What has been found since the last verdict, by stage; the same stages in the same order at both parties.

    The `seed`, which the parties have in common and the dealer does not know, turns the elements of second evaluations.
    """

    seed: bytes = b""
    stage: str = FIRST_STAGE
    dealer: DealerChecks | None = None
    _digests: dict[str, Any] = field(default_factory=dict)
    _later: list[tuple[str, Steps[Share]]] = field(default_factory=list)
    _turns: int = 0

    def zero(self, x: Share, relation: str, bits: int | None = None) -> None:
        """[x] has to be zero, modulo 2^bits where words are wider; `relation` names it in the verdict. Local."""
        self._zero(f"{self.stage}: {relation}", x, bits)

    def _zero(self, name: str, x: Share, bits: int | None = None) -> None:
        words = x._words
        if isinstance(x, AShare):
            words = words if x.rank == 0 else np.zeros_like(words) - words
            if bits is not None and bits < x.ring.bits:
                words = words & words.dtype.type((1 << bits) - 1)
        digest = self._digests.setdefault(name, hashlib.sha256())
        digest.update(repr((words.shape, words.dtype.str)).encode())
        digest.update(np.ascontiguousarray(words).reshape(-1).view(np.uint8))

    def turn(self, count: int) -> int:
        """By how many places the next second evaluation turns so many elements: uniform but for 2^-60."""
        self._turns += 1
        drawn = hashlib.sha256(self.seed + self._turns.to_bytes(8, "big")).digest()
        return int.from_bytes(drawn[:16], "big") % max(1, count)

    def later(self, check: Steps[Share], relation: str) -> None:
        """Before the verdict, take these steps to what has to be zero."""
        self._later.append((f"{self.stage}: {relation}", check))

    def same(self, first: object, second: object, relation: str, ring: Z2k | None = None) -> None:
        """Two results, each a share or several, have to be the same secrets."""
        if isinstance(first, tuple) and isinstance(second, tuple):
            for one, other in zip(first, second, strict=True):
                self.same(one, other, relation, ring)
        elif isinstance(first, AShare) and isinstance(second, AShare):
            self.zero(first - second.at_scale(first.scale), relation, ring.bits if ring else None)
        elif isinstance(first, BShare) and isinstance(second, BShare):
            self.zero(first ^ second, relation)
        else:
            assert isinstance(first, PShare) and isinstance(second, PShare), f"{relation}: results that are no shares"
            self.zero(first ^ second, relation)

    def checks(self) -> Steps[None]:
        """Take the steps that were put off."""
        put_off, self._later = self._later, []
        found = yield from parallel(*(check for _, check in put_off))
        for (name, _), x in zip(put_off, found, strict=True):
            self._zero(name, x)

    def take(self) -> tuple[list[str], np.ndarray]:
        """The names of what was to be zero since the last call, and this party's digests of it, bits [names, 128]."""
        digests, self._digests = self._digests, {}
        words = b"".join(digest.digest()[: DIGEST_BITS // 8] for digest in digests.values())
        return list(digests), np.unpackbits(np.frombuffer(words, np.uint8)).reshape(-1, DIGEST_BITS)
