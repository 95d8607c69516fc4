"""Known matrix times shared vectors: both owners, both fields, compared with the plain product."""

import numpy as np
import pytest

from mpc.errors import MaskReuse
from mpc.matrix import linear_map
from mpc.matrix.known_matrix import BinColumns, BinRows, DenseBits, DenseWords
from mpc.matrix.linear_map import apply_matrix, share_masked_matrix
from mpc.rings import GF2, Z32, Z64
from mpc.words import U64
from protocols.testing.two_parties import bit_half, opened, ring_half, run_both

N, D, K = 137, 3, 5
BINS = np.random.default_rng(1).integers(0, K, (N, D)).astype(np.uint8)
ONE_HOT = (BINS[:, :, None] == np.arange(K)).reshape(N, D * K).astype(np.int64)


def run(owner, matrix, n_in, n_out, ring, make, uses=2):
    def job(party):
        mine = matrix if party.rank == owner else None
        shared = share_masked_matrix(party, owner, mine, n_in, n_out, ring)
        supply = shared.supply(party, uses * 2)
        out = []
        for use in range(uses):
            x = make(use, party.rank)
            before = party.meter.total.sent
            out.append(apply_matrix(party, supply, x))
            assert party.meter.total.sent - before == apply_matrix.cost(supply, x).bits[party.rank]
        with pytest.raises(MaskReuse):
            supply.take(1)
        shared.release(party)
        return out

    return zip(*run_both(job)[0], strict=True)


@pytest.fixture(params=["in memory", "in a file"])
def place(request, monkeypatch):
    """Where the masked matrix is stored."""
    if request.param == "in a file":
        monkeypatch.setattr(linear_map, "IN_A_FILE", 1)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("ring", [Z32, Z64])
def test_ring(owner, ring):
    xs = np.random.default_rng(2).integers(-1000, 1000, (2, 2, N))
    for use, halves in enumerate(
        run(owner, BinColumns(BINS, K), N, D * K, ring, lambda u, rank: ring_half(xs[u], rank, ring.dtype))
    ):
        assert np.array_equal(opened(halves), xs[use] @ ONE_HOT)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("owner", [0, 1])
def test_bits(owner):
    xs = np.random.default_rng(3).integers(0, 2, (2, 2, D * K))
    for use, halves in enumerate(run(owner, BinRows(BINS, K), D * K, N, GF2, lambda u, rank: bit_half(xs[u], rank))):
        assert np.array_equal(opened(halves), xs[use] @ ONE_HOT.T % 2)


@pytest.mark.usefixtures("place")
def test_dense():
    m = np.random.default_rng(4).integers(-9, 9, (7, 4))
    xs = np.random.default_rng(5).integers(-99, 99, (2, 2, 7))
    for use, halves in enumerate(run(0, DenseWords(m.astype(U64)), 7, 4, Z64, lambda u, rank: ring_half(xs[u], rank))):
        assert np.array_equal(opened(halves), xs[use] @ m)
    b = np.random.default_rng(6).integers(0, 2, (4, 70)).astype(np.uint8)
    xs = np.random.default_rng(7).integers(0, 2, (2, 2, 70))
    for use, halves in enumerate(run(1, DenseBits(b), 70, 4, GF2, lambda u, rank: bit_half(xs[u], rank))):
        assert np.array_equal(opened(halves), xs[use] @ b.T % 2)
