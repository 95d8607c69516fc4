"""Product of one party's rows and an authentic matrix; selection of authentic words by a small authentic number.

Functionality  `product`: rows M of the owner, authentic [C] -> authentic [M C^T]
               `choose`: authentic [k] and [w], w modulo 2^64 -> wide authentic [w if k = 0, else 0]
Messages       rows: the owner sends D = M - U once;  product: none;  choose: k + rho
Cost           8 bytes per word of M from the owner; 8 bytes per element of k each way; one round for either. The dealer
               sends 16 bytes per word of M, 24 per word of the product, and 64 * 2^b + 8 per element of k, of b bits
How            E = C - r became public when C was taken in (mpc/authenticated/macs.py). The dealer kept r and deals [U
               r^T]: M C^T = D C^T + U E^T + U r^T. Likewise w = E + r modulo 2^64, and the tables hold 1{k = 0} and
               1{k = 0} r
Security       as mpc/authenticated/macs.py; D is a one-time pad. The owner may send any D: its rows are its own choice
Source         Beaver, CRYPTO 1991, with MACs as in SPDZ2k: Cramer et al., CRYPTO 2018
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.authenticated.macs import (
    FIRST_PLACE,
    PADS,
    AuthenticatedShare,
    AuthenticMask,
    Keyring,
    authenticated_words,
    deal_macs,
    deal_wide_macs,
    input_authenticated,
    open_authenticated,
)
from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.rings import Z64, Z128
from mpc.rounds import Round, Steps
from mpc.words import U8, U64, low_bits

# Where the dealer keeps masks: those of each party's rows, then those of values taken in.
_ROWS, _TAKEN = FIRST_PLACE, FIRST_PLACE + 2
# Bits of the number that `choose` selects by.
MOST_BITS = 8


@correlation
class RowMask:
    """U, known to `owner`, with MACs; the dealer keeps it."""

    owner: int
    rows: int
    columns: int

    def deal(self, view: View) -> tuple[Any, np.ndarray]:
        shape = (self.rows, self.columns)
        mask = view.private(self.owner, Z64, shape)
        view.keep(_ROWS + self.owner, mask)
        return mask, deal_macs(view, mask, shape)


@correlation
class RowProducts:
    """Authentic [U r^T] for the mask U of the rows and some rows of the mask r kept at this place."""

    place: int
    owner: int
    rows: int
    first: int
    count: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.rows, self.count)

        def product() -> np.ndarray:
            r = view.kept(self.place)[self.first : self.first + self.count]
            return _matmul(view.kept(_ROWS + self.owner), r)

        words = view.derived(Z64, shape, product)
        return words, deal_macs(view, words, shape)


@correlation
class ChoiceTables:
    """Authentic [rho], and tables of 1{k = rho} and 1{k = rho} r modulo 2^128.

    r are words, from `first` up, of the mask kept at this place; each has tables for `count` rows.
    """

    place: int
    first: int
    count: int
    rows: int
    bits: int

    def deal(self, view: View) -> list[tuple[np.ndarray, np.ndarray]]:
        if not 1 <= self.bits <= MOST_BITS:
            raise ValueError(f"bits must be 1 to {MOST_BITS}, got {self.bits}")
        shape = (self.rows, self.count)
        rho = view.mask(Z64, shape)

        def tables() -> np.ndarray:
            entries = np.arange(1 << self.bits, dtype=U64)
            hot = (entries == low_bits(rho, self.bits)[..., None]).astype(U64)
            r = view.kept(self.place).reshape(-1)[self.first : self.first + self.count]
            return Z128.widened(np.stack([hot, hot * r[:, None]], axis=-1))

        table = view.derived(Z128, (*shape, 1 << self.bits, 2, 2), tables)
        return [(rho, deal_macs(view, rho, shape, 1)), (table, deal_wide_macs(view, table))]


@dataclass(frozen=True)
class Taken:
    """A value that both parties have taken in: its difference E from the mask at `place`, and the authentic share."""

    place: int
    difference: np.ndarray
    share: AuthenticatedShare


@dataclass(frozen=True)
class AuthenticatedRows:
    """Rows of an owner: D, and the authentic share of U."""

    owner: int
    difference: np.ndarray
    mask: AuthenticatedShare


def input_at(party: Endpoint, keyring: Keyring, number: int, own: np.ndarray) -> Steps[Taken]:
    """Own halves of words -> Taken, with a mask that the dealer keeps under `number`."""
    masked = AuthenticatedShare(*party.randomness.take(AuthenticMask(_TAKEN + number, own.shape)), keyring)
    return Taken(_TAKEN + number, *(yield from input_authenticated.steps(party, masked, own)))


def _rows_cost(keyring: Keyring, owner: int, own: np.ndarray | None, rows: int, columns: int) -> Cost:
    bits = 64 * rows * columns
    return Cost(1, (bits, 0) if owner == 0 else (0, bits))


@protocol(cost=_rows_cost, exact=False)
def input_rows(
    party: Endpoint, keyring: Keyring, owner: int, own: np.ndarray | None, rows: int, columns: int
) -> Steps[AuthenticatedRows]:
    """The owner's rows, words [rows, columns] (None at the other party) -> AuthenticatedRows."""
    mask, macs = party.randomness.take(RowMask(owner, rows, columns))
    if own is not None:
        difference = own - mask
        yield Round([difference.reshape(-1).view(U8)], [])
    else:
        mask = np.zeros((rows, columns), U64)
        (received,) = yield Round([], [8 * rows * columns])
        difference = received.view(U64).reshape(rows, columns)
    keyring.note(difference)
    return AuthenticatedRows(owner, difference, AuthenticatedShare(mask, macs, keyring))


