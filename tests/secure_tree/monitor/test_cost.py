"""A planned monitoring has the rounds and bytes of the real one."""

import pytest

from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.cost import plan_monitoring
from secure_tree.monitor.scores import score
from secure_tree.prediction.reasons.table import magnitudes
from tests.secure_tree.monitor.rows import CUT, EVERY, ROWS, arguments, monitored, profiles_of, table, trained
from tests.secure_tree.monitor.test_monitor import LATER

# Messages in the clear: facts and consent.
PUBLIC = 2
ALARMS = {"statistics": EVERY[:-1], "reveal": "alarms"}


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize(("partition", "holder"), [("horizontal", 0), ("vertical", 0), ("vertical", 1)])
@pytest.mark.parametrize("asked", [{}, {"statistics": ("scores", "ece")}, {"statistics": EVERY}, ALARMS])
def test_as_planned(source, partition, holder, asked):
    profiles = profiles_of(partition, arguments(partition, *table(), holder), source, holder)
    _, parties = monitored(partition, arguments(partition, *LATER, holder), profiles, source, holder, **asked)
    rows = (ROWS, ROWS) if partition == "vertical" else (CUT, ROWS - CUT)
    planned = plan_monitoring(
        MonitorConfig.of(**asked),
        partition,
        rows,
        (2, 2) if partition == "vertical" else (4, 4),
        groups=3,
        together=holder == 1,
        bits=magnitudes(trained(partition, holder)[0].model)[1] + 2,
        dealer=source is dealt,
        round_price=0,
    )
    own, models = arguments(partition, *LATER, holder), trained(partition, holder)
    _, others = run_both(lambda party: score(party, models[party.rank], own[party.rank]["X"]), source=source)
    whole, predicted = totals(parties[0]), totals(others[0])
    assert [a - b for a, b in zip(whole, predicted, strict=True)] == [
        planned.rounds + PUBLIC,
        planned.sent,
        planned.received,
    ]


def totals(party):
    total = party.meter.total
    return total.rounds, total.sent // 8, total.received // 8
