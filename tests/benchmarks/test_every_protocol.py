"""Every registered protocol is measured, with valid arguments."""

import pytest

from benchmarks.every_protocol import EVERY_PROTOCOL
from mpc.planning import Trace
from mpc.protocol.contract import REGISTRY


def test_no_registered_protocol_is_missing():
    assert {name.split(":")[0] for name in EVERY_PROTOCOL} == set(REGISTRY)


@pytest.mark.parametrize("name", EVERY_PROTOCOL)
def test_it_can_be_prepared_and_run(name):
    trace = Trace.at(0)
    run = EVERY_PROTOCOL[name](trace.party, 8)
    before = trace.party.meter.total.rounds
    run(trace.party)
    assert trace.party.meter.total.rounds > before
