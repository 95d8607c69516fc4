"""Proof by exhaustion in one call: every input, every value of the randomness, integer counts.

    check(beaver.multiply, word(2), word(2), ideal=lambda x, y: x * y).proven
    declared(beaver.multiply, "Z_4").proven                      the same, as in the catalogue

`check` takes a protocol and its arguments. Those made by `word`, `bit`, `packed`, `private` and `public` of
`mpc.protocol.evidence` are enumerated; the others are passed on. It counts:

wrong     outputs that do not open to `ideal` of the secrets, and revealed values that differ from it.
leaking   for each party, views that leak the other's input. The simulator of a party has the party's own input and
          what the protocol reveals to it; it runs the same code with any consistent input of the other party.
          The joint counts of (randomness, messages) must be the same for all of them. With wrong = 0 the outputs are
          functions of the view and the ideal result, so the joint distribution of view and output is simulated, too.
padded    a second simulator, which does not run the protocol: everything dealt or sent to a party is uniform for any
          two inputs. This holds if nothing is revealed and every message is a one-time pad.
fresh     each party's output share is uniform for any input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from mpc.party import Party
from mpc.protocol.catalogue import entries
from mpc.protocol.contract import Contract
from mpc.protocol.evidence import Bits, Enumerated, EveryValue
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, PShare, Share
from mpc.words import U64
from protocols.testing.counts import Columns, Side
from protocols.testing.enumeration import Deck, play

MOST_BITS = 22
BATCH = 1 << 17


def _draw(argument: EveryValue, deck: Deck, batched: bool) -> tuple[list[Any], np.ndarray, list[np.ndarray | None]]:
    """Return what each party passes, the secret, and what each party knows of it."""
    shape = (deck.cases.size, *argument.shape) if batched else argument.shape
    window, shared_as = argument.window, argument.kind
    first = deck.draw(shape, window, argument.dtype)
    if argument.known_to is not None:
        passed = [first if rank in argument.known_to else None for rank in (0, 1)]
        return passed, window.look(first), [None if p is None else window.look(p) for p in passed]
    second = deck.draw(shape, window, argument.dtype)
    more = (argument.scale,) if shared_as is AShare else ()
    kind: Any = shared_as
    halves: list[Any] = [kind(half, rank, *more) for rank, half in enumerate((first, second))]
    whole = halves[0].ring.add(first, second)
    return halves, window.look(whole), [window.look(half) for half in (first, second)]


@dataclass(frozen=True)
class Verdict:
    """The counts of a check: see the module docstring."""

    cases: int
    wrong: int
    leaking: tuple[int, ...]
    padded: bool
    fresh: bool

    @property
    def proven(self) -> bool:
        return self.wrong == 0 and self.leaking == (0, 0)

    def __str__(self) -> str:
        leaks = "no view leaks" if self.leaking == (0, 0) else f"leaking views {self.leaking}"
        extra = [name for name, holds in (("padded", self.padded), ("fresh", self.fresh)) if holds]
        return ", ".join([f"{self.cases} cases", f"{self.wrong} wrong", leaks, *extra])


def check(
    protocol: Callable[..., Any],
    *arguments: Any,
    ideal: Callable[..., Any],
    ring: Bits | None = None,
    draws: Sequence[Bits | None] = (),
    output: Bits | None = None,
    promise: Callable[..., Any] | None = None,
    halves: bool = False,
    batched: bool = True,
) -> Verdict:
    """Check correctness and privacy of a protocol (or of a generator of rounds) over every case.

    `ideal(*secrets)` gives the result, or a list of them; secrets and results are integers of the enumerated bits.
    `ring` is the window of the words, by default that of the first word among the arguments; `draws` are the windows
    of the dealt words, in order, if they differ; `output` is the window of the result. Where `promise(*secrets)` is
    false the result may be anything, but the views must not leak. With `halves`, `ideal` also gets party 1's shares
    of the secrets. Without `batched` the cases are run one by one, for protocols that have no axis to spare.
    """
    words = [a for a in arguments if isinstance(a, EveryValue) and a.kind is not BShare]
    ring = ring or (words[0].window if words else Bits(2))
    run = _Run(protocol, arguments, ring, words[0].dtype if words else U64, draws, output or ring, batched)
    needed = run(np.zeros(1, U64)).bits
    if needed > MOST_BITS:
        raise ValueError(f"{needed} bits of inputs and randomness are too many to enumerate")
    if batched:
        _refuse_mixed(run, needed)
    step = BATCH if batched else 1
    batches = [run(np.arange(at, min(at + step, 1 << needed), dtype=U64)) for at in range(0, 1 << needed, step)]
    wrong = sum(batch.wrong(ideal, promise, halves) for batch in batches)
    sides = [Side(*_joined([batch.sides[rank] for batch in batches])) for rank in (0, 1)]
    facing = sides, sides[::-1]
    leaking = tuple(one.leaks(other) for one, other in facing)
    padded = all(one.padded(other) for one, other in facing)
    return Verdict(1 << needed, wrong, leaking, padded, all(side.fresh for side in sides))


def prove(protocol: Contract[..., Any], entry: Enumerated) -> Verdict:
    """Check a protocol as its evidence declares."""
    return check(
        entry.steps or protocol,
        *entry.arguments,
        ideal=entry.ideal,
        ring=entry.ring,
        draws=entry.draws,
        output=entry.output,
        promise=entry.promise,
        halves=entry.halves,
        batched=entry.batched,
    )


def declared(protocol: Contract[..., Any], name: str) -> Verdict:
    """Check a protocol by the evidence of this name in the catalogue."""
    (entry,) = (
        evidence
        for described in entries()
        if described.protocol is protocol
        for evidence in described.evidence
        if isinstance(evidence, Enumerated) and evidence.name == name
    )
    return prove(protocol, entry)


@dataclass(frozen=True)
class _Run:
    """Runs a batch of cases."""

    protocol: Callable[..., Any]
    arguments: Sequence[Any]
    ring: Bits
    dtype: np.dtype
    draws: Sequence[Bits | None]
    output: Bits
    batched: bool

    def __call__(self, cases: np.ndarray) -> _Batch:
        deck = Deck(cases, self.draws, self.ring)
        steps = getattr(self.protocol, "steps", self.protocol)
        # In the order of the arguments, so that every batch enumerates in the same way.
        drawn = [
            _draw(a, deck, self.batched) if isinstance(a, EveryValue) else ([a, a], None, [None, None])
            for a in self.arguments
        ]

        def start(rank: int, party: Party) -> Steps[Any]:
            return steps(party, *[passed[rank] for passed, _, _ in drawn])

        outputs, seen = play(start, deck, self.dtype)
        results = [list(o) if isinstance(o, (tuple, list)) else [o] for o in outputs]
        sides = []
        for rank in (0, 1):
            own = [known for _, _, knows in drawn if (known := knows[rank]) is not None]
            shares = [self._look(r) for r in results[rank] if isinstance(r, Share)]
            revealed = [self._look(r) for r in results[rank] if isinstance(r, np.ndarray)]
            if revealed and not getattr(self.protocol, "reveals", ()):
                raise ValueError("a protocol that declares no revealed value has an output that is not a share")
            columns = [_by_case(arrays, cases.size) for arrays in (own, revealed, shares)]
            sides.append((*columns, seen[rank].dealt, seen[rank].messages))
        secrets = [secret.astype(np.int64) for _, secret, _ in drawn if secret is not None]
        opened = [self._open(*pair) for pair in zip(*results, strict=True)]
        halves = [knows[1].astype(np.int64) for _, _, knows in drawn if knows[0] is not None and knows[1] is not None]
        return _Batch(deck.used, sides, secrets, opened, halves)

    def _look(self, result: Share | np.ndarray) -> np.ndarray:
        if isinstance(result, BShare):
            return result.bits.astype(np.uint16)
        assert isinstance(result, np.ndarray | AShare | PShare)
        return self.output.look(result if isinstance(result, np.ndarray) else result.words)

    def _open(self, first: Any, second: Any) -> tuple[list[np.ndarray], int]:
        """Return the values of one output, opened or as revealed to either party, and the mask of their bits."""
        every = (1 << self.output.bits) - 1
        if isinstance(first, BShare):
            return [first.bits ^ second.bits], 1
        if isinstance(first, AShare):
            return [self.output.look(first.words + second.words)], every
        if isinstance(first, PShare):
            return [self.output.look(first.words ^ second.words)], every
        return [self.output.look(result) for result in (first, second) if result is not None], every


def _refuse_mixed(run: _Run, bits: int) -> None:
    """Run some cases forwards and reversed: raise ValueError unless every column is reversed with them.

    A column that is not mixes several cases.
    """
    cases = np.random.default_rng(1).integers(0, 1 << bits, 64, np.uint64)
    for there, back in zip(run(cases).sides, run(cases[::-1]).sides, strict=True):
        for one, other in zip(chain(*there), chain(*back), strict=True):
            if not np.array_equal(one, other[::-1]):
                raise ValueError("the messages or dealt arrays do not keep the cases apart: run them one by one")


@dataclass(frozen=True)
class _Batch:
    """The outcome of a batch: bits used, columns of each side, secrets, opened results, and party 1's shares."""

    bits: int
    sides: list[tuple[Columns, ...]]
    secrets: list[np.ndarray]
    opened: list[tuple[list[np.ndarray], int]]
    halves: list[np.ndarray]

    def wrong(self, ideal: Callable[..., Any], promise: Callable[..., Any] | None, halves: bool) -> int:
        expected = ideal(*self.secrets, *(self.halves if halves else []))
        expected = expected if isinstance(expected, list) else [expected]
        counts = 0
        for (values, mask), want in zip(self.opened, expected, strict=True):
            for value in values:
                off = value != (np.asarray(want).astype(np.int64) & mask)
                counts += int((off if promise is None else off & promise(*self.secrets)).sum())
        return counts


def _by_case(arrays: list[np.ndarray], cases: int) -> Columns:
    return [column for array in arrays for column in array.reshape(cases, -1).T]


def _joined(batches: list[tuple[Columns, ...]]) -> list[Columns]:
    """Concatenate the columns of all batches."""
    return [[np.concatenate(parts) for parts in zip(*columns, strict=True)] for columns in zip(*batches, strict=True)]
