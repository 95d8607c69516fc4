"""Input and output: the only ways in and out of shares.

share          the owner's array x -> [x]                  one round, owner to peer, |x| words
reveal         [x] -> x, to one party or to both           one round, to the named party only

Security       semi-honest, perfect. share: the peer gets x minus a mask that only the owner knows. reveal: the other
               half is determined by x and the receiver's own half. A dealt sharing of zero makes it uniform even if the
               sharing of x was not, as with a public value
Source         Beaver, CRYPTO 1991
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint
from mpc.errors import DataError, ProtocolDesync
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Zero
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit, private, word
from mpc.rings import Z64, PackedBits, Ring, Z2k
from mpc.rounds import Round, Steps
from mpc.shares import AShare, BShare, S
from mpc.words import U8, Shape, encode_signed, packed_size


@correlation
class InputMask:
    """Words that only the owner knows."""

    owner: int
    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> Any:
        return view.private(self.owner, self.ring, self.shape)


@correlation
class ZeroShares:
    """A sharing of zero."""

    shape: Shape
    ring: Ring

    def deal(self, view: View) -> np.ndarray:
        return view.derived(self.ring, self.shape, Zero(self.ring, self.shape))


def zero_for(party: Endpoint, x: S) -> S:
    """Take a uniform sharing of zero with the shape and the ring of x, an AShare or a BShare. No message."""
    ring = x.ring
    assert not isinstance(ring, PackedBits)
    zero = party.audit.once(lambda: party.randomness.take(ZeroShares(x.shape, ring)))
    return x.map(lambda _: zero)


def rerandomise(party: Endpoint, x: S) -> S:
    """[x], an AShare or a BShare -> a uniform sharing of x. No message."""
    return x.map(lambda own: x.ring.add(own, zero_for(party, x)._words))


MOST = 1 << 30


def agree_on_shape(party: Endpoint, shape: Shape | None, owner: int, scale: int) -> Shape:
    """Return the public shape of what `owner` shares; the other party passes None. Raises DataError, ProtocolDesync."""
    if owner not in (0, 1):
        raise DataError(f"share: owner must be party 0 or 1, got {owner!r}")
    mine = {"owner": owner, "scale": scale, "shape": None if shape is None else list(shape)}
    theirs = party.exchange_public("share.shape", mine)
    if (
        not isinstance(theirs, dict)
        or theirs.keys() != mine.keys()
        or not all(type(theirs[name]) is int and 0 <= theirs[name] <= MOST for name in ("owner", "scale"))
        or not _is_shape(theirs["shape"])
    ):
        raise ProtocolDesync(
            "share.shape: expected an owner, a scale and a shape, and the other party sent something else"
        )
    for name in ("owner", "scale"):
        if theirs[name] != mine[name]:
            raise DataError(
                f"share: the parties disagree on {name}: {mine[name]} here, {theirs[name]} at the other party"
            )
    if (mine["shape"] is None) == (party.rank == owner) or (theirs["shape"] is None) != (party.rank == owner):
        raise DataError(f"share: party {owner} must pass the values, and the other party must pass None")
    agreed = shape if shape is not None else tuple(theirs["shape"])
    if math.prod(agreed) > MOST:
        raise DataError(f"share: an array must have at most 2^30 numbers, got shape {agreed}")
    return agreed


def _is_shape(shape: Any) -> bool:
    return shape is None or (
        isinstance(shape, list) and len(shape) <= 16 and all(type(n) is int and 0 <= n <= MOST for n in shape)
    )


def _share_cost(values: np.ndarray | None, owner: int, shape: Shape, scale: int = 0, ring: Z2k = Z64) -> Cost:
    bits = ring.bits * math.prod(shape)
    return Cost(1, (bits, 0) if owner == 0 else (0, bits))


@protocol(cost=_share_cost, exact=False)
def share(
    party: Endpoint, values: np.ndarray | None, owner: int, shape: Shape, scale: int = 0, ring: Z2k = Z64
) -> Steps[AShare]:
    """The owner's numbers (the other party passes None) -> [values] of the public shape.

    Integers are in units of 2^-scale.
    """
    mask = party.randomness.take(InputMask(owner, shape, ring))
    if values is not None:
        words = encode_signed(values, ring.dtype, scale) - mask
        yield Round([words.reshape(-1).view(U8)], [])
        return AShare(mask, party.rank, scale)
    answer = yield Round([], ring.sizes(shape))
    return AShare(ring.unpack(answer, shape), party.rank, scale)


def _reveal_cost(x: AShare | BShare, to: int | None = None, zero: AShare | BShare | None = None) -> Cost:
    bits = 8 * packed_size(x.size, x.ring.bits)
    return Cost(1, (bits if to != 0 else 0, bits if to != 1 else 0))


@protocol(cost=_reveal_cost, reveals=("x",), exact=False)
def reveal(
    party: Endpoint, x: AShare | BShare, to: int | None = None, zero: AShare | BShare | None = None
) -> Steps[np.ndarray | None]:
    """[x] -> its words (bits for a BShare) at the party `to`, None at the other; `to` None means both.

    `zero` is a sharing of zero that was taken before.
    """
    zero = zero_for(party.unaudited(), x) if zero is None else zero
    half = x.ring.add(x._words, zero._words)
    sent = [] if to == party.rank else x.ring.pack(half)
    sizes = [] if to == 1 - party.rank else x.ring.sizes(x.shape)
    answer = yield Round(sent, sizes)
    return x.ring.add(half, x.ring.unpack(answer, x.shape)) if answer else None


def _shared(i: Inputs, owner: int, *shape: int) -> list[Any]:
    values = i.known(-99, 99, *shape)
    return [values if i.party.rank == owner else None, owner, shape]


TO = [{"to": to} for to in (0, 1, None)]

describe(
    share,
    samples=calls(lambda i, n: _shared(i, 0, n, 2)) + calls(lambda i, n: _shared(i, 1, n, 2)),
    priced=calls(lambda i, n: _shared(i, 0, n), element="word of party 0"),
    evidence=[
        Enumerated(
            f"Z_16, owner {owner}",
            (private(owner, 4, 1), owner, (1,)),
            lambda x: x,
            ring=Bits(4),
            batched=False,
        )
        for owner in (0, 1)
    ],
)
describe(
    reveal,
    samples=calls(lambda i, n: [i.words(-9, 9, n, 2)], *TO) + calls(lambda i, n: [i.bits(n, 2)], *TO),
    priced=calls(lambda i, n: [i.words(0, 1, n)], element="word, to both")
    + calls(lambda i, n: [i.words(0, 1, n), 0], element="word, to party 0")
    + calls(lambda i, n: [i.bits(n)], element="bit, to both"),
    evidence=[
        Enumerated(f"{name}, to {to}", (every, to), lambda x: x, padded=False)
        for to in (0, 1, None)
        for name, every in (("Z_16", word(4)), ("bits", bit()))
    ],
)
