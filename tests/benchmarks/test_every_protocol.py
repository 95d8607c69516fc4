"""Every registered protocol is measured, with valid arguments."""

import pytest

from benchmarks.every_protocol import EVERY_PROTOCOL
from mpc.planning import Rehearsal
from mpc.protocol.contract import REGISTRY


def test_no_registered_protocol_is_missing():
    assert {name.split(":")[0] for name in EVERY_PROTOCOL} == set(REGISTRY)


@pytest.mark.parametrize("name", EVERY_PROTOCOL)
def test_it_can_be_prepared_and_run(name):
    rehearsal = Rehearsal.at(0)
    run = EVERY_PROTOCOL[name](rehearsal.party, 8)
    before = rehearsal.party.meter.total.rounds
    run(rehearsal.party)
    assert rehearsal.party.meter.total.rounds > before
