"""Proof by exhaustion: run a protocol's own code on every input and every value of the randomness, and count views.

The words of Z_2^64 are enumerated over k low bits. Sums and products of words are homomorphic for reduction modulo
2^k, so projecting a transcript to k bits gives the protocol over Z_2^k; protocols that look at bits are given k as
their domain. All cases are lanes of one array: the protocol runs once, on as many elements as there are cases.

The simulator of a party knows the party's own input share and nothing of the other's: it is the same protocol with the
other's input share set to zero. A protocol is perfectly private if, for each own input share, the integer counts of
the party's views (randomness received, messages received) are the same whatever the other's share is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpc.correlation import Kind
from mpc.party import Party, Round, Steps
from mpc.ring import U64, Shape


@dataclass
class Deck:
    """The enumerated digits: how many bits were named so far, and, once counted, the value of each in every lane."""

    ring_bits: int
    widths: dict[np.dtype, int]
    lanes: np.ndarray
    used: int = 0

    def draw(self, shape: Shape, bits: int) -> np.ndarray:
        """Words of `bits` enumerated bits for every entry of `shape`, whose first axis is the lanes."""
        entries = int(np.prod(shape[1:], dtype=np.int64))
        out = np.empty((shape[0], entries), np.uint64)
        for entry in range(entries):
            out[:, entry] = self.lanes >> np.uint64(self.used) & np.uint64((1 << bits) - 1)
            self.used += bits
        return out.reshape(shape)

    def width(self, dtype: np.dtype) -> int:
        return self.widths.get(dtype, self.ring_bits)


@dataclass
class _Dealt:
    """What one request gives to either party: halves in the order in which a hand asks for them."""

    halves: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))


class _Dealer:
    """A dealer's hand that draws both parties' halves from the deck and keeps them for the parties' hands."""

    def __init__(self, deck: Deck) -> None:
        self._deck, self.dealt = deck, _Dealt()

    def _give(self, first: Any, second: Any) -> None:
        self.dealt.halves[0].append(first)
        self.dealt.halves[1].append(second)

    def mask(self, shape: Shape, dtype: np.dtype = U64, xor: bool = False) -> np.ndarray:
        halves = [self._deck.draw(shape, self._deck.width(dtype)).astype(dtype) for _ in (0, 1)]
        self._give(*halves)
        return halves[0] ^ halves[1] if xor else halves[0] + halves[1]

    def mask_bits(self, shape: Shape) -> np.ndarray:
        halves = [self._deck.draw(shape, 1).astype(np.uint8) for _ in (0, 1)]
        self._give(*halves)
        return halves[0] ^ halves[1]

    def private(self, owner: int, shape: Shape, dtype: np.dtype = U64) -> np.ndarray:
        own = self._deck.draw(shape, self._deck.width(dtype)).astype(dtype)
        self._give(*((own, None) if owner == 0 else (None, own)))
        return own

    def derived(
        self, value: Callable, shape: Shape, dtype: np.dtype = U64, xor: bool = False, to: int = 1
    ) -> np.ndarray:
        whole = np.asarray(value(), dtype).reshape(shape)
        half = self._deck.draw(shape, self._deck.width(dtype)).astype(dtype)
        other = whole ^ half if xor else whole - half
        self._give(*((half, other) if to == 1 else (other, half)))
        return whole

    def derived_bits(self, value: Callable, shape: Shape, to: int = 1) -> np.ndarray:
        whole = np.asarray(value(), np.uint8).reshape(shape)
        half = self._deck.draw(shape, 1).astype(np.uint8)
        self._give(*((half, whole ^ half) if to == 1 else (whole ^ half, half)))
        return whole


class _Replay:
    """A party's hand: hands out what the dealer kept, in order, and notes it as part of the party's view."""

    def __init__(self, halves: list[Any]) -> None:
        self._halves = iter(halves)

    def _next(self, *_: Any, **__: Any) -> Any:
        return next(self._halves)

    mask = mask_bits = private = derived = derived_bits = _next


class _Source:
    """Both parties' randomness from one deck; the first party to ask has the dealer deal."""

    def __init__(self, deck: Deck) -> None:
        self._deck, self.requests = deck, list[_Dealt]()

    def of(self, rank: int) -> Any:
        source, asked = self, iter(range(1 << 30))

        class View:
            received = used = 0

            def take(self, kind: Kind) -> Any:
                index = next(asked)
                if index == len(source.requests):
                    dealer = _Dealer(source._deck)
                    kind.deal(dealer)  # type: ignore[arg-type]
                    source.requests.append(dealer.dealt)
                return kind.deal(_Replay(source.requests[index].halves[rank]))  # type: ignore[arg-type]

        return View()


@dataclass(frozen=True)
class Transcript:
    """One run over all lanes: inputs [rank][i], views [rank] as columns, outputs [rank]."""

    inputs: tuple[list[np.ndarray], list[np.ndarray]]
    views: tuple[list[np.ndarray], list[np.ndarray]]
    outputs: tuple[Any, Any]


def run(
    steps: Callable[..., Steps], make_inputs: Callable, inputs: int, k: int, widths: dict | None = None
) -> Transcript:
    """Run `steps(party, *make_inputs(rank, columns))` on every case.

    `inputs` input shares of k bits a party are enumerated with the randomness; `widths` gives, for a dtype of mask
    words, the number of their bits that the protocol uses (default k).
    """
    needed = _drive(steps, make_inputs, inputs, k, widths or {}, np.zeros(1, np.uint64))[1]
    if needed > 24:
        raise ValueError(f"{needed} bits of inputs and randomness are too many to enumerate")
    return _drive(steps, make_inputs, inputs, k, widths or {}, np.arange(1 << needed, dtype=np.uint64))[0]