def _matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n, k], [m, k] -> [n, m]."""
    return Z64.matmul(x[None], y.T[None])[0]


def product(party: Endpoint, rows: AuthenticatedRows, taken: Taken, first: int, count: int) -> AuthenticatedShare:
    """Rows [n, k] times some rows of the authentic matrix [m, k] -> authentic [n, count]. No message."""
    n = len(rows.difference)
    words, macs = party.randomness.take(RowProducts(taken.place, rows.owner, n, first, count))
    chosen, difference = taken.share[first : first + count], taken.difference[first : first + count]
    words = words + _matmul(rows.difference, chosen.words) + _matmul(rows.mask.words, difference)
    both = zip(chosen.macs, rows.mask.macs, strict=True)
    added = [_matmul(rows.difference, own) + _matmul(of_mask, difference) for own, of_mask in both]
    return AuthenticatedShare(words, [mac + more for mac, more in zip(macs, added, strict=True)], rows.mask.keyring)


@protocol(cost=lambda k, bits, taken, first: Cost(1, both(64 * k.size)), exact=False)
def choose(party: Endpoint, k: AuthenticatedShare, bits: int, taken: Taken, first: int) -> Steps[AuthenticatedShare]:
    """Authentic [k], [n, count], of `bits` bits, and words of `taken` from `first` up -> wide [w where k = 0]."""
    rows, count = k.shape
    request = ChoiceTables(taken.place, first, count, rows, bits)
    (rho, rho_macs), (table, table_macs) = party.randomness.take(request)
    hidden = yield from open_authenticated.steps(party, k + AuthenticatedShare(rho, rho_macs, k.keyring))
    at = low_bits(hidden, bits).astype(np.int64)[..., None, None, None]
    words, macs = (np.take_along_axis(w, at, axis=2)[:, :, 0] for w in (table, table_macs))
    both = AuthenticatedShare(words, [macs], k.keyring, Z128)
    difference = Z128.widened(taken.difference.reshape(-1)[first : first + count])
    return both[:, :, 0].times(difference) + both[:, :, 1]


def _rows(i: Inputs, n: int) -> list[Any]:
    own = i.known(0, 99, n, 3).astype(U64)
    return [Keyring.begin(i.party), 0, own if i.party.rank == 0 else None, n, 3]


def _turns(i: Inputs, n: int) -> list[Any]:
    k = authenticated_words(i, 0, 4, n, 3)
    weights = i.party.run(input_at(i.party, k.keyring, 0, i.words(-99, 99, 3).words))
    return [k, 2, weights, 0]


describe(
    input_rows,
    samples=calls(_rows),
    priced=calls(_rows, element="row of three words, with MACs"),
    evidence=PADS,
)
describe(
    choose,
    samples=calls(_turns),
    priced=calls(_turns, element="three words, each where a number of 2 bits is 0, with MACs"),
    evidence=PADS,
)
