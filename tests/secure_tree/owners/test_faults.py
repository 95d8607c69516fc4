"""Owners that vanish at any stage, at one party or both, or send garbage there: a sentence that names them, no hang."""

import numpy as np
import pytest

from mpc.errors import PeerVanished, SharewoodError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.agreement.same_rows import digest_of
from secure_tree.owners.columns import OwnersOfColumns
from secure_tree.owners.contributing import contribute
from tests.secure_tree.opened import contributing
from tests.secure_tree.owners.test_owners import PARAMETERS, tables
from tests.secure_tree.test_twin import table

SENT = ("owner.facts", "owner.labels", "owner.counts", "owner.bins")
SENT_BY_COLUMNS = ("owner.facts", "owner.ids", "owner.bits")
HEARD = ("owner.terms", "owner.edges", "owner.receipt")
GARBAGE = {
    "nothing": None,
    "a number": 7,
    "an empty dict": {},
    "a short seed": {"seed": b"short"},
    "a short half": {"data": np.zeros(3, np.uint8)},
    "both": {"seed": bytes(32), "data": np.zeros(3, np.uint8)},
    "a list": [1, 2, 3],
}


class Faulty:
    """A line that fails as it sends or hears one kind of message."""

    def __init__(self, line, tag, garbage=None):
        self._line, self._tag, self._garbage = line, tag, garbage

    def send(self, tag, tree):
        if tag == self._tag and self._garbage is None:
            self._line.close()
            raise PeerVanished("the test ends the line")
        self._line.send(tag, self._garbage[0] if tag == self._tag else tree)

    def receive(self, tag, limit=None):
        if tag == self._tag:
            self._line.close()
            raise PeerVanished("the test ends the line")
        return self._line.receive(tag, limit)

    def __getattr__(self, name):
        return getattr(self._line, name)


def outcome(made, faulty, ids=None):
    """Train on two owners, of whom bank_b has the lines that `faulty` makes; return each party's error, or None.

    With ids of rows, they have further columns of these rows.
    """
    a, b, c, d = made
    parameters = PARAMETERS if ids is None else {**PARAMETERS, "edges": "private", "partition": "vertical"}

    def second(lines):
        try:
            return contribute([faulty(rank, line) for rank, line in enumerate(lines)], *d, ids=ids)
        finally:
            for line in lines:
                line.close()

    lines, said = contributing({"bank_a": lambda lines: contribute(lines, *c, ids=ids), "bank_b": second})

    def job(party):
        given = lines[party.rank] if ids is None else OwnersOfColumns(lines[party.rank], digest_of(ids))
        try:
            SecureXGBClassifier(**parameters).fit(party, *(a, b)[party.rank], contributed=given)
        except SharewoodError as error:
            for line in (*lines[party.rank].values(), party.link):
                line.close()
            return str(error)
        return None

    errors, _ = run_both(job)
    for each in said:
        assert each.exception(timeout=30) is None or isinstance(each.exception(), SharewoodError)
    return errors


@pytest.fixture(scope="module")
def made():
    return tables((20, 20, 15, 10), d=2)


@pytest.mark.parametrize("where", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("tag", [*SENT, *HEARD])
def test_an_owner_that_vanishes(made, tag, where):
    errors = outcome(made, lambda rank, line: Faulty(line, tag) if rank in where else line)
    if tag == "owner.receipt":
        return  # it has contributed, and the training may go on
    assert any(error and "bank_b" in error for error in errors) or tag in HEARD, errors
    assert all(error is not None for error in errors), errors


@pytest.mark.parametrize("where", [(0,), (1,)])
@pytest.mark.parametrize("tag", SENT)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_an_owner_that_sends_garbage(made, tag, where, garbage):
    errors = outcome(made, lambda rank, line: Faulty(line, tag, [garbage]) if rank in where else line)
    assert all(error is not None and "\n" not in error for error in errors), errors
    assert "bank_b" in errors[where[0]], errors


@pytest.fixture(scope="module")
def by_columns():
    X, y = table(15, 4, seed=3)
    return [(X[:, k : k + 1], y if k == 3 else None) for k in range(4)]


IDS = [f"id{k}" for k in range(15)]


@pytest.mark.parametrize("where", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("tag", [*SENT_BY_COLUMNS, "owner.terms", "owner.receipt"])
def test_an_owner_of_columns_that_vanishes(by_columns, tag, where):
    errors = outcome(by_columns, lambda rank, line: Faulty(line, tag) if rank in where else line, IDS)
    if tag == "owner.receipt":
        return
    assert any(error and "bank_b" in error for error in errors) or tag in HEARD, errors
    assert all(error is not None for error in errors), errors


@pytest.mark.parametrize("where", [(0,), (1,)])
@pytest.mark.parametrize("tag", SENT_BY_COLUMNS)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_an_owner_of_columns_that_sends_garbage(by_columns, tag, where, garbage):
    errors = outcome(by_columns, lambda rank, line: Faulty(line, tag, [garbage]) if rank in where else line, IDS)
    assert all(error is not None and "\n" not in error for error in errors), errors
    assert "bank_b" in errors[where[0]], errors
