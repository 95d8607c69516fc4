"""Leakage assessment of trainings with an owner's columns and labels: no message tells which table the owner has.

The owner's half is nothing at one party and the whole table at the other: halves that are uniform would hide a leak.
"""

import numpy as np
import pytest

from mpc.matrix.fixed_operand import OperandMask
from protocols.testing.two_parties import Recorder, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.table import Table
from secure_tree.owners.columns import shapes, training_bits
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerColumns
from tests.leakage.welch import Tally, leaking_positions

ROWS = 6
PARAMETERS = {"n_estimators": 1, "max_depth": 2, "max_bin": 4, "partition": "vertical"}
OWNER = OwnerColumns("bank", "a" * 32, ROWS, names=("f0",), labelled=True)


class Held:
    """Implements `Source`: one party holds all bits of the owner."""

    ids = None

    def __init__(self, bits, holder):
        self.bits, self.holder = np.packbits(bits), holder

    def open(self, party, config, known, names):
        own = self.bits if party.rank == self.holder else np.zeros_like(self.bits)
        return ContributedColumns(config, party.rank, {"bank": OWNER}, [shapes(config, OWNER)], [own], [None], self)

    def confirm(self):
        pass


def transcript(table, holder, seed):
    """Return what each party sends."""
    source = Held(training_bits(TrainConfig.of(**PARAMETERS), table, OWNER), holder)

    def job(party):
        party.link = Recorder(party.link)
        X = np.arange(ROWS, dtype=float)[:, None]
        SecureXGBClassifier(**PARAMETERS).fit(party, X if party.rank else X[::-1], contributed=source)
        return b"".join(data for _, data in party.link.rounds)

    return run_both(job, tuple((2 * seed + p).to_bytes(16, "little") for p in (0, 1)))[0]


def tables(rng):
    return Table(rng.normal(size=(ROWS, 1)).astype(np.float32), ("f0",), labels=rng.permutation(ROWS) % 2.0)


def leaking(runs):
    """Return, for each holder and party, the number of bits that distinguish one table from random ones."""
    rng = np.random.default_rng(1)
    fixed, found = tables(rng), []
    for holder in (0, 1):
        groups = {True: [], False: []}
        for run in range(runs):
            for same in groups:
                groups[same].append(transcript(fixed if same else tables(rng), holder, 4 * run + 2 * same + holder))
        for p in (0, 1):
            one, other = (Tally.by_run([run[p] for run in groups[same]]) for same in (True, False))
            found.append(leaking_positions(one, other).size)
    return found


def test_no_bit_distinguishes_an_owners_table():
    assert leaking(16) == [0, 0, 0, 0]


@pytest.mark.long
def test_no_bit_distinguishes_an_owners_table_in_many_runs():
    assert leaking(300) == [0, 0, 0, 0]


def test_a_planted_leak_is_found(monkeypatch):
    """The mask of a fixed operand lacks its lowest bit."""
    deal = OperandMask.deal

    def weak(self, view):
        class Weak:
            def __getattr__(self, name):
                return getattr(view, name)

            def mask(self, ring, shape):
                return view.mask(ring, shape) & ~ring.dtype.type(1)

        return deal(self, Weak())

    monkeypatch.setattr(OperandMask, "deal", weak)
    assert any(leaking(16))
