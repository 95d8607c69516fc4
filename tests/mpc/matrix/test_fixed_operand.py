"""A fixed operand that is large enough to be kept in a file multiplies as one in memory."""

import numpy as np
import pytest

from mpc.host.streaming import RowsInFile
from mpc.matrix import fixed_operand
from mpc.matrix.fixed_operand import fix, multiply_fixed
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
        assert isinstance(operand.opened, RowsInFile) == (shape[0] == 1 and maker is None)
        return [multiply_fixed(party, ring_half(x, party.rank, np.dtype(dtype)), operand) for x in rows]

    results, _ = run_both(job, **({"source": maker} if maker else {}))
    for x, *halves in zip(rows, *results, strict=True):
        assert np.array_equal(opened(halves).astype(dtype), x @ matrix)
