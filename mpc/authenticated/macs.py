"""Information-theoretic MACs: authentic shares, so that a party that sends a false opening is caught.

Functionality  input         shares of x -> x with MACs; each party's half of x is its own choice
               open          authentic [x] -> x, masked, to both; checked later
               agree         -> whether everything opened matches its MACs; run before any result is revealed
               reveal        authentic [x] -> x at one party, or nothing at either
Messages       input: x_i - r_i;  open: x_i;  agree: a commitment, then its opening;  reveal: agree, open of x + v,
               agree; the receiver knows v modulo 2^64 and subtracts it
Cost           input, open: 8 bytes per word of 64 bits each way, one round; agree: 80 bytes each way, two rounds
How            The dealer shares two keys a of 64 bits, and one of 128; with each secret word x it deals [a x] beside
               [x]. Sums, and products with public numbers, are local. To check an opened x, party i computes
               z_i = [a x]_i - a_i x, and z_0 + z_1 must be 0: the parties compare SHA-256 digests of z_0 and of -z_1.
               The digests also cover the messages of inputs, as sent and as received
Security       the dealer and SHA-256 are trusted. Openings are one-time pads whatever the other party sends. If an
               opened word is wrong modulo 2^k, the liar must guess the honest party's share of the key modulo
               2^(w - k + 1), w being the width of the key. It succeeds with probability 2^-60 with both keys for
               k = 35, 2^-61 with one key for k = 4, and 2^-65 with the wide key for k = 64. Wrong bits above k change
               nothing that is read
Source         SPDZ: Damgard et al., CRYPTO 2012; modulo 2^k: SPDZ2k, Cramer et al., CRYPTO 2018; MACs beside tables:
               TinyTable, Damgard et al., CRYPTO 2017
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation, private_to_each
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued
from mpc.rings import Z8, Z64, Z128, WideIntegers, Z2k
from mpc.rounds import Steps, exchange_words, named
from mpc.shares import Share
from mpc.words import U8, Shape

# Keys of 64 bits: values of more than a few bits need both.
KEYS = 2
# Numbers under which the dealer keeps what later requests use: the keys, and from FIRST_PLACE on the masks of inputs.
_PLACES = 1 << 35
_WORD_KEYS, _WIDE_KEY, FIRST_PLACE = _PLACES, _PLACES + 1, _PLACES + 2
_NONCE, _DIGEST = 16, 32


def deal_macs(view: View, words: np.ndarray | None, shape: Shape, keys: int = KEYS) -> np.ndarray:
    """Deal [a x] for the first `keys` keys, [keys, *shape]."""

    def macs() -> np.ndarray:
        own = view.kept(_WORD_KEYS)[:keys]
        return own.reshape(-1, *(1 for _ in shape)) * words

    return view.derived(Z64, (keys, *shape), macs)


def deal_wide_macs(view: View, words: np.ndarray) -> np.ndarray:
    """Deal [a x] of wide integers, for the wide key."""
    return view.derived(Z128, words.shape, lambda: Z128.product(words, view.kept(_WIDE_KEY)))


@correlation
class MacKeys:
    """Each party's share of the keys, for all later requests; the dealer keeps their sums."""

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        keys, wide = view.mask(Z64, (KEYS,)), view.mask(Z128, (2,))
        view.keep(_WORD_KEYS, keys)
        view.keep(_WIDE_KEY, wide)
        return keys, wide


@correlation
class AuthenticMask:
    """Authentic [r], which the dealer keeps at this place."""

    place: int
    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        r = view.mask(Z64, self.shape)
        view.keep(self.place, r)
        return r, deal_macs(view, r, self.shape)


@correlation
class WideMask:
    """Authentic [r] modulo 2^128."""

    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        r = view.mask(Z128, (*self.shape, 2))
        return r, deal_wide_macs(view, r)


@correlation
class ReceiverMask:
    """u, known to `owner`, and authentic [v] with v = u modulo 2^64 and uniform above."""

    owner: int
    shape: Shape

    def deal(self, view: View) -> tuple[Any, np.ndarray, np.ndarray]:
        u = view.private(self.owner, Z64, self.shape)
        above = view.mask(Z64, self.shape)
        v = view.derived(Z128, (*self.shape, 2), lambda: np.stack([u, above], axis=-1))
        return u, v, deal_wide_macs(view, v)


