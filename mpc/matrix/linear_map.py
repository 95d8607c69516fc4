"""Known matrix times shared vectors, used for histograms, routing and binned prediction.

Functionality  the owner p knows M in the clear; [x_1 .. x_v] -> [M x_1 .. M x_v], over Z_2^k or over GF(2)
Messages       once per matrix   p -> q: D = M - U                                  (`share_masked_matrix`)
               per use           q -> p: e = x_q - r                                 (`apply_matrix`, one round)
               p outputs M (x_p + e) + s_p, evaluated in the clear; q outputs t = D r + s_q
Blocks         over Z_2^k, blocks of rows may have sums of their own, each of which then fits a shorter word
Cost           online |x| words from q to p, independent of the size of M. Offline: U, r, s_q are expanded from seeds,
               the dealer sends s_p = U r - s_q to p, and q computes t before the online phase. Only q stores a matrix,
               in a file if it has at least IN_A_FILE bytes; the others draw U piece by piece, the owner once and the
               dealer for every s_p
Security       semi-honest, perfect: D and e are one-time pads. U serves one M, r serves one x
Source         matrix multiplication triples with one fixed operand: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint
from mpc.errors import MaskReuse, ShapeMismatch
from mpc.host.streaming import IN_A_FILE, Pieces, RowsInFile
from mpc.matrix.known_matrix import DenseBits, DenseWords, Matrix, storage_of
from mpc.offline import transfers
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Pair
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import Call, Inputs, calls, describe
from mpc.protocol.contract import Cost, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit, private, word
from mpc.rings import GF2, Z32, Z64, Ring, Z2k
from mpc.rounds import Round, Steps
from mpc.shares import S
from mpc.words import U8, packed_size


@correlation
class MatrixMask:
    """U, known only to `owner`, for the matrix with this number."""

    number: int
    owner: int
    n_in: int
    n_out: int
    ring: Ring

    def deal(self, view: View) -> Any:
        mask = view.private_rows(self.owner, *storage_of(self.ring).matrix(self.n_in, self.n_out))
        view.keep(self.number, mask)
        return mask


@correlation
class MatrixVectors:
    """For `count` vectors: r and t = D r + s_q at q, s_p = U r - s_q at the owner.

    `size` > 0: each group of `size` columns has a single 1 per row, and zeros elsewhere; 0: any matrix. `block` > 0:
    sums over blocks of so many rows, [count, blocks, n_out].
    """

    number: int
    owner: int
    n_in: int
    n_out: int
    ring: Ring
    count: int
    size: int = 0
    block: int = 0

    def deal(self, view: View) -> tuple[Any, np.ndarray]:
        storage, shape = storage_of(self.ring), (self.count, *blocks_of(self.n_in, self.block), self.n_out)
        r = view.private(1 - self.owner, *storage.vectors(self.count, self.n_in))
        product = KnownProduct(self, view.kept, r)
        half = view.derived(self.ring, shape, product, to=self.owner)
        own = view.computed(1 - self.owner, self.ring, shape, product)
        return r, half if own is None else self.ring.add(half, own)


@dataclass(frozen=True)
class KnownProduct:
    """The matrix of a request times its vectors r, which its owner does not know."""

    of: MatrixVectors
    kept: Callable[[int], Any]
    r: np.ndarray | None

    def __call__(self) -> np.ndarray:
        assert self.r is not None, "the dealer knows all vectors"
        return storage_of(self.of.ring).product(self.kept(self.of.number), self.r, self.of.block)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        of, own = self.of, pair.operands.kept(self.of.number)
        assert not of.block, "two parties add up blocks by transfers: mpc/functions/sums_by_bin.py"
        ring, n, width = of.ring, of.n_in, of.n_out
        if not isinstance(ring, Z2k):
            mine = own.columns() if own is not None else None if self.r is None else transfers.unpack(self.r, n)
            sums = yield from pair.operands.choose_columns(of.owner, mine, n, of.count, width)
            return transfers.unpack(sums, width)
        if of.size:
            return (yield from pair.operands.histogram(own, self.r, of))
        # The bits of the words r choose rows of the matrix.
        if pair.rank == of.owner:
            mine = np.tile(np.zeros((n, width), ring.dtype) if own is None else own.words, (of.count, 1))
        else:
            mine = np.zeros(of.count * n, ring.dtype) if self.r is None else self.r.reshape(-1)
        share = yield from transfers.multiply_private(pair.rank, 1 - of.owner, mine, width, ring)
        return share.reshape(of.count, n, width).sum(axis=1, dtype=ring.dtype)


@correlation
class MatrixRelease:
    """Releases a matrix: the dealer forgets its mask, and the party that does not own the matrix forgets D."""

    number: int

    def deal(self, view: View) -> None:
        view.drop(self.number)


@dataclass
class SharedMatrix:
    """A matrix that `owner` knows and the other party holds masked; `matrix` is None at the other party."""

    number: int
    owner: int
    n_in: int
    n_out: int
    ring: Ring
    size: int
    matrix: Matrix | None
    block: int = 0

    @property
    def empty(self) -> bool:
        """Whether it has no entries, as that of a party without features. Then nothing is sent and nothing is dealt."""
        return self.n_in * self.n_out == 0

    @property
    def width(self) -> int:
        """Payload bits of one vector on the wire."""
        return 8 * packed_size(self.n_in, self.ring.bits)

    def supply(self, party: Endpoint, count: int) -> VectorSupply:
        """Take masks for `count` vectors at once."""
        count *= party.audit.evaluations
        if self.empty:
            r, half = (np.zeros((count, n), self.ring.dtype) for n in (self.n_in, self.n_out))
            return VectorSupply(self, r, half)
        request = MatrixVectors(self.number, self.owner, self.n_in, self.n_out, self.ring, count, self.size, self.block)
        r, half = party.audit.once(lambda: party.randomness.take(request))
        return VectorSupply(self, r, half)

    def release(self, party: Endpoint) -> None:
        """End the use of the matrix: both parties and the dealer forget the masked matrix and its mask."""
        if not self.empty:
            party.randomness.take(MatrixRelease(self.number))


@dataclass
class VectorSupply:
    """Masks for later vectors, each used once."""

    of: SharedMatrix
    r: np.ndarray | None
    half: np.ndarray
    used: int = 0

    def take(self, count: int) -> tuple[np.ndarray | None, np.ndarray]:
        start, self.used = self.used, self.used + count
        if self.used > len(self.half):
            raise MaskReuse(
                f"matrix {self.of.number}: the supply has masks for {len(self.half)} vectors, got {self.used}"
            )
        return None if self.r is None else self.r[start : self.used], self.half[start : self.used]

    def apply(self, party: Endpoint, x: S) -> Steps[S]:
        """Multiply by `apply_matrix`, in one round."""
        return apply_matrix.steps(party, self, x)


def _one_way(owner: int, bits: int) -> tuple[int, int]:
    return (bits, 0) if owner == 1 else (0, bits)


def blocks_of(rows: int, block: int) -> tuple[int, ...]:
    """Return the number of blocks as an axis of sums, or no axis without blocks."""
    return (-(-rows // block),) if block else ()


def _share_cost(
    owner: int, matrix: Matrix | None, n_in: int, n_out: int, ring: Ring, size: int = 0, block: int = 0
) -> Cost:
    if n_in * n_out == 0:
        return Cost(0, (0, 0))
    word, shape = storage_of(ring).matrix(n_in, n_out)
    return Cost(1, _one_way(1 - owner, word.bits * math.prod(shape)))


@protocol(cost=_share_cost, exact=False)
def share_masked_matrix(
    party: Endpoint,
    owner: int,
    matrix: Matrix | None,
    n_in: int,
    n_out: int,
    ring: Ring,
    size: int = 0,
    block: int = 0,
) -> Steps[SharedMatrix]:
    """The owner's matrix (None at the other party) -> SharedMatrix, over `ring`; size and block as in MatrixVectors."""
    number = party.next_matrix()
    if n_in * n_out == 0:
        return SharedMatrix(number, owner, n_in, n_out, ring, size, matrix, block)
    if not party.randomness.has_dealer:
        party.randomness.keep(number, matrix)
        return SharedMatrix(number, owner, n_in, n_out, ring, size, matrix, block)
    word, shape = storage_of(ring).matrix(n_in, n_out)
    mask = party.randomness.take(MatrixMask(number, owner, n_in, n_out, ring))
    if party.rank == owner:
        assert matrix is not None and mask is not None
        known = matrix
        width = math.prod(shape[1:]) * word.dtype.itemsize
        yield Round([Pieces(shape[0], width, lambda rows: known.masked(rows, mask[rows]))], [])
    else:
        file = RowsInFile(shape, word.dtype)
        in_a_file = file.size >= IN_A_FILE and word.sizes(shape) == [file.size]
        answer = yield Round([], [file] if in_a_file else word.sizes(shape))
        party.randomness.keep(number, file if in_a_file else word.unpack(answer, shape))
        matrix = None
    return SharedMatrix(number, owner, n_in, n_out, ring, size, matrix, block)


