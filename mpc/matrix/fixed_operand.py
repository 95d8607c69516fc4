"""Matrix product of fresh secret rows with a fixed secret matrix.

Functionality  [M] once, then [x] -> [x M], batched: x [b, v, k], M [b, k, m] -> [b, v, m], over Z_2^k or GF(2)
Messages       once: M - A                             each use: x - rho            (one round each)
               if a party knows x, only this party sends, and has its share of x M before any message
Cost           |M| words once, |x| words per use, each way; offline: [A], and [rho], [rho A] per use
Security       semi-honest, perfect: every message is a one-time pad; A hides one M, rho one x. Who
               knows x also knows its rho
Source         Beaver, CRYPTO 1991, with the opening of the fixed operand kept: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint
from mpc.host.streaming import RowsInFile
from mpc.matrix.known_matrix import packed_rows, storage_of
from mpc.matrix.linear_map import MatrixRelease
from mpc.offline import transfers
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Pair
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import Call, Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, bit, private, word
from mpc.rings import GF2, Z64, Ring, Z2k, packed_bits
from mpc.rounds import Round, Steps, open_shares
from mpc.shares import AShare, BShare, S, product_scale
from mpc.words import U8, U64, Shape, low_bits, pack_words, packed_size, packed_sizes, unpack_words

# A matrix of at least this many bytes is kept as known ones are: over GF(2) packed, in a file if it still has as many.
IN_A_FILE = 1 << 22
# The owner of rows that are shared, in plans, whose values are counts.
NOBODY = 2


@correlation
class OperandMask:
    """[A] for the operand with this number."""

    number: int
    shape: Shape
    ring: Ring

    def deal(self, view: View) -> np.ndarray:
        mask = view.mask(self.ring, self.shape)
        view.keep(self.number, mask)
        return mask


@correlation
class OperandProduct:
    """[rho] and [rho A]; with an `owner`, rho at the owner, who alone knows it, and None at the other party.

    one_hot: 1 if each row of A has a single 1 or none, which two parties know as bits; else 0.
    """

    number: int
    shape: Shape
    columns: int
    ring: Ring
    owner: int = NOBODY
    one_hot: int = 0

    def deal(self, view: View) -> tuple[Any, np.ndarray]:
        if self.owner == NOBODY:
            rho: Any = view.mask(self.ring, self.shape)
        else:
            rho = view.private(self.owner, self.ring, self.shape)
        return rho, view.derived(self.ring, (*self.shape[:-1], self.columns), SharedProduct(self, view.kept, rho))


@dataclass(frozen=True)
class SharedProduct:
    """The rows rho of a request, shared or known to their owner, times its matrix, which is shared."""

    of: OperandProduct
    kept: Callable[[int], Any]
    rho: np.ndarray | None

    def __call__(self) -> np.ndarray:
        assert self.rho is not None, "the dealer knows all rows"
        return self.of.ring.matmul(self.rho, self.kept(self.of.number))

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        own: OperandShare | None = pair.operands.kept(self.of.number)
        (b, v, k), m, ring = self.of.shape, self.of.columns, self.of.ring
        if self.of.owner != NOBODY:
            return (yield from self._known(pair, self.of.owner, own))
        assert self.rho is not None, "both parties have a share"
        if isinstance(ring, Z2k) and self.of.one_hot:
            bits = np.zeros((b, k, m), U8) if own is None or own.bits is None else own.bits
            words = self.rho.transpose(0, 2, 1).reshape(b * k, v)
            return (yield from pair.operands.one_hot_rows(self.of.number, bits.reshape(b * k, m), words, b, ring))
        if isinstance(ring, Z2k):
            rows = self.rho.transpose(0, 2, 1)[:, :, None]
            if own is not None and own.bits is None:
                products = yield from transfers.multiply(pair.rank, own.words[..., None], rows, ring)
            else:
                bits = np.zeros((b, k, m), U8) if own is None or own.bits is None else own.bits
                products = yield from transfers.choose(pair.rank, bits[..., None], rows, ring)
            return products.sum(axis=1, dtype=ring.dtype).transpose(0, 2, 1)
        matrix = np.zeros((b, k, m), U8) if own is None else own.words
        packed = packed_rows(matrix.reshape(b * k, m)).reshape(b, 1, k, -1)
        rows = np.broadcast_to(packed, (b, v, *packed.shape[2:])).reshape(b * v * k, -1)
        products = yield from transfers.and_each(pair.rank, self.rho.reshape(-1), rows, packed_bits(U64))
        sums = np.bitwise_xor.reduce(products.reshape(b * v, k, -1), axis=1)
        return transfers.unpack(sums, m).reshape(b, v, m)

    def _known(self, pair: Pair, owner: int, own: OperandShare | None) -> OfflineSteps[np.ndarray]:
        """The owner's rows times both shares of a single matrix: with its own share it multiplies by itself."""
        (_, v, k), m, ring = self.of.shape, self.of.columns, self.of.ring
        share = np.zeros((k, m), ring.dtype) if own is None else own.words[0]
        rho = np.zeros((v, k), ring.dtype) if self.rho is None else self.rho[0]
        if isinstance(ring, Z2k):
            cross = yield from transfers.matmul_private(pair.rank, owner, rho, share, ring)
        else:
            mine = rho.reshape(-1) if pair.rank == owner else np.tile(packed_rows(share), (v, 1))
            width = packed_rows(share).shape[1]
            (each,) = yield [transfers.private(pair.rank, owner, mine, packed_bits(U64), width)]
            cross = transfers.unpack(np.bitwise_xor.reduce(each.reshape(v, k, width), axis=1), m)
        cross = cross[None]
        return ring.add(cross, ring.matmul(rho[None], share[None])) if pair.rank == owner else cross


