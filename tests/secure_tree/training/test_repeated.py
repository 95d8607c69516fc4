"""`run_local(job, seed=...)`: trainings that agree bit for bit, coins of rounding included."""

import numpy as np
import pytest

from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

RNG = np.random.default_rng(2)
X = RNG.normal(size=(300, 4))
CASES = {
    "classes": (SecureXGBClassifier, (X[:, 0] + X[:, 1] > 0).astype(float), {"subsample": 0.7}),
    "numbers": (SecureXGBRegressor, X @ [3.0, -1, 0.5, 0], {"colsample_bytree": 0.5}),
}


def trained(kind, y, parameters, offline, seed, folder):
    """Return both halves of a model, as files, and the margins of all rows."""

    def job(party):
        rows = slice(party.rank * 150, (party.rank + 1) * 150)
        estimator = kind(n_estimators=3, max_depth=3, max_bin=16, **parameters)
        estimator.fit(party, X[rows], y[rows])
        path = folder / f"{party.rank}.npz"
        estimator.model.save(path)
        return path.read_bytes(), estimator.predict(party, X[rows])

    return run_local(job, offline=offline, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
@pytest.mark.parametrize("case", CASES)
def test_two_trainings_with_one_seed_are_equal(case, offline, tmp_path):
    first, second, other, none = (trained(*CASES[case], offline, seed, tmp_path) for seed in (1, 1, 2, None))
    for (model, values), (again, repeated) in zip(first, second, strict=True):
        assert model == again and np.array_equal(values, repeated)
    for different in (other, none):
        assert all(model != theirs for (model, _), (theirs, _) in zip(first, different, strict=True))