def _drive(steps, make_inputs, inputs, k, widths, lanes) -> tuple[Transcript, int]:
    deck = Deck(k, widths, lanes)
    columns = tuple([deck.draw((lanes.size,), k) for _ in range(inputs)] for _ in (0, 1))
    source = _Source(deck)
    # No link and no meter: the two generators are driven against each other below.
    parties = [Party(rank, None, source.of(rank)) for rank in (0, 1)]  # type: ignore[arg-type]
    running = [steps(parties[r], *make_inputs(r, columns[r])) for r in (0, 1)]
    views: tuple[list, list] = ([], [])
    outputs: list[Any] = [None, None]
    said: list[Any] = [_advance(running[r], None, outputs, r) for r in (0, 1)]
    while said[0] is not None:
        messages = [[a for s in _rounds(said[r]) for a in s.sent] for r in (0, 1)]
        for r in (0, 1):
            views[r].extend(_by_lane(message, lanes.size) for message in messages[1 - r])
        said = [_advance(running[r], messages[1 - r], outputs, r) for r in (0, 1)]
    for r in (0, 1):
        views[r].extend(h for request in source.requests for h in request.halves[r] if h is not None)
    return Transcript((columns[0], columns[1]), views, (outputs[0], outputs[1])), deck.used


def _by_lane(message: np.ndarray, lanes: int) -> np.ndarray:
    """The bytes of a message as words [lanes, ..]; bits travel eight to a byte, across lanes."""
    if message.size % lanes:
        bits = np.unpackbits(message, bitorder="little")
        return bits[: bits.size // lanes * lanes].reshape(lanes, -1)
    size = message.size // lanes
    return message.view(np.dtype(f"u{size}")).reshape(lanes, -1) if size in (1, 2, 4, 8) else message.reshape(lanes, -1)


def _rounds(said: Round | list[Round]) -> Sequence[Round]:
    return [said] if isinstance(said, Round) else said


def _advance(running: Steps, answer: list[np.ndarray] | None, outputs: list[Any], rank: int) -> Any:
    try:
        return next(running) if answer is None else running.send(answer)
    except StopIteration as done:
        outputs[rank] = done.value
        return None


def _identify(view: list[np.ndarray], lanes: int, width: Callable[[np.dtype], int]) -> np.ndarray:
    """A number for every distinct view, int64[lanes]."""
    parts = []
    for column in view:
        words = column.reshape(lanes, -1)
        if words.dtype.itemsize > 1:
            words = words & words.dtype.type((1 << width(words.dtype)) - 1)
        parts.append(np.ascontiguousarray(words).view(np.uint8).reshape(lanes, -1))
    rows = np.concatenate(parts, axis=1)
    rows = np.ascontiguousarray(rows[:, rows.any(axis=0)])
    if rows.shape[1] == 0:
        return np.zeros(lanes, np.int64)
    return np.unique(rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1), return_inverse=True)[1]


@dataclass(frozen=True)
class Verdict:
    """What a check found: cases, wrong results, and per party the views whose counts betray the other's share."""

    cases: int
    wrong: int
    leaking: tuple[int, int]

    @property
    def proven(self) -> bool:
        return self.wrong == 0 and self.leaking == (0, 0)


def check(
    steps: Callable[..., Steps],
    make_inputs: Callable[[int, list[np.ndarray]], Sequence[Any]],
    ideal: Callable[..., Any],
    inputs: int = 1,
    k: int = 2,
    widths: dict[np.dtype, int] | None = None,
) -> Verdict:
    """Correctness and perfect privacy of `steps` over every case.

    `ideal(*columns)` maps the first party's and the second party's input columns to the outputs that the shares must
    open to, as a list of arrays. Outputs may be one share or a sequence of shares.
    """
    transcript = run(steps, make_inputs, inputs, k, widths)
    lanes = transcript.inputs[0][0].size
    expected = ideal(*transcript.inputs[0], *transcript.inputs[1])
    wrong = sum(int((got != np.asarray(want)).sum()) for got, want in zip(_open(transcript, k), expected, strict=True))

    def width(dtype: np.dtype) -> int:
        return (widths or {}).get(dtype, k)

    leaking = []
    for rank in (0, 1):
        own, other = (_number(transcript.inputs[p], k) for p in (rank, 1 - rank))
        view = _identify(transcript.views[rank], lanes, width)
        span = int(view.max()) + 1
        # The simulator is the run whose other share is 0; the counts of every other run must equal its counts.
        counts = [
            np.bincount(own[other == o] * span + view[other == o], minlength=span << inputs * k)
            for o in range(1 << inputs * k)
        ]
        leaking.append(int(sum((c != counts[0]).sum() for c in counts[1:])))
    return Verdict(lanes, wrong, (leaking[0], leaking[1]))


def _number(columns: list[np.ndarray], k: int) -> np.ndarray:
    return sum(c.astype(np.int64) << i * k for i, c in enumerate(columns))  # type: ignore[return-value]


def _open(transcript: Transcript, k: int) -> list[np.ndarray]:
    outputs = [o if isinstance(o, (tuple, list)) else [o] for o in transcript.outputs]
    opened = []
    for first, second in zip(*outputs, strict=True):
        if hasattr(first, "words"):
            opened.append(first.words + second.words & first.words.dtype.type((1 << k) - 1))
        else:
            opened.append(first.bits ^ second.bits)
    return opened
