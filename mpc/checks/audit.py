"""Audit: checks that both parties run beside a program, so that any wrong word ends in an error and no result.

Functionality  shares of values that must be zero, by stage -> for each stage, whether all of them are
Messages       each party hashes its own share of what must be zero; the differing bits of the two digests are shared by
               xor without further work. mpc/lookup/one_hot.py tests whether all are zero, in three rounds; one bit per
               stage is revealed
Security       that of its parts: only pass or fail of every stage is revealed. A digest never leaves its party. A fault
               that does not depend on SHA-256 goes unnoticed with probability 2^-128
What is zero   relations between stages, which secure_tree states; and the difference between two evaluations of every
               protocol, on the same shares with independent correlated randomness. Most results are exact functions of
               the shares that they are computed from, coins included; the difference of the others is within stated
               bounds, which are checked by comparisons
Local work     the work of a program between its protocols is also done twice: mpc/checks/repetition.py
Source         the usual check is a random linear combination of the values that must be zero; modulo 2^k it misses an
               error of 2^(k-1) half of the time, so a digest is used instead
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from mpc.arithmetic.fixed_factor import FixedValues
from mpc.endpoint import Audit, Endpoint
from mpc.errors import AuditFailure
from mpc.matrix.fixed_operand import FixedOperand
from mpc.party import Party
from mpc.protocol.contract import Contract
from mpc.rings import Ring
from mpc.rounds import Round, Steps, named, parallel
from mpc.shares import AShare, BShare, PShare, S, Share
from mpc.sharing import reveal, zero_for
from mpc.words import U8

T = TypeVar("T")

DIGEST_BITS = 128
FIRST_STAGE = "set-up"


def turned(x: S, places: int, elements: int) -> S:
    """Rotate the elements of a share by `places`; its leading axes hold `elements` elements in all."""

    def turn(words: np.ndarray) -> np.ndarray:
        return np.roll(words.reshape(elements, -1), places, axis=0).reshape(words.shape)

    return x.map(turn) if x.size else x


def turned_all(result: Any, places: int, elements: int) -> Any:
    """Rotate a share, or each share of a tuple, as `turned` does."""
    if isinstance(result, tuple):
        return tuple(turned_all(part, places, elements) for part in result)
    return turned(result, places, elements)


def contents(value: Any) -> Iterator[np.ndarray]:
    """Yield all arrays in a value: in shares, containers and dataclasses. Other objects are skipped."""
    if isinstance(value, Share):
        yield value._words
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from contents(part)
    elif dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            yield from contents(getattr(value, part.name, None))


def digest_of(*values: Any) -> bytes:
    """Return a digest of all arrays in the values."""
    digest: Any = hashlib.sha256()
    for array in contents(values):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return digest.digest()


@dataclass
class Recorded:
    """Record of a protocol: digest of its input, rounds, result; or, without a name, of what `Audit.once` returned."""

    name: str
    given: bytes = b""
    rounds: int = 0
    result: Any = None


@dataclass
class Ledger(Audit):
    """Digests of what must be zero since the last verdict, by stage; and protocols, which are evaluated twice.

    Both parties have the same stages in the same order. `seed` is known to both parties but not to the dealer. It
    determines by how much the elements of second evaluations are rotated.

    `record` describes a program whose local work is to be repeated. `held` has digests of what stays in memory.
    """

    seed: bytes = b""
    stage: str = FIRST_STAGE
    record: list[Recorded] | None = None
    evaluations: int = 2
    held: dict[str, list[bytes]] = field(default_factory=dict)
    _digests: dict[str, Any] = field(default_factory=dict)
    _later: list[tuple[str, Steps[Share]]] = field(default_factory=list)
    _turns: int = 0

    def __bool__(self) -> bool:
        return True

    def enter(self, stage: str | None) -> None:
        self.stage = stage or FIRST_STAGE

    def steps(self, contract: Contract[..., T], party: Endpoint, args: Any, kwargs: dict[str, Any]) -> Steps[T]:
        exact = contract.exact(*args, **kwargs)
        if not (exact or contract.atomic):
            return super().steps(contract, party, args, kwargs)
        steps = self._twice(contract, party, args, kwargs) if exact else contract.body(party, *args, **kwargs)
        return named(contract.name, self.recorded(contract.name, (args, kwargs), steps))

    def _twice(self, contract: Contract[..., T], party: Endpoint, args: Any, kwargs: dict[str, Any]) -> Steps[T]:
        """Evaluate twice in the same rounds, the second time with rotated elements; return the first result."""
        inner = party.unaudited()
        count = next(x.size for x in args if isinstance(x, Share)) if contract.elementwise else 0
        places = self.turn(count)
        again = [turned(x, places, count) if isinstance(x, Share) and count else x for x in args]
        first, second = yield from parallel(
            contract.body(inner, *args, **kwargs), contract.body(inner, *again, **kwargs)
        )
        if count:
            second = turned_all(second, -places, count)
        if contract.near is not None:
            self.later(contract.near(inner, first, second, *args, **kwargs), contract.name)
        else:
            given = inspect.signature(contract.body).bind(party, *args, **kwargs).arguments
            # A fixed operand has the ring of its products.
            fixed = (x.ring for x in given.values() if isinstance(x, FixedOperand | FixedValues))
            self.same(first, second, contract.name, given.get("ring") or next(fixed, None))
        return first

    def zero(self, x: Share, relation: str, bits: int | None = None) -> None:
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

    def require(self, relation: str, holds: bool) -> None:
        """Require what this party can check by itself. Local."""
        digest = self._digests.setdefault(relation, hashlib.sha256())
        if not holds:
            digest.update(os.urandom(DIGEST_BITS // 8))

    def once(self, make: Callable[[], T]) -> T:
        made = make()
        if self.record is not None:
            self.record.append(Recorded("", result=made))
        return made

    def recorded(self, name: str, given: Any, steps: Steps[T]) -> Steps[T]:
        """Run the steps of a protocol, and record its input and its result."""
        if self.record is None:
            return (yield from steps)
        entry = Recorded(name, digest_of(given))
        self.record.append(entry)
        try:
            asked = next(steps)
            while True:
                entry.rounds += 1
                asked = steps.send((yield asked))
        except StopIteration as done:
            entry.result = done.value
            return done.value

    def turn(self, count: int) -> int:
        """Return by how many places the next second evaluation rotates `count` elements; uniform up to 2^-60."""
        self._turns += 1
        drawn = hashlib.sha256(self.seed + self._turns.to_bytes(8, "big")).digest()
        return int.from_bytes(drawn[:16], "big") % max(1, count)

    def later(self, check: Steps[Share], relation: str) -> None:
        self._later.append((f"{self.stage}: {relation}", check))

    def same(self, first: object, second: object, relation: str, ring: Ring | None = None) -> None:
        """Require that two results, each one share or a tuple of shares, hold the same secrets."""
        if isinstance(first, tuple) and isinstance(second, tuple):
            for one, other in zip(first, second, strict=True):
                self.same(one, other, relation, ring)
        elif isinstance(first, AShare) and isinstance(second, AShare):
            self.zero(first - second.at_scale(first.scale), relation, ring.bits if ring else None)
        elif isinstance(first, BShare) and isinstance(second, BShare):
            self.zero(first ^ second, relation)
        else:
            assert isinstance(first, PShare) and isinstance(second, PShare), f"{relation}: results must be shares"
            self.zero(first ^ second, relation)

    def reveal(self, party: Party, x: AShare | BShare, to: int | None, what: str) -> np.ndarray | None:
        zeros = [zero_for(party, x) for _ in range(2)]
        for zero in zeros:
            self.zero(zero, "sharings of zero")
        self.settle(party)
        party.learn(what, to)
        return open_twice(party, x, to, zeros, what)

    def remember(self, name: str, *parts: Any, more: bool = False) -> None:
        before = self.held.get(name, []) if more else []
        self.held[name] = before + [digest_of(part) for part in parts]

    def require_unchanged(self, name: str, *parts: Any) -> None:
        held = self.held.get(name, [])
        same = all(digest_of(part) == digest for part, digest in zip(parts, held, strict=False))
        self.require(f"memory: {name} have not changed", same)

    def checks(self) -> Steps[None]:
        """Run the deferred checks."""
        deferred, self._later = self._later, []
        results = yield from parallel(*(check for _, check in deferred))
        for (name, _), x in zip(deferred, results, strict=True):
            self._zero(name, x)

    def take(self) -> tuple[list[str], np.ndarray]:
        """Return and clear the names of the relations so far, and this party's digests, bits [names, 128]."""
        digests, self._digests = self._digests, {}
        words = b"".join(digest.digest()[: DIGEST_BITS // 8] for digest in digests.values())
        return list(digests), np.unpackbits(np.frombuffer(words, np.uint8)).reshape(-1, DIGEST_BITS)


def open_twice(
    party: Party, x: AShare | BShare, to: int | None, zeros: Sequence[AShare | BShare], what: str
) -> np.ndarray | None:
    """Open x twice in one round, under two sharings of zero. Raises AuditFailure at both parties if they differ."""
    first, second = party.run(parallel(*(reveal.steps(party, x, to, zero) for zero in zeros)))
    differ = first is not None and second is not None and not np.array_equal(first, second)
    # Without this round, the party that learns nothing would end as if all were well.
    if party.audit.once(lambda: party.run(named("audit.opened", _either(differ)))):
        raise AuditFailure(f"the audit opened {what} twice with different results: use neither")
    return first


def _either(mine: bool) -> Steps[bool]:
    """Whether this is so here or at the other party."""
    (theirs,) = yield Round([np.array([mine], U8)], [1])
    return mine or bool(theirs.any())