@dataclass(frozen=True)
class Large:
    """One large matrix as known ones are stored (mpc/matrix/known_matrix.py), in a file if it fills one."""

    rows: np.ndarray | RowsInFile

    @classmethod
    def of(cls, ring: Ring, matrix: np.ndarray) -> Large:
        stored = matrix if isinstance(ring, Z2k) else packed_rows(matrix.T)
        return cls(RowsInFile.of(stored) if stored.nbytes >= IN_A_FILE else stored)


# Matrices of shape [b, k, m], or a large one.
Kept = np.ndarray | Large


@dataclass(frozen=True)
class FixedOperand:
    """A shared matrix with m columns after its opening: M - A, and this party's share of M at party 0, of A at party 1.
    If the parties make the masks themselves, A is M and nothing is opened; `one_hot` is as in `fix`.
    """

    number: int
    opened: Kept | None
    own: Kept
    columns: int
    ring: Ring
    scale: int = 0
    one_hot: bool = False

    def times(self, x: np.ndarray, matrix: Kept) -> np.ndarray:
        """Multiply own rows by `opened` or `own`."""
        if isinstance(matrix, np.ndarray):
            return self.ring.matmul(x, matrix)
        rows = x[0] if isinstance(self.ring, Z2k) else packed_rows(x[0])
        return storage_of(self.ring).product(matrix.rows, rows)[None]

    def supply(self, party: Endpoint, count: int) -> OperandSupply:
        """Return the operand, which must be a single matrix, as a LinearMap. Masks are taken as they are used."""
        return OperandSupply(self)

    def release(self, party: Endpoint) -> None:
        """End the use of the operand: the dealer forgets A."""
        party.randomness.take(MatrixRelease(self.number))


@dataclass(frozen=True)
class OperandSupply:
    """A fixed operand of one matrix for vectors that come as rows."""

    of: FixedOperand

    def apply(self, party: Endpoint, x: S) -> Steps[S]:
        """Multiply by `multiply_fixed`, in one round."""
        return (yield from multiply_fixed.steps(party, x[None], self.of))[0]


def _wire(x: AShare | BShare, ring: Ring | None = None) -> int:
    return 8 * packed_size(x.size, (ring or x.ring).bits)


