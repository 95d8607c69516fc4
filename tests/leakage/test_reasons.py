"""Leakage assessment of reasons: no message, that of the reveal included, tells what is in a row, nor do both
parties' messages of a round together, which open masked values.
"""

from dataclasses import replace

import numpy as np
import pytest

from mpc.lookup.one_hot import OneHotMasks
from mpc.offline.recipes import OneHot
from mpc.rings import GF2
from protocols.testing.two_parties import Recorder, run_both
from secure_tree.prediction.reasons.explaining import Explanation, revealed_reasons
from secure_tree.prediction.reasons.request import requested
from secure_tree.prediction.reasons.table import make_table
from tests.leakage.welch import Tally, leaking_positions
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table

FEATURES = 2


@pytest.fixture(scope="module")
def models():
    X, y = table(30, FEATURES, seed=3)
    return [m.model for m in train_both(*halves(X, y, 15), n_estimators=1, max_depth=2, max_bin=4).models]


def transcript(models, row, show, seed):
    """Return what each party sends if party 0 has the row, and the bits in which their messages of a round differ."""

    def job(party):
        model, own = models[party.rank], row if party.rank == 0 else row[:0]
        request = requested(model, None, 1, {}, show, "higher")
        made = party.run(make_table(party, model, request))
        party.link = Recorder(party.link)
        layout = replace(model.facts.layout, rows=(1, 0))
        revealed_reasons(party, Explanation(model, made, request), layout, own, "thresholds")
        return [np.frombuffer(data, np.uint8) for _, data in party.link.rounds]

    sent = run_both(job, tuple((2 * seed + p).to_bytes(16, "little") for p in (0, 1)))[0]
    opened = [one ^ other for one, other in zip(*sent, strict=True) if one.size == other.size]
    return [np.concatenate(messages).tobytes() for messages in (*sent, opened)]


def leaking(models, show, runs):
    """Return how many bits of each transcript distinguish one row from random ones."""
    rng, groups = np.random.default_rng(1), {True: [], False: []}
    fixed = np.full((1, FEATURES), -2, np.float32)  # left at the root, where most rows are right
    for run in range(runs):
        for same in groups:
            row = fixed if same else rng.normal(size=(1, FEATURES)).astype(np.float32)
            groups[same].append(transcript(models, row, show, 2 * run + same))
    return [
        leaking_positions(*(Tally.by_run([run[p] for run in groups[same]]) for same in (True, False))).size
        for p in range(3)
    ]


@pytest.mark.parametrize("show", ["names", "numbers"])
def test_no_bit_distinguishes_a_row(models, show):
    assert leaking(models, show, 60) == [0, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("show", ["names", "numbers"])
def test_no_bit_distinguishes_a_row_in_many_runs(models, show):
    assert leaking(models, show, 1000) == [0, 0, 0]


def test_a_planted_leak_is_found(models, monkeypatch):
    """The first turn on every path has no mask."""
    deal = OneHotMasks.deal

    def weak(self, view):
        r, _ = deal(self, view)
        r = r.copy()
        r[:, 0] = 0
        return r, view.derived(GF2, (self.count, 1 << self.bits), OneHot(r))

    monkeypatch.setattr(OneHotMasks, "deal", weak)
    assert any(leaking(models, "names", 60))
