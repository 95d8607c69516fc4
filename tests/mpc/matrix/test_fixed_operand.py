"""A fixed operand that is large enough to be kept in a file multiplies as one in memory."""

import numpy as np
import pytest

from mpc.host.streaming import RowsInFile
from mpc.matrix import fixed_operand
from mpc.matrix.fixed_operand import Large, fix, multiply_fixed
from mpc.shares import BShare
from protocols.testing.two_parties import made_by_both, opened, ring_half, run_both


@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.uint32, (1, 300, 7)), (np.uint64, (1, 1, 5)), (np.uint32, (2, 40, 3))]
)
@pytest.mark.parametrize("maker", [None, made_by_both])
def test_an_operand_in_a_file(monkeypatch, dtype, shape, maker):
    monkeypatch.setattr(fixed_operand, "IN_A_FILE", 1)
    rng = np.random.default_rng(4)
    matrix = rng.integers(0, 1 << 32, shape, dtype)
    rows = [rng.integers(0, 1 << 32, (shape[0], count, shape[1]), dtype) for count in (1, 6)]

    def job(party):
        operand = fix(party, ring_half(matrix, party.rank, np.dtype(dtype)))
        assert isinstance(operand.opened, Large) == isinstance(operand.own, Large) == (shape[0] == 1 and maker is None)
        assert maker or shape[0] > 1 or isinstance(operand.own.rows, RowsInFile)
        return [multiply_fixed(party, ring_half(x, party.rank, np.dtype(dtype)), operand) for x in rows]

    results, _ = run_both(job, **({"source": maker} if maker else {}))
    for x, *halves in zip(rows, *results, strict=True):
        assert np.array_equal(opened(halves).astype(dtype), x @ matrix)


@pytest.mark.parametrize("least", [1, 1 << 10])
@pytest.mark.parametrize("shape", [(300, 70), (1, 900), (129, 64)])
def test_an_operand_of_bits_is_packed(monkeypatch, least, shape):
    """In a file, or in memory if little is left of it."""
    monkeypatch.setattr(fixed_operand, "IN_A_FILE", min(least, shape[0] * shape[1]))
    rng = np.random.default_rng(5)
    matrix, x = (rng.integers(0, 2, size, np.uint8) for size in ((1, *shape), (1, 6, shape[0])))
    masks = [rng.integers(0, 2, each.shape, np.uint8) for each in (matrix, x)]

    def half(values, mask, rank):
        return BShare(values ^ mask if rank else mask, rank)

    def job(party):
        operand = fix(party, half(matrix, masks[0], party.rank))
        assert isinstance(operand.own, Large) and operand.own.rows.shape == (shape[1], -(-shape[0] // 64))
        return multiply_fixed(party, half(x, masks[1], party.rank), operand).bits

    (first, second), _ = run_both(job)
    assert np.array_equal(first ^ second, x.astype(int) @ matrix % 2)
