"""Base OT: every choice, and malformed keys of the peer."""

import numpy as np
import pytest

from mpc.errors import ProtocolDesync
from protocols.ot import base
from protocols.testing.two_parties import run_both

CHOICES = np.array([0, 1, 1, 0, 1, 0, 0, 1], np.uint8)


def transfer(choices, sessions=(b"s", b"s")):
    def job(party):
        if party.rank:
            return party.run(base.receive_base(choices, sessions[1]))
        return party.run(base.send_base(choices.size, sessions[0]))

    return run_both(job)[0]


@pytest.mark.parametrize("choices", [CHOICES, 1 - CHOICES, CHOICES[:1], np.ones(128, np.uint8)])
def test_the_receiver_has_the_keys_that_it_chose_and_no_other(choices):
    keys, chosen = transfer(choices)
    assert keys.shape == (choices.size, 2, 2) and keys.dtype == chosen.dtype == np.uint64
    rows = np.arange(choices.size)
    assert np.array_equal(keys[rows, choices], chosen)
    assert not (keys[rows, 1 - choices] == chosen).all(axis=1).any()
    assert np.unique(keys.reshape(-1, 2), axis=0).shape[0] == 2 * choices.size


@pytest.mark.parametrize("bound", ("_oracle", "_key"))
def test_keys_of_two_sessions_differ(monkeypatch, bound):
    """Both elements and keys are bound to the session; either is enough."""
    other = {"_oracle": "_key", "_key": "_oracle"}[bound]
    correct = getattr(base, other)
    monkeypatch.setattr(base, other, lambda session, *rest: correct(b"any", *rest))
    keys, chosen = transfer(CHOICES, (b"one", b"two"))
    assert not (keys[np.arange(8), CHOICES] == chosen).any()


def test_both_offers_look_the_same():
    """Compare coefficient means of the offers with and without a secret key, within five standard deviations."""
    for c in (0, 1):
        (offers,) = next(base.receive_base(np.full(40, c, np.uint8), b"s")).sent
        coefficients = base._coefficients(offers.reshape(40, 2, -1))
        assert coefficients.max() < 3329
        deviation = 3329 / (12 * 40 * 768) ** 0.5
        assert np.abs(coefficients.mean(axis=(0, 2)) - 1664).max() < 5 * deviation


def test_keys_form_a_group():
    a, b = (np.stack([base._element(bytes([i, j])) for i in range(3)]) for j in range(2))
    assert np.array_equal(base._sum(base._sum(a, b, 1), b, -1), a)
    assert np.array_equal(base._encoded(base._coefficients(a), a[:, 1152:]), a)
    assert not np.array_equal(base._sum(a, b, 1), a)


def test_a_coefficient_that_is_too_large():
    steps = base.send_base(3, b"s")
    asked = next(steps)
    offers = np.zeros(asked.expected[0], np.uint8)
    # The second coefficient of the second key of OT 1 becomes 3329.
    offers[3 * 1184 + 1], offers[3 * 1184 + 2] = (3329 & 15) << 4, 3329 >> 4
    with pytest.raises(ProtocolDesync, match=r"below 3329.*number 1 "):
        steps.send([offers])


def test_ciphertexts_of_noise_give_other_keys():
    """ML-KEM decapsulates anything: the resulting keys are useless, but it does not crash."""
    steps = base.receive_base(CHOICES, b"s")
    next(steps)
    asked = steps.send([])
    noise = np.random.default_rng(0).integers(0, 256, asked.expected[0], np.uint8)
    with pytest.raises(StopIteration) as done:
        steps.send([noise])
    assert done.value.value.shape == (8, 2)