def _less(x: S, mask: np.ndarray, ring: Ring) -> S:
    """[x - mask] in `ring`."""
    return x.map(lambda w: low_bits(ring.subtract(w, mask), ring.bits))


@dataclass(frozen=True)
class OperandShare:
    """A party's share of a matrix; if its elements are bits lifted to a ring, also those bits as shared by xor."""

    words: np.ndarray
    bits: np.ndarray | None


@protocol(cost=lambda matrix, bits=None, ring=None, one_hot=False: Cost(1, both(_wire(matrix, ring))), exact=False)
def fix(
    party: Endpoint,
    matrix: AShare | BShare,
    bits: BShare | None = None,
    ring: Ring | None = None,
    one_hot: bool = False,
) -> Steps[FixedOperand]:
    """[M] of shape [b, k, m] -> FixedOperand, for any number of `multiply_fixed`; with <M> if its elements are bits.

    `ring` may have fewer bits than the words of M; the products are then shared in it. `one_hot`: each row of M has a
    single 1 or none, which makes products without a dealer cheap.
    """
    number, scale, ring = party.next_matrix(), getattr(matrix, "scale", 0), ring or matrix.ring
    if not party.randomness.has_dealer:
        party.randomness.keep(number, OperandShare(matrix._words, None if bits is None else bits.bits))
        return FixedOperand(number, None, matrix._words, matrix.shape[-1], ring, scale, one_hot)
    mask = party.randomness.take(OperandMask(number, matrix.shape, ring))
    (opened,) = yield from open_shares(_less(matrix, mask, ring), bits=[ring.bits])
    own = ring.add(mask, opened) if party.rank == 0 else mask
    columns = matrix.shape[-1]
    if len(opened) == 1 and opened.nbytes >= IN_A_FILE:
        return FixedOperand(number, Large.of(ring, opened[0]), Large.of(ring, own[0]), columns, ring, scale)
    return FixedOperand(number, opened, own, columns, ring, scale)


def _sent(x: AShare | BShare, operand: FixedOperand | None, owner: int | None = None) -> Cost:
    bits = _wire(x, operand.ring if operand else None)
    return Cost(1, both(bits) if owner is None else (bits * (owner == 0), bits * (owner == 1)))


@protocol(cost=_sent)
def multiply_fixed(party: Endpoint, x: S, operand: FixedOperand, owner: int | None = None) -> Steps[S]:
    """[x] of shape [b, v, k] times the fixed [b, k, m] -> [b, v, m]; scales add. Raises RangeError.

    owner: the party that knows x, whose share it is, while the other's is zero; the matrix is then a single one.
    """
    ring, scale = operand.ring, product_scale(x, operand.scale) if isinstance(x, AShare) else 0
    rho, product = party.randomness.take(
        OperandProduct(
            operand.number, x.shape, operand.columns, ring, NOBODY if owner is None else owner, int(operand.one_hot)
        )
    )
    if owner is None:
        (e,) = yield from open_shares(_less(x, rho, ring), bits=[ring.bits])
    elif owner == party.rank:
        e = _less(x, rho, ring)._words
        yield Round(pack_words(e, ring.bits), [])
    else:
        answer = yield Round([], packed_sizes(x.size, ring.bits))
        e = unpack_words(answer, x.shape, x._words.dtype, ring.bits)
    # rho (M - A) + rho A + e M, of which party 1 has e A.
    words = ring.add(operand.times(e, operand.own), product)
    if operand.opened is not None and rho is not None:
        words = ring.add(words, operand.times(rho, operand.opened))
    result: S = x._like(words)
    return result.at_scale(scale) if isinstance(result, AShare) else result  # type: ignore[return-value]


def _fixed_product(party: Endpoint, matrix: AShare | BShare, x: S) -> Steps[S]:
    """Fix a matrix and multiply one batch of rows by it."""
    operand = yield from fix.steps(party, matrix)
    return (yield from multiply_fixed.steps(party, x, operand))


