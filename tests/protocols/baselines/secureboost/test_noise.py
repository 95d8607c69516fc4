"""Noise in a host's sums: its size by the theorem, its shape, and trainings with it."""

import math

import numpy as np
import pytest

from mpc.errors import ConfigError, ProtocolDesync
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.baselines.secureboost.conversation import ASK
from protocols.baselines.secureboost.noise import DELTA, deviation, noise, zcdp
from protocols.runtime.processes import run_processes
from protocols.transport.frames import DATA_LIMIT
from tests.protocols.baselines.secureboost.parties import QUICK, run

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 4))
Y = (X[:, 3] + 0.3 * RNG.normal(size=400) > 0).astype(float)  # the host's last column
CONFIG = SecureBoostConfig.of(n_estimators=3, max_depth=2, max_bin=8, **QUICK)


def test_the_deviation_is_that_of_the_theorem():
    rho = zcdp(3.0)
    assert rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) == pytest.approx(3.0)
    # If a row moves to another bucket, g and h each move by 1 from one sum to another, in every question.
    moved = np.zeros((7, 2, 2))
    moved[:, 0], moved[:, 1] = -1, 1
    assert (moved**2).sum() / (2 * deviation(3.0, 7) ** 2) == pytest.approx(rho)
    assert deviation(None, 7) == 0
    with pytest.raises(ConfigError, match="epsilon must be larger for 1000000 sums"):
        deviation(1e-3, 10**6)


def test_noise_is_normal_and_sums_to_zero():
    drawn = noise((50, 40, 2), 3.0)
    assert (drawn.sum(axis=1) == 0).all()
    units = drawn / 2.0**24
    assert units.std() == pytest.approx(3 * math.sqrt(39 / 40), rel=0.05)
    assert abs(np.mean(units**4) / np.mean(units**2) ** 2 - 3) < 0.5
    assert not np.array_equal(drawn, noise((50, 40, 2), 3.0))
    assert np.array_equal(*(noise((5, 4, 2), 1.0, np.random.default_rng(0).bytes) for _ in range(2)))


@pytest.mark.parametrize("options", [{}, {"packing": False}, {"sibling_subtraction": "off"}])
def test_little_noise_leaves_the_splits_as_they_are_and_much_noise_leaves_them_to_the_guest(options):
    blocks = [X[:, :2], X[:, 2:]]
    _, exact = run(CONFIG, blocks, Y)
    _, little = run(CONFIG.model_copy(update={"epsilon": 1e8, **options}), blocks, Y)
    assert [tree[0][0] for tree in little] == [tree[0][0] for tree in exact] == [3, 3, 3]
    _, much = run(CONFIG.model_copy(update={"epsilon": 1e-2, **options}), blocks, Y)
    assert all(line[0] < 2 for tree in much for line in tree if len(line) == 3)


def test_a_host_refuses_a_guest_that_asks_for_more_than_it_allows():
    def play(config, limit):
        roles = {
            "guest": lambda channels: Guest(channels).train(config, X[:, :2], Y) and None,
            "host_1": lambda channels: Host(channels["guest"]).train(X[:, 2:], epsilon=limit) and None,
        }
        run_processes(roles, timeout=60)

    with pytest.raises(ConfigError, match=r"host_1: epsilon must be at most 2 for this host.*asks for exact sums"):
        play(CONFIG, 2.0)
    noisy = CONFIG.model_copy(update={"epsilon": 5.0})
    with pytest.raises(ConfigError, match="at most 2 for this host, and the guest asks for epsilon 5"):
        play(noisy, 2.0)
    play(noisy, 5.0)


@pytest.mark.parametrize("announced", [{"epsilon": 0.0}, {"epsilon": math.nan}, {"levels": -4}, {"colsample": 2.0}])
def test_a_host_refuses_invalid_announcements(announced):
    sizes = {"rows": 400, "max_bin": 8, "subtract": False, "epsilon": 1.0, "levels": 4, "colsample": 1.0}
    start = {"library": "phe", "key": ((1 << 1024) + 1).to_bytes(256, "little"), "packing": True, "training": "t"}

    class Channel:
        peer = "guest"

        def receive(self, tag):
            return start | sizes | announced

    with pytest.raises(ProtocolDesync, match="must announce an epsilon above 0"):
        Host(Channel()).train(X)


@pytest.mark.parametrize("trick", ["again", "twice"])
def test_a_host_answers_no_more_than_epsilon_allows(trick):
    def guest(channels):
        channel = channels["host_1"]
        send, asked = channel.send, []

        def greedy(tag, message):
            if tag == ASK and message["step"] == "histograms":
                asked.append(message)
                if trick == "twice":
                    message = {**message, "nodes": np.repeat(message["nodes"], 2)}
                if len(asked) == 2:
                    for _ in range(8):
                        send(tag, {**message, "sealed": None})
                        channel.receive("secureboost.histograms", DATA_LIMIT)
            send(tag, message)

        channel.send = greedy
        Guest(channels).train(CONFIG.model_copy(update={"epsilon": 5.0}), X[:, :2], Y)

    host = {"host_1": lambda channels: Host(channels["guest"]).train(X[:, 2:]) and None}
    with pytest.raises(ProtocolDesync, match={"again": "more sums than were announced", "twice": "named twice"}[trick]):
        run_processes({"guest": guest, **host}, timeout=60)
