"""Every case of a protocol: its code is run on every input share and every value of the dealt randomness.

A case is a number; its bits are the bits of the inputs and the randomness, in the order in which they are drawn. Many
cases are run at once, along one axis of every array. A ring of 2^k elements is embedded in the words in two ways:

* Bits(k): the k low bits. Sums and products of words are homomorphic for reduction modulo 2^k, so a transcript
  reduced to k bits is a transcript over Z_2^k.
* Bits(k, low): the multiples of 2^low, in words of low + k bits. They are closed under addition, and their top bit
  is that of the word. This suits protocols that add and inspect the wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from mpc.host.streaming import Pieces
from mpc.offline.correlation import Correlation, Half, Recipe, View, in_shape
from mpc.party import Party
from mpc.protocol.evidence import Bits
from mpc.rings import GF2, AnyRing
from mpc.rounds import Round, Steps
from mpc.words import U64, Shape


class Deck:
    """The bits of a batch of cases, handed out in order."""

    def __init__(self, cases: np.ndarray, windows: Sequence[Bits | None], ring: Bits) -> None:
        self.cases, self.used, self.ring = cases, 0, ring
        self._windows = iter(windows)

    def next_window(self) -> Bits:
        """Return the window of the next dealt words: the one listed for the check, else the ring's."""
        return next(self._windows, None) or self.ring

    def draw(self, shape: Shape, window: Bits, dtype: np.dtype) -> np.ndarray:
        """Draw enumerated words; one axis counts the cases, unless they are run one by one."""
        count, axis = self.cases.size, self.axis(shape)
        entries = prod(shape) // count
        out = np.empty((count, entries), U64)
        for entry in range(entries):
            out[:, entry] = self.cases >> np.uint64(self.used) & np.uint64((1 << window.bits) - 1)
            self.used += window.bits
        by_case = (out << np.uint64(window.low)).astype(dtype)
        return np.moveaxis(by_case.reshape(shape[axis], *shape[:axis], *shape[axis + 1 :]), 0, axis)

    def by_case(self, array: np.ndarray) -> np.ndarray:
        """Return a dealt array with one row per case."""
        return np.moveaxis(array, self.axis(array.shape), 0).reshape(self.cases.size, -1)

    def axis(self, shape: Shape) -> int:
        """Return the first axis of a dealt array that can count the cases. Raises ValueError."""
        for axis, length in enumerate(shape):
            if length % self.cases.size == 0:
                return axis
        raise ValueError(f"no axis of a dealt array of shape {shape} counts the cases: run them one by one")


Dealt = list[tuple[np.ndarray | None, Bits]]


class _Dealer(View):
    """The dealer's view: draws both parties' halves from the deck, and keeps them for the parties' views."""

    def __init__(self, deck: Deck, matrices: dict[int, np.ndarray]) -> None:
        self._deck, self._matrices = deck, matrices
        self.halves: tuple[Dealt, Dealt] = ([], [])

    def _give(self, first: np.ndarray | None, second: np.ndarray | None, window: Bits) -> None:
        for halves, half in zip(self.halves, (first, second), strict=True):
            halves.append((half, window))

    def _window(self, ring: AnyRing) -> Bits:
        return Bits(1) if ring == GF2 else self._deck.next_window()

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        window = self._window(ring)
        first, second = (self._deck.draw(shape, window, ring.dtype) for _ in (0, 1))
        self._give(first, second, window)
        return ring.add(first, second)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray:
        window = self._window(ring)
        own = self._deck.draw(shape, window, ring.dtype)
        first, second = (own, None) if owner == 0 else (None, own)
        self._give(first, second, window)
        return own

    private_rows = private

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        if to is None:
            raise ValueError("randomness that both parties get in full has no window and cannot be enumerated")
        window = self._window(ring)
        half = self._deck.draw(shape, window, ring.dtype)
        other = half.copy()
        self._give(*((half, other) if to == 1 else (other, half)), window)
        return other

    def made(self, recipe: Recipe, halves: Sequence[Half], to: int | None) -> Sequence[np.ndarray]:
        values = in_shape(recipe(), halves)
        for whole, (ring, half) in zip(values, halves, strict=True):
            half[...] = ring.subtract(whole, half)
        return values

    def permutation_key(self) -> bytes:
        raise ValueError("a pseudorandom function cannot be enumerated")

    def keep(self, number: int, mask: np.ndarray) -> None:
        self._matrices[number] = mask

    def kept(self, number: int) -> np.ndarray:
        return self._matrices[number]

    def drop(self, number: int) -> None:
        del self._matrices[number]