def _known_product(owner: int, ring: Ring) -> Callable[..., Steps[Any]]:
    """Fix a matrix and multiply one row by it that the owner knows, in the clear there and None at the other party."""

    def steps(party: Endpoint, row: np.ndarray | None, matrix: AShare | BShare) -> Steps[AShare | BShare]:
        operand = yield from fix.steps(party, matrix)
        words = np.zeros((1, 1, matrix.shape[1]), ring.dtype) if row is None else row
        return (yield from multiply_fixed.steps(party, matrix._like(words), operand, owner))

    return steps


NARROW = Z2k(U64, 48)


def _with_operand(i: Inputs, x: AShare | BShare, matrix: AShare | BShare, ring: Ring | None = None) -> list[Any]:
    return [x, fix(i.party, matrix, None, ring)]


def _ring_sample(i: Inputs, n: int) -> list[Any]:
    matrix = i.words(-9, 9, 2, 3, n)
    return _with_operand(i, i.words(-9, 9, 2, 4, 3), matrix)


def _narrow_sample(i: Inputs, n: int) -> list[Any]:
    matrix = i.words(-9, 9, 2, 3, n)
    return _with_operand(i, i.words(-9, 9, 2, 4, 3), matrix, NARROW)


def _bit_sample(i: Inputs, n: int) -> list[Any]:
    matrix = i.bits(2, 3, n)
    return _with_operand(i, i.bits(2, 4, 3), matrix)


def _known(i: Inputs, n: int, owner: int, ring: Ring) -> list[Any]:
    """Rows that the owner knows, and a fixed matrix."""
    words = i.known(0, 2, 1, 4, 3).astype(ring.dtype) * (i.party.rank == owner)
    if not isinstance(ring, Z2k):
        return [*_with_operand(i, BShare(words, i.party.rank), i.bits(1, 3, n)), owner]
    return [*_with_operand(i, AShare(words, i.party.rank), i.words(-9, 9, 1, 3, n), ring), owner]


def _known_calls() -> tuple[Call, ...]:
    each = [(owner, ring) for owner in (0, 1) for ring in (Z64, NARROW, GF2)]
    return tuple(Call(lambda i, n, one=one: _known(i, n, *one), {}) for one in each)  # type: ignore[misc]


ENUMERATED = [
    Enumerated("Z_4", (word(2, 1, 1), word(2, 1, 1)), lambda m, x: x @ m, _fixed_product),
    Enumerated("GF(2), two terms", (bit(2, 1), bit(1, 2)), lambda m, x: x @ m, _fixed_product),
]
KNOWN = [
    Enumerated(
        f"{name}, known to {owner}",
        (private(owner, k, 1, 1, 1, dtype=ring.dtype), matrix),
        lambda x, m: x @ m,
        _known_product(owner, ring),
        batched=False,
    )
    for owner in (0, 1)
    for name, k, ring, matrix in (("Z_4", 2, Z64, word(2, 1, 1, 1)), ("GF(2)", 1, GF2, bit(1, 1, 1)))
]
describe(
    fix,
    samples=calls(lambda i, n: [i.words(-9, 9, n, 3, 2)])
    + calls(lambda i, n: [i.bits(n, 3, 2)])
    + calls(lambda i, n: [i.words(-9, 9, n, 3, 2), None, NARROW]),
    priced=calls(lambda i, n: [i.words(0, 1, 1, n, 32)], element="row of a matrix of 32 columns"),
    evidence=ENUMERATED,
)
describe(
    multiply_fixed,
    samples=calls(_ring_sample) + calls(_bit_sample) + calls(_narrow_sample) + _known_calls(),
    priced=calls(
        lambda i, n: _with_operand(i, i.words(0, 1, 1, n, 32), i.words(0, 1, 1, 32, 32)),
        element="vector of 32 times 32 x 32",
    ),
    lanes=calls(lambda i, n: _with_operand(i, i.words(-99, 99, n, 1, 3), i.words(-99, 99, n, 3, 2)))
    + calls(lambda i, n: _with_operand(i, i.bits(n, 1, 3), i.bits(n, 3, 2))),
    evidence=[*ENUMERATED, *KNOWN],
)
