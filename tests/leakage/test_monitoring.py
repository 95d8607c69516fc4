"""Leakage assessment of a monitoring: no message before the reveals tells labels, groups or margins, nor do both
parties' messages of a round together, which open masked values.
"""

import numpy as np
import pytest

from mpc.arithmetic.bits import RowTriples
from mpc.offline.recipes import Product
from mpc.rings import GF2
from mpc.shares import AShare
from protocols.testing.two_parties import Recorder, run_both
from secure_tree.monitor.known import Known
from secure_tree.monitor.monitor import computed
from secure_tree.monitor.scores import Scored
from secure_tree.public.layout import Layout
from tests.leakage.welch import Tally, leaking_positions
from tests.secure_tree.monitor.rows import config

N, K = 4, 2
LAYOUT = Layout("vertical", (N, N), (1, 1), (2, 2))
ASKED = ("auc", "ks", "ece", "slope", "parity", "odds", "calibration", "loss")


def transcript(rows, seed):
    """Return what each party sends, and the bits in which their messages of a round differ.

    Party 1 holds all margins and the groups, party 0 the labels: halves that are uniform would hide a leak.
    """
    margin, labels, places = rows

    def job(party):
        own = np.round(margin * 2**20).astype(np.int64).view(np.uint64) if party.rank else np.zeros(N, np.uint64)
        scored = Scored(AShare(own, party.rank, 20), LAYOUT, 30, "")
        mine = (None, places) if party.rank else (labels, None)
        known = Known.of(party.rank, scored, *mine, K, False)
        party.link = Recorder(party.link)
        party.run(computed(party, config(statistics=ASKED), scored, known, None, None))
        return [np.frombuffer(data, np.uint8) for _, data in party.link.rounds]

    sent = run_both(job, tuple((2 * seed + p).to_bytes(16, "little") for p in (0, 1)))[0]
    opened = [one ^ other for one, other in zip(*sent, strict=True) if one.size == other.size]
    return [np.concatenate(messages).tobytes() for messages in (*sent, opened)]


def leaking(runs):
    """Return how many bits of each transcript distinguish some rows from random ones."""
    rng, groups = np.random.default_rng(1), {True: [], False: []}
    fixed = np.full(N, 1.5), np.ones(N, np.uint8), np.zeros(N, int)
    for run in range(runs):
        for same in groups:
            drawn = rng.normal(size=N) * 3, rng.integers(0, 2, N).astype(np.uint8), rng.integers(0, K, N)
            groups[same].append(transcript(fixed if same else drawn, 2 * run + same))
    return [
        leaking_positions(*(Tally.by_run([run[p] for run in groups[same]]) for same in (True, False))).size
        for p in range(3)
    ]


def test_no_bit_distinguishes_rows():
    assert leaking(60) == [0, 0, 0]


@pytest.mark.long
def test_no_bit_distinguishes_rows_in_many_runs():
    assert leaking(1000) == [0, 0, 0]


def test_a_planted_leak_is_found(monkeypatch):
    """The first factor of a conjunction has no mask: the label, or whether a row is selected."""
    deal = RowTriples.deal

    def weak(self, view):
        _, beta, _ = deal(self, view)
        alpha = np.zeros((*self.shape[:-1], 1), np.uint8)
        return alpha, beta, view.derived(GF2, self.shape, Product(GF2, alpha, beta))

    monkeypatch.setattr(RowTriples, "deal", weak)
    assert any(leaking(60))
