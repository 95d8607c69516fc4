"""A model on the screened columns of a wide table is as good as one on all of them."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from xgboost import XGBClassifier

from sharewood import explore, run_local

ROWS, COLUMNS, MATTER, TOP = 30_000, 1_500, 60, 100


def wide(seed=1):
    """Columns of which 60 matter, a third of these in the shape of a U."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * ROWS, COLUMNS), dtype=np.float32)
    matter = np.sort(rng.choice(COLUMNS, MATTER, replace=False))
    weights = rng.uniform(0.15, 0.5, MATTER).astype(np.float32)
    shapes = X[:, matter]
    shapes[:, ::3] = shapes[:, ::3] ** 2 - 1
    y = (rng.uniform(size=2 * ROWS) < 1 / (1 + np.exp(2 - shapes @ weights))).astype(int)
    return X, y, matter


@pytest.mark.long
def test_the_names_of_100_of_1500_columns():
    X, y, matter = wide()
    train, test = slice(0, ROWS), slice(ROWS, None)

    def job(party):
        own = X[train] if party.rank == 0 else np.zeros((ROWS, 0))
        found = explore(party, own, y[train] if party.rank else None, partition="vertical", top=TOP)
        return found.names

    names, _ = run_local(job)
    kept = np.array([int(name[1:]) for name in names])
    assert len(kept) == TOP and len(np.setdiff1d(matter, kept)) <= 1

    def auc(columns):
        model = XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.2, max_bin=32, n_jobs=2)
        model.fit(X[train][:, columns], y[train])
        return roc_auc_score(y[test], model.predict_proba(X[test][:, columns])[:, 1])

    assert auc(kept) > auc(np.arange(COLUMNS)) - 0.003
