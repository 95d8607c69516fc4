"""Transfers made from correlated oblivious transfers: bits of the chooser times words of the sender, shared.

Functionality  the chooser's c_i, the sender's words w_i -> shares of c_i w_i in the ring of the words
Messages       round 1, chooser -> sender: c_i xor b_i, b_i the random choice of a correlated transfer
               round 2, sender -> chooser: H(q_i) - H(q_i + delta) + w_i;  both directions use the same rounds
               A request for the blocks themselves (`Correlated`) takes round 1 only
Cost           per transfer, one bit and the bits of its words; besides, the correlated transfers
Security       choices and words stay hidden from a party that sends anything, since correlated transfers are checked
               (consistency.py); products are right if both follow the protocol: a party may flip any choice, and send
               any words. H is correlation robust (protocols/ot/pads.py), and every number is hashed once
Source         Ishai, Kilian, Nissim and Petrank, CRYPTO 2003; correlated: Asharov, Lindell, Schneider and Zohner,
               CCS 2013; derandomised: Beaver, CRYPTO 1995
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc.offline.transfers import Correlated, MaskedMessage, Transfer, TransferRequest
from mpc.rings import GF2, AnyRing
from mpc.rounds import Round, Steps, parallel
from mpc.words import U8, U64, pack_bits, packed_size, unpack_bits
from protocols.ot.pads import pads, pads_of_both


class Sender(Protocol):
    """Correlated transfers at their sender: `delta` uint64[2], and blocks q, uint64[n, 2]."""

    @property
    def delta(self) -> np.ndarray: ...

    def extend(self, count: int) -> Steps[np.ndarray]:
        """Make at least `count` blocks."""


class Receiver(Protocol):
    """Correlated transfers at their receiver: random bits b, uint8[n], and blocks q xor b delta, uint64[n, 2]."""

    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Make at least `count` of each."""


@dataclass
class _Stock:
    """The unused rest of extensions, a few arrays each, in order, and the number of the first transfer.

    Programs that run in turns claim what they will take: `open` is what is left or will come, without the claims.
    """

    pieces: deque[tuple[np.ndarray, ...]] = field(default_factory=deque)
    left: int = 0
    first: int = 0
    open: int = 0

    def claim(self, count: int) -> int:
        """Claim entries; return how many an extension must bring, for which this claim waits."""
        missing = max(0, count - self.open)
        self.open -= count - missing
        return missing

    def add(self, missing: int, *arrays: np.ndarray) -> None:
        """Add an extension for a claim of which `missing` entries had to come."""
        self.pieces.append(arrays)
        self.left += len(arrays[0])
        self.open += len(arrays[0]) - missing

    def take(self, count: int) -> tuple[int, list[np.ndarray]]:
        """Take `count` entries of each array, once; return the number of the first, and the entries."""
        assert count <= self.left, "the stock must be filled before it is used"
        first, self.first = self.first, self.first + count
        self.left -= count
        taken = []
        while count:
            arrays = self.pieces.popleft()
            if len(arrays[0]) > count:
                self.pieces.appendleft(tuple(array[count:] for array in arrays))
                arrays = tuple(array[:count] for array in arrays)
            taken.append(arrays)
            count -= len(arrays[0])
        return first, [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in zip(*taken, strict=True)]


