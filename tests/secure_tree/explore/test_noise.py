"""Noise on the counts: its distribution, its accounting beside dp-accounting, and explorations with it."""

import math

import numpy as np
import pytest
from scipy import stats

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.ledger import Ledger
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both
from secure_tree.explore import noise, statistics
from secure_tree.explore.explore import explore
from secure_tree.explore.noise import deviation, draw, epsilon, noisy
from tests.secure_tree.explore.tables import FEATURES, ROWS, explored, parts, table

# (deviation, features, delta, epsilon of a Gaussian mechanism by dp-accounting 0.6: RdpAccountant, PLDAccountant)
RECORDED = [
    (24, 20, 1e-6, 0.83439, 0.77305),
    (26, 200, 1e-6, 2.65265, 2.47294),
    (71, 1500, 1e-6, 2.66100, 2.48077),
    (10, 1, 1e-5, 0.37526, 0.34067),
]


@pytest.mark.parametrize(("sigma", "features", "delta", "by_orders", "by_losses"), RECORDED)
def test_accounting_is_safe_and_close(sigma, features, delta, by_orders, by_losses):
    rho = features / (2 * sigma**2)
    assert deviation(rho, features, 1) == pytest.approx(sigma)
    assert by_losses < by_orders < epsilon(rho, delta) < 1.45 * by_losses


def source(seed):
    return np.random.default_rng(seed).bytes


@pytest.mark.parametrize("sigma", [0.5, 2.0, 30.0])
def test_the_distribution(sigma):
    drawn = draw(sigma, (400, 500), source(1)).reshape(-1)
    values = np.arange(-math.ceil(3 * sigma), math.ceil(3 * sigma) + 1)
    mass = np.exp(-(values**2) / (2 * sigma**2))
    every = np.exp(-(np.arange(-1000, 1001) ** 2) / (2 * sigma**2)).sum()
    expected = drawn.size * mass / every
    found = (
        np.bincount(drawn - values[0], minlength=len(values))[: len(values)]
        if drawn.min() >= values[0]
        else (np.array([(drawn == v).sum() for v in values]))
    )
    assert stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(values)) > 1e-6
    assert abs(drawn.mean()) < 5 * sigma / math.sqrt(drawn.size)


def test_the_ends_of_the_table():
    ends = draw(3.0, (2,), lambda size: b"\x00" * 8 + b"\xff" * 8)
    assert -30 < ends[0] < -25 and 25 < ends[1] < 30


@pytest.mark.parametrize("source", [dealt, made_by_both])
def test_negative_counts_become_0(source):
    p, q = np.array([0, 3, 50, 7]), np.array([20, 1, 60, 0])
    own = np.array([[-2, 4, 5, -3], [-1, -1, 5, 0]])
    halves, _ = run_both(
        lambda party: party.run(noisy(party, ring_half(p, party.rank), ring_half(q, party.rank), own[party.rank], 10)),
        source=source,
    )
    assert opened([h[0] for h in halves]).tolist() == [0, 6, 60, 4] and opened([h[1] for h in halves]).tolist() == [
        23,
        0,
        50,
        3,
    ]


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_both_parties_add_noise_to_what_is_revealed(monkeypatch, partition):
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)
    # With so many rows, noise moves no value by 0.1; with a quarter of them, it does in 4% of runs.
    X, y = table(rows=4 * ROWS)
    own = parts(X, y, partition)
    asked = {"partition": partition, "reveal": "numbers", "statistics": ("iv", "auc", "ks")}
    exact = explored(own, **asked)[0][0].numbers
    deviations, given = [], noise.draw

    def spy(sigma, shape, source):
        deviations.append(sigma)
        return given(sigma, shape, source)

    monkeypatch.setattr("secure_tree.explore.explore.draw", spy)
    found = explored(own, **asked, privacy={"rho": 0.5})[0][0].numbers
    assert deviations == [math.sqrt(FEATURES)] * 2
    for name in asked["statistics"]:
        # Some noise, but not much: features keep most of their value.
        assert 1e-5 < np.abs(found[name] - exact[name]).max() < 0.1


def test_weights_and_several_classes_have_noise_too():
    X, y = table()
    weighted = parts(X, y, "vertical", sample_weight=np.ones(len(y)))
    asked = {"partition": "vertical", "reveal": "numbers", "statistics": ("iv", "auc"), "privacy": {"rho": 1.0}}
    assert explored(weighted, **asked)[0][0].numbers["auc"][0, -2] > 0.6
    several = parts(X, y + (X[:, 0] > 0.5), "vertical")
    assert explored(several, classes=3, **asked)[0][0].numbers["iv"].shape == (3, FEATURES)


def test_rho_adds_up_in_the_ledger(tmp_path):
    X, y = table()
    own = [each | {"ledger": tmp_path / str(p)} for p, each in enumerate(parts(X, y, "vertical"))]
    asked = {"partition": "vertical", "top": 3, "privacy": {"rho": 0.4}}

    def run():
        return run_both(lambda party: explore(party, **own[party.rank], **asked))

    run(), run()
    with pytest.raises((DataError, PeerFailure), match=r"budget of rho would be exceeded \(privacy\.most\)"):
        run()
    assert [entry["rho"] for entry in Ledger(tmp_path / "1").entries] == [0.4, 0.4]


def test_bad_parameters():
    X, y = table()
    own = parts(X, y, "vertical")
    with pytest.raises(ConfigError, match="must not have label_rate with privacy"):
        explored(own, partition="vertical", privacy={"rho": 1}, reveal="numbers", statistics=("label_rate",))
    with pytest.raises(ConfigError, match=r"privacy\.rho must be larger"):
        explored(own, partition="vertical", privacy={"rho": 1e-9}, top=2)