def _apply_cost(supply: VectorSupply, x: S) -> Cost:
    return Cost(0, (0, 0)) if supply.of.empty else Cost(1, _one_way(supply.of.owner, len(x) * supply.of.width))


@protocol(cost=_apply_cost)
def apply_matrix(party: Endpoint, supply: VectorSupply, x: S) -> Steps[S]:
    """[x] of shape [v, n_in] -> [M x], [v, n_out] or [v, blocks, n_out], in the matrix's ring, at the scale of x."""
    shared = supply.of
    if x.shape[1:] != (shared.n_in,):
        raise ShapeMismatch(f"vectors must have {shared.n_in} words for this matrix, got shape {x.shape}")
    r, half = supply.take(len(x))
    if shared.empty:
        return x._like(half)
    storage = storage_of(shared.ring)
    if party.rank != shared.owner:
        assert r is not None
        yield Round([np.ascontiguousarray(storage.hide(x._words, r)).reshape(-1).view(U8)], [])
        return x._like(half)
    assert shared.matrix is not None
    (data,) = yield Round([], [len(x) * shared.width // 8])
    return x._like(shared.ring.add(shared.matrix.apply(storage.add(x._words, data)), half))


def _dense(i: Inputs, owner: int, n_in: int, n_out: int, ring: Ring) -> list[Any]:
    """Arguments of `share_masked_matrix`."""
    if isinstance(ring, Z2k):
        matrix: Matrix = DenseWords(i.known(0, 99, n_in, n_out).astype(ring.dtype))
    else:
        matrix = DenseBits(i.known(0, 2, n_out, n_in).astype(np.uint8))
    return [owner, matrix if i.party.rank == owner else None, n_in, n_out, ring]


def _vectors(i: Inputs, owner: int, n_in: int, n_out: int, ring: Ring, count: int, low: int, high: int) -> list[Any]:
    shared = share_masked_matrix(i.party, *_dense(i, owner, n_in, n_out, ring))
    supply = shared.supply(i.party, count)
    x = i.words(low, high, count, n_in, ring=ring) if isinstance(ring, Z2k) else i.bits(count, n_in)
    return [supply, x]


def _known_matrix(owner: int, n_in: int, ring: Ring) -> Callable[..., Steps[Any]]:
    """Share a masked matrix and apply it to one vector."""

    def steps(party: Endpoint, matrix: Any, x: Any) -> Steps[Any]:
        kind = DenseWords if isinstance(ring, Z2k) else DenseBits
        own = None if matrix is None else kind(matrix)
        shared = yield from share_masked_matrix.steps(party, owner, own, n_in, 1, ring)
        return (yield from apply_matrix.steps(party, shared.supply(party, 1), x))

    return steps


def _over_words(name: str, owner: int, ring: Z2k, long: bool) -> Enumerated:
    arguments = private(owner, 2, 1, 1, dtype=ring.dtype), word(2, 1, 1, dtype=ring.dtype)
    steps = _known_matrix(owner, 1, ring)
    return Enumerated(f"{name}, owner {owner}", arguments, lambda m, x: x @ m, steps, batched=False, long=long)


def _over_bits(owner: int, n: int) -> Enumerated:
    return Enumerated(
        f"GF(2)^{n}, owner {owner}",
        (private(owner, 1, 1, n, dtype=U8), bit(1, n)),
        lambda m, x: x @ m.T,
        _known_matrix(owner, n, GF2),
        ring=Bits(n),
        batched=False,
        long=n > 1,
    )


EVERY_RING: list[tuple[int, Ring]] = [(owner, ring) for owner in (0, 1) for ring in (Z32, Z64, GF2)]
ENUMERATED = [
    *(_over_words("Z_4", owner, Z64, long=False) for owner in (0, 1)),
    *(_over_words("Z_4 in words of 32 bits", owner, Z32, long=True) for owner in (0, 1)),
    *(_over_bits(owner, n) for owner in (0, 1) for n in (1, 2)),
]


def _of_each(arguments: Callable[[Inputs, int, int, Ring], list[Any]]) -> tuple[Call, ...]:
    def call(owner: int, ring: Ring) -> Call:
        return Call(lambda i, n: arguments(i, n, owner, ring), {})

    return tuple(call(*each) for each in EVERY_RING)


def _matrix_lane(i: Inputs, n: int, owner: int, ring: Ring) -> list[Any]:
    """One row of the matrix as it is sent, for every run."""
    return _dense(i, owner, n, 9, ring) if isinstance(ring, Z2k) else _dense(i, owner, 9, n, ring)


describe(
    share_masked_matrix,
    samples=_of_each(lambda i, n, owner, ring: _dense(i, owner, 9, n, ring)),
    lanes=_of_each(_matrix_lane),
    priced=calls(lambda i, n: _dense(i, 0, n, 32, Z32), element="row to 32 sums, 32 bits")
    + calls(lambda i, n: _dense(i, 0, n, 32, GF2), element="row to 32 parities"),
    evidence=ENUMERATED,
)
describe(
    apply_matrix,
    samples=_of_each(lambda i, n, owner, ring: _vectors(i, owner, 9, n, ring, 2, 0, 2)),
    lanes=_of_each(lambda i, n, owner, ring: _vectors(i, owner, 9, 9, ring, n, -99, 99)),
    priced=calls(lambda i, n: _vectors(i, 0, n, 32, Z32, 1, 0, 1), element="word to 32 sums, 32 bits")
    + calls(lambda i, n: _vectors(i, 0, n, 32, Z64, 1, 0, 1), element="word to 32 sums, 64 bits")
    + calls(lambda i, n: _vectors(i, 0, n, 32, GF2, 1, 0, 1), element="bit to 32 parities"),
    evidence=ENUMERATED,
)
