"""Audited explorations: the same results, each after a verdict, and one flipped bit is found or changes nothing."""

import random
from collections import Counter

import numpy as np
import pytest

from mpc.checks.verdict import Auditor, begin
from mpc.errors import AuditFailure
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.explore.explore import explore
from tests.attacks.test_flipped_bits import Flip
from tests.secure_tree.explore.tables import parts, table
from tests.secure_tree.explore.test_owners import divided
from tests.secure_tree.explore.test_owners import explored as explored_with_owners

FLOORS = {"rows": 100, "class_rows": 10, "bits": 1.0}
EVERY = ("iv", "auc", "ks", "missing", "mean", "deviation", "correlation", "vif", "label_rate")
FIXED = ("names", "numbers", "woe", "moments", "correlation", "label_rate")


def same(found, expected):
    for name in FIXED:
        one, other = getattr(found, name), getattr(expected, name)
        if name == "names":
            assert one == other
        elif isinstance(one, dict):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[k], other[k], equal_nan=True) for k in one), name
        else:
            assert np.array_equal(np.array(one, float), np.array(other, float), equal_nan=True), name


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize(
    "asked",
    [
        {"top": 2},
        {"top": 3, "reveal": "woe", "statistics": EVERY},
        {"reveal": "numbers", "statistics": ("missing",)},
        {"top": 2, "privacy": {"rho": 1.0}, "reveal": "numbers"},
    ],
)
def test_results_are_those_without_an_audit(monkeypatch, source, partition, asked):
    monkeypatch.setattr("secure_tree.explore.explore.draw", lambda _, shape, __: np.full(shape, 3))
    X, y = table(rows=1200, features=5)
    own = parts(X, y, partition)

    def job(party, audit):
        if audit:
            begin(party)
        return explore(party, **own[party.rank], partition=partition, floors=FLOORS, **asked)

    expected, _ = run_both(lambda party: job(party, False), source=source)
    found, parties = run_both(lambda party: job(party, True), source=source)
    for one, other, party in zip(found, expected, parties, strict=True):
        same(one, other)
        assert not party.audit.take()[0], "nothing is left without a verdict"


def test_with_owners_of_rows():
    sizes = (1300, 1200, 1100)
    X, y = table(rows=sum(sizes), features=3)
    own, owners = divided(X, y, sizes)
    asked = {"reveal": "woe", "statistics": ("iv", "psi", "missing")}
    expected, _ = explored_with_owners(own, owners, dealt, **asked)
    found, _ = explored_with_owners(own, owners, dealt, begin=begin, **asked)
    same(found[0], expected[0])


def run(own, source, asked, here=None):
    def job(party):
        party.audit = Auditor(b"seed")
        if here:
            here.rank = party.rank
        found = explore(party, **own[party.rank], floors=FLOORS, **asked)
        party.audit.settle(party)
        return found

    return run_both(job, source=source)[0]


@pytest.mark.parametrize("count", [3, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_a_flipped_bit_is_found_or_changes_nothing(monkeypatch, count, source, partition):
    X, y = table(rows=1200, features=3, missing=0)
    own = parts(X, y, partition)
    asked = {"partition": partition, "top": 2, "reveal": "woe", "bins": 3, "statistics": EVERY}
    rng, found = random.Random(count), Counter()
    with monkeypatch.context() as patch:
        flip = Flip(patch, 0, 0, rng)
        honest = run(own, source, asked, flip.here)
    for _ in range(count):
        with monkeypatch.context() as patch:
            rank, at = rng.randrange(2), rng.randint(1, flip.made)
            try:
                ends = run(own, source, asked, Flip(patch, rank, at, rng).here)
            except AuditFailure:
                found["found"] += 1
                continue
        for one, other in zip(ends, honest, strict=True):
            same(one, other)
        found["no matter"] += 1
    # Many shares are made in rehearsals, on zeros, where a flip changes nothing.
    assert count < 100 or found["found"] > count / 20, found