@dataclass
class Transfers:
    """This party's end: a sender and a receiver of correlated transfers, and the hash keys of both directions."""

    rank: int
    sender: Sender
    receiver: Receiver
    keys: tuple[bytes, bytes]
    used: int = 0
    _blocks: _Stock = field(default_factory=_Stock)
    _choices: _Stock = field(default_factory=_Stock)

    def run(self, transfers: Sequence[TransferRequest]) -> Steps[list[np.ndarray]]:
        """Run transfers; return this party's share of each, [count, width], or the message that was sent or received.

        This takes two rounds, besides those of the extensions.
        """
        mine, theirs = (_grouped(transfers, chooser) for chooser in (self.rank, 1 - self.rank))
        kept, given = (_correlated(transfers, chooser) for chooser in (self.rank, 1 - self.rank))
        own_key, theirs_key = self.keys[self.rank], self.keys[1 - self.rank]
        chosen = sum(group.count for group in mine) + sum(one.count for one in kept.values())
        sent = sum(group.count for group in theirs) + sum(one.count for one in given.values())
        self.used += chosen + sent
        yield from self._extend(chosen, sent)
        first_chosen, (bits, received) = self._take(self._choices, chosen, 2)
        first_sent, (blocks,) = self._take(self._blocks, sent, 1)
        every = [group.choices for group in mine] + [one.choices for one in kept.values() if one.choices is not None]
        choices = np.concatenate(every) if every else np.zeros(0, U8)
        wishes = yield Round(
            [pack_bits(choices ^ bits)] if chosen else [], [packed_size(sent, 1)] if sent else [], "choices"
        )
        flips, delta = unpack_bits(wishes[0], (sent,)) if sent else np.zeros(0, U8), self.sender.delta
        shares = {
            number: np.zeros((0, one.width), one.ring.dtype)
            for number, one in enumerate(transfers)
            if isinstance(one, Transfer) and not one.count
        }
        told = [(number, asked) for number, asked in enumerate(transfers) if isinstance(asked, MaskedMessage)]
        messages, start = [], 0
        for group in theirs:
            of, ring = slice(start, start + group.count), group.ring
            both = pads_of_both(blocks[of], flips[of], delta, first_sent + start, group.pad_words, theirs_key)
            zero, other = (group.as_words(pads) for pads in both)
            messages += ring.pack(ring.add(ring.subtract(zero, other), group.words))
            group.spread(shares, ring.subtract(np.zeros_like(zero), zero))
            start += group.count
        for number, one in given.items():
            of = slice(start, start + one.count)
            shares[number] = blocks[of] ^ flips[of, None].astype(U64) * delta
            start += one.count
        sizes = [size for group in mine for size in group.ring.sizes((group.count, group.width))]
        for number, asked in told:
            if asked.words is None:
                sizes += asked.ring.sizes((asked.count,))
            else:
                messages += asked.ring.pack(asked.words)
                shares[number] = asked.words
        answer = iter((yield Round(messages, sizes, "words")))
        start = 0
        for group in mine:
            ring, shape = group.ring, (group.count, group.width)
            words = ring.unpack([next(answer) for _ in ring.sizes(shape)], shape)
            made = pads(received[start : start + group.count], first_chosen + start, group.pad_words, own_key)
            pad = group.as_words(made)
            group.spread(shares, ring.add(pad, words * group.choices[:, None].astype(ring.dtype)))
            start += group.count
        for number, one in kept.items():
            shares[number] = received[start : start + one.count]
            start += one.count
        for number, asked in told:
            if asked.words is None:
                sizes = asked.ring.sizes((asked.count,))
                shares[number] = asked.ring.unpack([next(answer) for _ in sizes], (asked.count,))
        return [shares[number] for number in range(len(transfers))]

    def _take(self, stock: _Stock, count: int, arrays: int) -> tuple[int, list[np.ndarray]]:
        if not count:
            return stock.first, [np.zeros(0, U8)] * arrays
        return stock.take(count)

    def _extend(self, chosen: int, sent: int) -> Steps[None]:
        """Claim this number of transfers in each direction, and extend the stocks if there are fewer."""
        steps = []
        if missing := self._blocks.claim(sent):
            steps.append(self._more_blocks(missing))
        if missing := self._choices.claim(chosen):
            steps.append(self._more_choices(missing))
        if steps:
            yield from parallel(*(steps if self.rank == 0 else reversed(steps)))

    def _more_blocks(self, count: int) -> Steps[None]:
        self._blocks.add(count, (yield from self.sender.extend(count)))

    def _more_choices(self, count: int) -> Steps[None]:
        self._choices.add(count, *(yield from self.receiver.extend(count)))