@correlation
class Nonces:
    """Random bytes for each party, which only it knows."""

    size: int

    def deal(self, view: View) -> Any:
        return private_to_each(view, Z8, (self.size,))[1]


@dataclass
class Keyring:
    """A party's shares of the keys, and the digest of all that has been opened under them."""

    rank: int
    keys: np.ndarray
    wide: np.ndarray
    _seen: Any = field(default_factory=hashlib.sha256)

    @classmethod
    def begin(cls, party: Endpoint) -> Keyring:
        """Take new keys."""
        return cls(party.rank, *party.randomness.take(MacKeys()))

    def macs(self, words: np.ndarray, keys: int, ring: Z2k | WideIntegers) -> list[np.ndarray]:
        """Return this party's part of the MACs of public words, one array per key."""
        return [ring.product(words, key) for key in ([self.wide] if ring is Z128 else self.keys[:keys])]

    def note(self, words: np.ndarray) -> None:
        """Add to the digest words that must be the same at both parties."""
        self._seen.update(np.ascontiguousarray(words).reshape(-1).view(U8))

    def difference(self, macs: np.ndarray, expected: np.ndarray, ring: Z2k | WideIntegers) -> None:
        """Add to the digest the difference of MACs and their expected values; both parties' must sum to 0."""
        self.note(ring.subtract(macs, expected) if self.rank == 0 else ring.subtract(expected, macs))

    def noted(self) -> bytes:
        """Return the digest so far."""
        return self._seen.digest()


