"""The plan of a training against what a training between two processes then needs."""

import numpy as np
import pytest

from protocols.runtime.session import run_session
from secure_tree import SecureXGBClassifier
from secure_tree.config import TrainConfig
from sharewood.calibration import Computing, calibrate
from sharewood.planning import plan, print_plan


@pytest.mark.parametrize(
    "more", [{}, {"comparison": "keys"}, {"test_size": 0.2, "eval_epochs": 2}, {"colsample_bytree": 0.5}]
)
def test_the_plan_is_what_happens(more):
    parameters = dict(n_estimators=3, max_depth=3, max_bin=8) | more

    def job(party):
        rng = np.random.default_rng(party.rank)
        X = rng.normal(size=(30 + 10 * party.rank, 4))
        SecureXGBClassifier(**parameters).fit(party, X, X[:, 0] > 0)
        return {name: [s.rounds, s.bytes_sent, s.bytes_dealt] for name, s in party.stages.items()}

    outcome = run_session(job)
    first, second = (outcome[name]["result"] for name in ("party_a", "party_b"))
    expected = plan(TrainConfig.of(**parameters), (30, 40), 4)
    measured = ["setup", "online"]
    assert expected["online"]["rounds"] == sum(first[s][0] for s in measured)
    sent = sum(party[s][1] for party in (first, second) for s in measured)
    assert expected["online"]["bytes"] == pytest.approx(sent, rel=0.05)
    dealt = sum(party[s][2] for party in (first, second) for s in ("setup", "offline"))
    assert expected["offline"]["bytes_dealer"] == pytest.approx(dealt, rel=0.05)
    waited = expected["network_seconds"]["WAN"]
    assert waited["setup"] + waited["online"] > expected["online"]["rounds"] * 20e-3


def test_the_time_is_the_networks_and_the_machines(capsys):
    config = TrainConfig.of(n_estimators=3, max_depth=2, max_bin=8)
    report = plan(config, (30, 40), 4, Computing(setup=1.0, offline=2.0, online=3.0))
    assert report["computing_seconds"] == {"setup": 1.0, "offline": 6.0, "online": 9.0}
    for name, waited in report["network_seconds"].items():
        times = report["seconds"][name]
        assert times["setup"] == waited["setup"] + 1 and times["online"] == waited["online"] + 9
        assert times["offline"] == max(waited["offline"], 6.0)
    print_plan(report, ("a", "b"))
    assert f"{report['seconds']['WAN']['online']:.2f}" in capsys.readouterr().out


@pytest.mark.parametrize("more", [{}, {"objective": "reg:squarederror", "test_size": 0.2}])
def test_computing_is_measured_without_data(more):
    config = TrainConfig.of(n_estimators=3, max_depth=2, max_bin=8, **more)
    measured = calibrate(config, (20, 30), 3)
    assert min(measured.setup, measured.offline, measured.online) > 0