@dataclass
class _Group:
    """Transfers of one direction, ring and width, one after another: their numbers, and where each ends."""

    ring: AnyRing
    width: int
    numbers: list[int]
    ends: list[int]
    choices: np.ndarray
    words: np.ndarray

    @property
    def count(self) -> int:
        return self.ends[-1]

    @property
    def _pad_bytes(self) -> int:
        return -(-self.width // 8) if self.ring == GF2 else self.width * self.ring.dtype.itemsize

    @property
    def pad_words(self) -> int:
        """The words that a pad has at least."""
        return -(-self._pad_bytes // U64.itemsize)

    def as_words(self, pads: np.ndarray) -> np.ndarray:
        """Pads, uint64[count, pad_words] -> elements of the ring, [count, width]."""
        count, size = len(pads), self._pad_bytes
        # Copied by the widest words that divide it.
        unit = math.gcd(size, U64.itemsize)
        data = np.ascontiguousarray(pads.view(f"u{unit}")[:, : size // unit]).view(U8).reshape(count, size)
        if self.ring != GF2:
            return data.view(self.ring.dtype)
        if self.width == 1:
            return data & U8.type(1)
        return np.unpackbits(data.reshape(-1), bitorder="little").reshape(count, 8 * size)[:, : self.width]

    def spread(self, shares: dict[int, np.ndarray], whole: np.ndarray) -> None:
        """Store each transfer's part of `whole` under its number."""
        for number, part in zip(self.numbers, np.split(whole, self.ends[:-1]), strict=True):
            shares[number] = part


def _correlated(transfers: Sequence[TransferRequest], chooser: int) -> dict[int, Correlated]:
    """Return, by number, the requests for blocks themselves in which `chooser` chooses."""
    return {i: one for i, one in enumerate(transfers) if isinstance(one, Correlated) and one.chooser == chooser}


def _grouped(transfers: Sequence[TransferRequest], chooser: int) -> list[_Group]:
    """Group the transfers in which `chooser` chooses; words that are not known are left empty."""
    by_kind: dict[tuple[AnyRing, int], list[tuple[int, Transfer]]] = {}
    for number, transfer in enumerate(transfers):
        if isinstance(transfer, Transfer) and transfer.count and transfer.chooser == chooser:
            by_kind.setdefault((transfer.ring, transfer.width), []).append((number, transfer))
    groups = []
    for (ring, width), several in by_kind.items():
        numbers, these = [number for number, _ in several], [transfer for _, transfer in several]
        choices = [t.choices for t in these if t.choices is not None]
        words = [t.words for t in these if t.words is not None]
        ends = np.cumsum([t.count for t in these]).tolist()
        none = np.zeros((0, width), ring.dtype)
        groups.append(
            _Group(
                ring,
                width,
                numbers,
                ends,
                np.concatenate(choices) if choices else np.zeros(0, U8),
                np.concatenate(words) if words else none,
            )
        )
    return groups


def payload(asked: TransferRequest) -> tuple[int, int]:
    """Return the bytes that party 0 and party 1 send for a request, without the correlated transfers."""
    if isinstance(asked, MaskedMessage):
        size = sum(asked.ring.sizes((asked.count,)))
        return (size, 0) if asked.sender == 0 else (0, size)
    choices = packed_size(asked.count, 1)
    words = 0 if isinstance(asked, Correlated) else sum(asked.ring.sizes((asked.count, asked.width)))
    return (choices, words) if asked.chooser == 0 else (words, choices)


def key_of(session: bytes, chooser: int) -> bytes:
    """Return the hash key for transfers in which `chooser` chooses."""
    return HKDF(hashes.SHA256(), 16, session, b"sharewood pads %d" % chooser).derive(b"")