@dataclass(frozen=True, eq=False, repr=False)
class AuthenticatedShare(Share):
    """One party's share of words of 64 bits, or of integers modulo 2^128, and of their MACs, one array per key."""

    words: np.ndarray
    macs: Sequence[np.ndarray] | np.ndarray
    keyring: Keyring
    ring: Z2k | WideIntegers = Z64  # type: ignore[assignment]

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.keyring.rank

    @property
    def _words(self) -> np.ndarray:
        return self.words

    @property
    def shape(self) -> Shape:
        return self.words.shape[: self.words.ndim - len(self._word)]

    @property
    def _word(self) -> Shape:
        """The axis that holds low and high words, if there is one."""
        return (2,) if self.ring is Z128 else ()

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Self:
        """Change the words and each of their MACs in the same way, which is linear."""
        return replace(self, words=change(self.words), macs=[change(mac) for mac in self.macs])

    def __getitem__(self, key: Any) -> Self:
        return self.each(lambda w: w[key])

    def reshape(self, *shape: int) -> Self:
        return self.each(lambda w: w.reshape(*shape, *self._word))

    def repeated(self, count: int) -> Self:
        """Repeat the share `count` times along a new first axis."""
        return self.each(lambda w: np.repeat(w[None], count, axis=0))

    def transposed(self) -> Self:
        """Exchange the first two axes."""
        return self.each(lambda w: w.swapaxes(0, 1))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate along the first axis."""
        macs = [np.concatenate(of_key) for of_key in zip(*(x.macs for x in parts), strict=True)]
        return replace(parts[0], words=np.concatenate([x.words for x in parts]), macs=macs)

    def plus(self, public: np.ndarray) -> Self:
        """[x] + public words, of the shape of x."""
        words = self.ring.add(self.words, public) if self.rank == 0 else self.words
        added = self.keyring.macs(public, len(self.macs), self.ring)
        return replace(self, words=words, macs=list(map(self.ring.add, self.macs, added)))

    def __add__(self, other: Self) -> Self:
        macs = list(map(self.ring.add, self.macs, other.macs))
        return replace(self, words=self.ring.add(self.words, other.words), macs=macs)

    def __sub__(self, other: Self) -> Self:
        macs = list(map(self.ring.subtract, self.macs, other.macs))
        return replace(self, words=self.ring.subtract(self.words, other.words), macs=macs)

    def times(self, public: Any) -> Self:
        """[x] times public words, which broadcast to the shape of x."""
        return self.each(lambda w: self.ring.product(w, public))

    def sum(self, axis: int = -1) -> Self:
        """Sum along an axis."""
        return self.each(lambda w: self.ring.sum(w, axis % len(self.shape)))

    def note_opened(self, opened: np.ndarray) -> None:
        """Record that [x] was opened as `opened`, for `agree` to check."""
        for mac, expected in zip(self.macs, self.keyring.macs(opened, len(self.macs), self.ring), strict=True):
            self.keyring.difference(mac, expected, self.ring)


# A public difference from a mask, and the value that it makes of the mask.
Masked = tuple[np.ndarray, AuthenticatedShare]


def _both_ways(words: np.ndarray) -> Cost:
    return Cost(1, both(64 * words.size))


@protocol(cost=lambda masked, own: _both_ways(own), exact=False)
def input_authenticated(
    party: Endpoint, masked: AuthenticatedShare, own: np.ndarray
) -> Steps[tuple[np.ndarray, AuthenticatedShare]]:
    """Own halves of x, as words of the ring, and authentic [r] of a mask -> x - r, public, and authentic [x]."""
    sent = masked.ring.subtract(own, masked.words)
    (received,) = yield from exchange_words([sent], [64])
    for words in (sent, received) if masked.rank == 0 else (received, sent):
        masked.keyring.note(words)
    difference = masked.ring.add(sent, received)
    return difference, masked.plus(difference)


@protocol(cost=lambda x: _both_ways(x.words), exact=False)
def open_authenticated(party: Endpoint, x: AuthenticatedShare) -> Steps[np.ndarray]:
    """Masked authentic [x] -> x; `agree` must check it before any result is revealed."""
    (received,) = yield from exchange_words([x.words], [64])
    opened: np.ndarray = x.ring.add(x.words, received)
    x.keyring.note(opened)
    x.note_opened(opened)
    return opened


def agree(party: Endpoint, keyring: Keyring) -> Steps[bool]:
    """Return whether everything opened under the keys matches its MACs; both parties first commit to their digests."""
    opening = np.concatenate([party.randomness.take(Nonces(_NONCE)), np.frombuffer(keyring.noted(), U8)])
    commitment = np.frombuffer(_commitment(party.rank, opening), U8)
    (promised,) = yield from named("macs.agree", exchange_words([commitment], [8]))
    (received,) = yield from named("macs.agree", exchange_words([opening], [8]))
    kept = _commitment(1 - party.rank, received) == promised.tobytes()
    return kept and received[_NONCE:].tobytes() == opening[_NONCE:].tobytes()


def _commitment(rank: int, opening: np.ndarray) -> bytes:
    return hashlib.sha256(bytes([rank]) + opening.tobytes()).digest()


def masked_wide(party: Endpoint, keyring: Keyring, shape: Shape) -> AuthenticatedShare:
    """Return a dealt mask modulo 2^128 with its MAC."""
    words, mac = party.randomness.take(WideMask(shape))
    return AuthenticatedShare(words, [mac], keyring, Z128)


def masked_words(i: Inputs, *shape: int) -> AuthenticatedShare:
    """Return a dealt mask with MACs, under keys of its own."""
    keyring = Keyring.begin(i.party)
    return AuthenticatedShare(*i.party.randomness.take(AuthenticMask(FIRST_PLACE, shape)), keyring)


def authenticated_words(i: Inputs, low: int, high: int, *shape: int) -> AuthenticatedShare:
    """Return words low .. high - 1 with MACs."""
    return i.party.run(input_authenticated.steps(i.party, masked_words(i, *shape), i.words(low, high, *shape).words))[1]


def hidden_words(i: Inputs, low: int, high: int, *shape: int) -> AuthenticatedShare:
    """Return words low .. high - 1 with MACs, under a mask, so that they may be opened."""
    x = authenticated_words(i, low, high, *shape)
    return x + AuthenticatedShare(*i.party.randomness.take(AuthenticMask(FIRST_PLACE, shape)), x.keyring)


PADS = (
    Argued(
        "MACs are never sent, and keys are too long to be enumerated; its test counts with short ones",
        "perfect for privacy: each word that is sent is hidden by a dealt word that is used once",
    ),
)
describe(
    input_authenticated,
    samples=calls(lambda i, n: [masked_words(i, n), i.words(-9, 9, n).words]),
    priced=calls(lambda i, n: [masked_words(i, n), i.words(0, 1, n).words], element="word of 64 bits, with MACs"),
    evidence=PADS,
)
describe(
    open_authenticated,
    samples=calls(lambda i, n: [hidden_words(i, -9, 9, n)]),
    priced=calls(lambda i, n: [hidden_words(i, 0, 1, n)], element="masked word of 64 bits, with MACs"),
    evidence=PADS,
)
