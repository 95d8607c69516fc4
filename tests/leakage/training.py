"""Whole trainings for the leakage assessment: what each party sends on fixed and on random rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpc.matrix.linear_map import MatrixMask
from protocols.testing.two_parties import Recorder, run_both
from secure_tree import SecureXGBClassifier
from tests.leakage.welch import Tally

ROWS, FEATURES = 8, 2
Rows = tuple[np.ndarray, np.ndarray]


class Listener(Recorder):
    """Records the public facts as well as the messages."""

    def __init__(self, link):
        super().__init__(link)
        self.facts = []

    def exchange_public(self, tag, tree):
        # The token that pairs two models is drawn afresh in every training, and digests of public numbers depend on it.
        self.facts.append((tag, {name: value for name, value in tree.items() if name not in ("token", "digests")}))
        return self._link.exchange_public(tag, tree)


def random_rows(rng: np.random.Generator) -> Rows:
    """Return the features and labels of both parties together."""
    return rng.normal(size=(ROWS, FEATURES)), rng.integers(0, 2, ROWS).astype(float)


def transcript(rows: Rows, seed: int, **parameters) -> list[tuple[list, bytes]]:
    """Return each party's public facts, and the bytes that it sends, while one tree is trained."""
    X, y = rows
    if parameters.get("partition") == "vertical":
        tables = (X[:, :1], y), (X[:, 1:], None)
    else:
        half = ROWS // 2
        tables = (X[:half], y[:half]), (X[half:], y[half:])

    def job(party):
        party.link = Listener(party.link)
        SecureXGBClassifier(n_estimators=1, max_bin=4, **parameters).fit(party, *tables[party.rank])
        return party.link.facts, b"".join(data for _, data in party.link.rounds)

    return run_both(job, tuple((2 * seed + p).to_bytes(16, "little") for p in (0, 1)))[0]


def assess(runs: int, seed: int = 0, **parameters) -> list[tuple[Tally, Tally]]:
    """For each party, return tallies of `runs` trainings on the same rows and of `runs` on fresh ones."""
    rng = np.random.default_rng(seed)
    fixed = random_rows(rng)
    groups: dict[bool, list] = {True: [], False: []}
    for run in range(runs):
        for same in (True, False):
            rows = fixed if same else random_rows(rng)
            groups[same].append(transcript(rows, 2 * (seed + run) + same, **parameters))
    facts_of_runs = [[facts for facts, _ in run] for group in groups.values() for run in group]
    assert all(facts == facts_of_runs[0] for facts in facts_of_runs), "the public facts depend on the rows"
    return [tuple(Tally.by_run([run[p][1] for run in groups[same]]) for same in (True, False)) for p in (0, 1)]


def weaken(patch: Callable) -> None:
    """Plant a leak: the mask of a known matrix loses its lowest bit. `patch(object, name, value)` sets it."""
    deal = MatrixMask.deal

    def weak(self, view):
        class Weak:
            def __getattr__(self, name):
                return getattr(view, name)

            def private_rows(self, owner, ring, shape):
                mask = view.private_rows(owner, ring, shape)
                return None if mask is None else mask[:] & ~ring.dtype.type(1)

        return deal(self, Weak())

    patch(MatrixMask, "deal", weak)