class _Replay(View):
    """A party's view: returns the values that the dealer kept for it, in order."""

    def __init__(self, rank: int, halves: Dealt, matrices: dict[int, np.ndarray]) -> None:
        self._rank, self._halves, self._matrices = rank, iter(halves), matrices

    def _next(self, *_: Any, **__: Any) -> Any:
        return next(self._halves)[0]

    mask = private = private_rows = half = _next

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> Any:
        return recipe() if self._rank == owner else None

    def kept(self, number: int) -> np.ndarray:
        return self._matrices[number]


class _Dealing:
    """The values dealt so far; a request is dealt when the first party asks for it."""

    def __init__(self, deck: Deck) -> None:
        self._deck, self._masks = deck, dict[int, np.ndarray]()
        self.requests: list[tuple[Dealt, Dealt]] = []

    def request(self, index: int, asked: Correlation[Any]) -> tuple[Dealt, Dealt]:
        if index == len(self.requests):
            dealer = _Dealer(self._deck, self._masks)
            asked.deal(dealer)
            self.requests.append(dealer.halves)
        return self.requests[index]


class _Randomness:
    """One party's dealt values, in the order of its requests."""

    has_dealer = True
    dealt = used = 0
    waited = 0.0

    def __init__(self, dealing: _Dealing, rank: int) -> None:
        self._dealing, self._rank, self._asked = dealing, rank, 0
        self._matrices: dict[int, np.ndarray] = {}

    def take(self, asked: Correlation[Any]) -> Any:
        halves = self._dealing.request(self._asked, asked)[self._rank]
        self._asked += 1
        return asked.deal(_Replay(self._rank, halves, self._matrices))

    def keep(self, number: int, masked: np.ndarray) -> None:
        self._matrices[number] = masked


@dataclass
class Seen:
    """The values that one party saw in every case, as columns of small integers."""

    dealt: list[np.ndarray] = field(default_factory=list)
    messages: list[np.ndarray] = field(default_factory=list)


def play(steps: Callable[[int, Party], Steps[Any]], deck: Deck, dtype: np.dtype) -> tuple[list[Any], tuple[Seen, Seen]]:
    """Run both parties' `steps(rank, party)` against each other; return their outputs and what each saw.

    `dtype` is that of the ring's words.
    """
    dealing = _Dealing(deck)
    # There is no link and no meter: this function drives the two generators against each other.
    running = [steps(rank, Party(rank, None, _Randomness(dealing, rank))) for rank in (0, 1)]  # type: ignore[arg-type]
    outputs: list[Any] = [None, None]
    seen = Seen(), Seen()
    said = [_advance(running[rank], None, outputs, rank) for rank in (0, 1)]
    while said[0] is not None:
        messages = [[_bytes(a) for s in _rounds(said[rank]) for a in s.sent] for rank in (0, 1)]
        for rank in (0, 1):
            for message in messages[1 - rank]:
                seen[rank].messages.extend(_columns(message, deck, dtype))
        said = [_advance(running[rank], messages[1 - rank], outputs, rank) for rank in (0, 1)]
    for rank in (0, 1):
        for request in dealing.requests:
            for half, window in request[rank]:
                if half is not None:
                    seen[rank].dealt.extend(deck.by_case(window.look(half)).T)
    return outputs, seen


def _advance(running: Steps[Any], answer: list[np.ndarray] | None, outputs: list[Any], rank: int) -> Any:
    try:
        return next(running) if answer is None else running.send(answer)
    except StopIteration as done:
        outputs[rank] = done.value
        return None


def _rounds(said: Round | list[Round]) -> Sequence[Round]:
    return [said] if isinstance(said, Round) else said


def _bytes(message: np.ndarray | Pieces) -> np.ndarray:
    return np.frombuffer(bytearray(message.tobytes()), np.uint8)


def _columns(message: np.ndarray, deck: Deck, dtype: np.dtype) -> Iterator[np.ndarray]:
    """Yield a message as columns: ring words by their window, narrower words whole, bits one by one."""
    count = deck.cases.size
    if message.size % count:
        bits = np.unpackbits(message, bitorder="little")
        yield from bits[: bits.size // count * count].reshape(count, -1).T
    elif message.size // count % dtype.itemsize:
        yield from message.reshape(count, -1).T
    else:
        words = message.view(dtype).reshape(count, -1)
        _refuse_wider(words, deck.ring)
        yield from deck.ring.look(words).T


def _refuse_wider(words: np.ndarray, ring: Bits) -> None:
    """Refuse words outside the ring: sums of a few of its words stay near zero; the window would truncate others."""
    top = ring.low + ring.bits
    if top < words.dtype.itemsize * 8:
        near = words + words.dtype.type(1 << top + 2)
        if (near >> words.dtype.type(top + 3)).any():
            raise ValueError(f"a message holds words that are not of the ring of {ring.bits} bits")
