"""One bit flipped in a share, wherever a party makes one in an audited training and prediction: found, or no matter."""

import random
import threading
from collections import Counter

import numpy as np
import pytest

from mpc.checks.verdict import Auditor
from mpc.errors import AuditFailure
from mpc.shares import AShare, BShare, PShare
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3}
RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 4))
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
CLASS = (X[:, 0] - X[:, 3] + RNG.normal(size=60) > 0).astype(float)
# No split is nearly as good as the best one, so other coins choose the same.
CURVED = 3 * np.sin(2 * X[:, 0]) + X[:, 1]
CASES = {
    "bins": (SecureXGBClassifier, X, CLASS, "bins", {}),
    "held out": (SecureXGBClassifier, X, CLASS, "thresholds", {"test_size": 0.3, "eval_epochs": 1}),
    "columns": (SecureXGBClassifier, HOLES, CLASS, "thresholds", {"partition": "vertical", "missing": "all"}),
    "classes": (
        SecureXGBClassifier,
        X,
        CLASS + (X[:, 1] > 0.5),
        "thresholds",
        {"objective": "multi:ova", "num_class": 3, "n_estimators": 1},
    ),
    "monotone": (SecureXGBRegressor, X, CURVED, "thresholds", {"monotone_constraints": (1, 0, 0, -1)}),
    "interactions": (SecureXGBRegressor, X, CURVED, "bins", {"interaction_constraints": [[0, 1], [1, 2], [3]]}),
    "forest": (SecureXGBRegressor, X, CURVED, "bins", {"num_parallel_tree": 2, "n_estimators": 1}),
    "counts": (SecureXGBRegressor, X, CLASS * 3, "bins", {"objective": "count:poisson", "edges": "joint"}),
}


class Flip:
    """Of the shares that party `rank` makes, that number `at` has one bit flipped; `made` counts them."""

    def __init__(self, monkeypatch, rank, at, rng):
        self.made, self._rank, self._at, self._rng = 0, rank, at, rng
        self.here = threading.local()
        for kind in (AShare, BShare, PShare):
            monkeypatch.setattr(kind, "__init__", self._making(kind.__init__, kind is BShare))

    def _making(self, honest, bits):
        def init(share, words, *rest):
            if getattr(self.here, "rank", None) == self._rank:
                self.made += 1
                if self.made == self._at and words.size:
                    words = words.copy()
                    bit = 0 if bits else self._rng.randrange(8 * words.itemsize)
                    words.reshape(-1)[self._rng.randrange(words.size)] ^= words.dtype.type(1 << bit)
            honest(share, words, *rest)

        return init


def audited(case, here=None):
    """Margins at both parties, and what was revealed of held-out rows."""
    kind, table, labels, method, more = CASES[case]

    def job(party):
        party.audit = Auditor(b"seed")
        if here:
            here.rank = party.rank
        if more.get("partition"):
            rows, y = (table[:, :2], table[:, 2:])[party.rank], (labels, None)[party.rank]
        else:
            rows, y = (table[:25], table[25:])[party.rank], (labels[:25], labels[25:])[party.rank]
        model = kind(**{**SMALL, **more}).fit(party, rows, y)
        return model.predict_margin(party, rows, method), model.curve

    return run_both(job)[0]


@pytest.mark.parametrize("count", [3, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("case", CASES)
def test_a_flipped_bit_is_found_or_changes_nothing(monkeypatch, case, count):
    rng, found = random.Random(count), Counter()
    with monkeypatch.context() as patch:
        flip = Flip(patch, 0, 0, rng)
        honest = audited(case, flip.here)
    for _ in range(count):
        with monkeypatch.context() as patch:
            rank, at = rng.randrange(2), rng.randint(1, flip.made)
            try:
                ends = audited(case, Flip(patch, rank, at, rng).here)
            except AuditFailure:
                found["found"] += 1
                continue
        for (margins, curve), (expected, of_honest) in zip(ends, honest, strict=True):
            near = np.allclose(margins, expected, atol=2e-3, rtol=0)
            # Other coins alone move a metric by some 1e-6.
            near &= np.allclose(np.reshape(curve, (-1, 2)), np.reshape(of_honest, (-1, 2)), atol=1e-5, rtol=0)
            assert near, (case, rank, at)
        found["no matter"] += 1
    print(case, dict(found))
    assert count < 100 or found["found"] > count / 4
