"""The memory that a training takes per row: 20 features, 32 bins, private edges, trees of depth 4."""

import tracemalloc

import numpy as np
import pytest

from sharewood import SecureXGBClassifier, run_local

MOST = 1200
SIZES = 100_000, 200_000


def peak(party, rows):
    rng = np.random.default_rng(party.rank)
    X = rng.normal(size=(rows // 2, 20)).astype(np.float32)
    tracemalloc.start()
    SecureXGBClassifier(n_estimators=1, max_depth=4).fit(party, X, (X[:, 0] + X[:, 1] > 0).astype(float))
    return tracemalloc.get_traced_memory()[1]


@pytest.mark.long
def test_a_row_takes_little_memory():
    small, large = (run_local(lambda party, rows=rows: peak(party, rows)) for rows in SIZES)
    for before, after in zip(small, large, strict=True):
        per_row = (after - before) / (SIZES[1] - SIZES[0])
        assert per_row < MOST, per_row
