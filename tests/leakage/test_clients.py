"""Leakage assessment of predictions for clients: neither messages nor released halves tell which row was asked about.

A client's half is nothing at one party and the whole row at the other: halves that are uniform would hide a leak.
"""

import numpy as np
import pytest

from mpc.matrix.fixed_operand import OperandProduct
from mpc.shares import AShare
from protocols.testing.two_parties import Recorder, run_both
from secure_tree.data.bins import keys_of
from secure_tree.prediction.answering import released_margins
from secure_tree.prediction.predict import fix_model
from tests.leakage.welch import Tally, leaking_positions
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table

FEATURES = 2


@pytest.fixture(scope="module")
def models():
    X, y = table(30, FEATURES, seed=3)
    return [m.model for m in train_both(*halves(X, y, 15), n_estimators=1, max_depth=2, max_bin=4).models]


def transcript(models, row, holder, seed):
    """Return what each party sends, and the half that it releases, if party `holder` has the whole row."""
    keys = keys_of(row, ())

    def job(party):
        own = keys if party.rank == holder else np.zeros_like(keys)
        operand = party.run(fix_model(party, models[party.rank].ensemble, 1, 1))
        party.link = Recorder(party.link)
        half = released_margins(party, models[party.rank], operand, AShare(own, party.rank))
        return b"".join(data for _, data in party.link.rounds) + half.tobytes()

    return run_both(job, tuple((2 * seed + p).to_bytes(16, "little") for p in (0, 1)))[0]


def leaking(models, runs):
    """Return, for each holder and party, the bits that distinguish one row from random ones."""
    rng = np.random.default_rng(1)
    fixed = rng.normal(size=(1, FEATURES)).astype(np.float32)
    found = []
    for holder in (0, 1):
        groups = {True: [], False: []}
        for run in range(runs):
            for same in groups:
                row = fixed if same else rng.normal(size=(1, FEATURES)).astype(np.float32)
                groups[same].append(transcript(models, row, holder, 4 * run + 2 * same + holder))
        for p in (0, 1):
            one, other = (Tally.by_run([run[p] for run in groups[same]]) for same in (True, False))
            found.append(leaking_positions(one, other).size)
    return found


def test_no_bit_distinguishes_a_clients_row(models):
    assert leaking(models, 60) == [0, 0, 0, 0]


@pytest.mark.long
def test_no_bit_distinguishes_a_clients_row_in_many_runs(models):
    assert leaking(models, 1000) == [0, 0, 0, 0]


def test_a_planted_leak_is_found(models, monkeypatch):
    """The mask of a row lacks its lowest bit."""
    deal = OperandProduct.deal

    def weak(self, view):
        rho, product = deal(self, view)
        return rho & ~np.uint64(1), product

    monkeypatch.setattr(OperandProduct, "deal", weak)
    assert any(leaking(models, 60))
