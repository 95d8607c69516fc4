"""Authentic words: how often a false opening passes, over all keys; comparisons and choices with plain numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.authenticated.authenticated_rows import ChoiceTables, choose, input_at, input_rows, product
from mpc.authenticated.authenticated_sign import SignTables, below_zero
from mpc.authenticated.macs import (
    FIRST_PLACE,
    AuthenticatedShare,
    AuthenticMask,
    Keyring,
    agree,
    input_authenticated,
    masked_wide,
    open_authenticated,
)
from mpc.authenticated.reveal import reveal
from mpc.endpoint import Endpoint
from mpc.errors import MacFailure
from mpc.protocol.rehearsal import TraceView
from mpc.rings import Z128
from protocols.testing.two_parties import Recorder, ring_half, run_both

WIDE = st.integers(0, 2**128 - 1) | st.sampled_from([0, 1, 2**64 - 1, 2**64, 2**127, 2**128 - 1])


def wide(numbers):
    return np.array([[n & 2**64 - 1, n >> 64] for n in numbers], np.uint64)


def integers(words):
    return [int(low) + (int(high) << 64) for low, high in words]


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.tuples(WIDE, WIDE), min_size=1, max_size=9))
def test_integers_of_128_bits(pairs):
    first, second = zip(*pairs, strict=True)
    x, y, size = wide(first), wide(second), 1 << 128
    assert integers(Z128.add(x, y)) == [(a + b) % size for a, b in pairs]
    assert integers(Z128.subtract(x, y)) == [(a - b) % size for a, b in pairs]
    assert integers(Z128.product(x, y)) == [a * b % size for a, b in pairs]
    assert integers(Z128.sum(x[:, None], 0)) == [sum(first) % size]
    assert integers(Z128.subtract(x, y, out=x)) == [(a - b) % size for a, b in pairs]


@pytest.mark.parametrize("bits", [1, 3, 5])
def test_a_false_opening_passes_with_few_keys(bits):
    """Words of 8 bits, `bits` of which are read: for each error, count the keys with which one guess passes."""
    keys = np.arange(256, dtype=np.uint8)
    for error in range(1, 256):
        if error % (1 << bits):
            _, passing = np.unique(keys * np.uint8(error), return_counts=True)
            assert passing.max() <= 2 ** (bits - 1), "of 2^8 keys: 2^(8 - bits + 1) values, equally often"


def authentic(party: Endpoint, values, number=0):
    keyring = Keyring.begin(party)
    mask = AuthenticatedShare(*party.randomness.take(AuthenticMask(FIRST_PLACE + number, np.shape(values))), keyring)
    return input_authenticated(party, mask, ring_half(values, party.rank).words)[1]


def opened(party, x):
    """Open x and return it if both parties agree."""
    words = open_authenticated(party, x)
    if not party.run(agree(party, x.keyring)):
        raise MacFailure("the parties do not agree")
    return words


@pytest.mark.parametrize("bits", [2, 5, 13, 14, 25, 26, 35, 37, 49])
def test_signs(bits):
    half = 1 << bits - 1
    rng = np.random.default_rng(bits)
    values = np.concatenate([[-half, half - 1, 0, -1], rng.integers(-half, half, 200), rng.integers(-9, 9, 50) % half])

    def job(party):
        return opened(party, below_zero(party, authentic(party, values), bits))

    for found in run_both(job)[0]:
        assert np.array_equal(found, values < 0)


def test_sums_and_public_factors():
    values = np.array([[3, -5, 1 << 40], [7, 0, -1]])

    def job(party):
        x = authentic(party, values)
        y = (x + x - x[:, ::-1]).times(np.array([1, 2, -3]).astype(np.uint64)).plus(np.full((2, 3), 9, np.uint64))
        return opened(party, y.sum()), opened(party, x.reshape(3, 2).repeated(2))

    wanted = ((2 * values - values[:, ::-1]) * [1, 2, -3] + 9).sum(axis=1)
    for summed, repeated in run_both(job)[0]:
        assert np.array_equal(summed.astype(np.int64), wanted)
        assert np.array_equal(repeated.astype(np.int64), np.stack([values.reshape(3, 2)] * 2))


@pytest.mark.parametrize("owner", [0, 1])
def test_known_rows_times_an_authentic_matrix(owner):
    rng = np.random.default_rng(4)
    rows, matrix = rng.integers(-99, 99, (5, 3)), rng.integers(-99, 99, (7, 3))

    def job(party):
        keyring = Keyring.begin(party)
        taken = party.run(input_at(party, keyring, 2, ring_half(matrix, party.rank).words))
        own = rows.astype(np.uint64) if party.rank == owner else None
        return opened(party, product(party, input_rows(party, keyring, owner, own, 5, 3), taken, 2, 4))

    for found in run_both(job)[0]:
        assert np.array_equal(found.astype(np.int64), rows @ matrix[2:6].T)


def test_choices_by_an_authentic_number():
    """Words are selected modulo 2^64 where an authentic number is 0."""
    numbers = np.array([[0, 1, 2, 0], [7, 8, 0, -8]])
    weights = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 6)

    def job(party):
        k = authentic(party, numbers)
        taken = party.run(input_at(party, k.keyring, 1, ring_half(weights, party.rank).words))
        return opened(party, choose(party, AuthenticatedShare(k.words, k.macs[:1], k.keyring), 3, taken, 1))

    for found in run_both(job)[0]:
        assert np.array_equal(found[..., 0].astype(np.int64), np.where(numbers % 8 == 0, weights[1:5], 0))


def test_a_reveal_of_authentic_words():
    """The receiver gets the words modulo 2^64, and the other party nothing, in five rounds."""
    values = wide([5, 2**64 - 1, 2**70 + 3])

    def job(party):
        keyring = Keyring.begin(party)
        mask = masked_wide(party, keyring, (3,))
        x = input_authenticated(party, mask, values if party.rank else np.zeros_like(values))[1]
        party.link = recorder = Recorder(party.link)
        found = reveal(party, x, 1, "words")
        return found, len(recorder.rounds), sum(len(data) for _, data in recorder.rounds), party.revealed

    first, second = run_both(job)[0]
    assert first[0] is None and not first[3]
    assert second[0].tolist() == [5, -1, 3] and second[3] == ["words"]
    assert first[1:3] == second[1:3] == (5, 2 * 80 + 16 * 3)


@pytest.mark.parametrize("size", [1, 1000])
def test_either_share_of_the_keys_and_every_mac_matters(size):
    """Neither party agrees if a key or a MAC is wrong; both agree otherwise."""

    def job(party, spoil):
        x = authentic(party, np.arange(size))
        if spoil == "mac" and party.rank == 0:
            x.macs[1][size // 2] += np.uint64(1)
        if spoil == "key" and party.rank == 1:
            x.keyring.keys[0] += np.uint64(1)
        open_authenticated(
            party, x + AuthenticatedShare(*party.randomness.take(AuthenticMask(FIRST_PLACE, (size,))), x.keyring)
        )
        return party.run(agree(party, x.keyring))

    for spoil, agreed in ((None, True), ("mac", False), ("key", False)):
        assert run_both(lambda party, spoil=spoil: job(party, spoil))[0] == [agreed] * 2


@pytest.mark.parametrize("request_", [SignTables(0, 1 << 36), SignTables(1, 1), ChoiceTables(0, 0, 0, 0, 99)], ids=repr)
def test_tables_of_other_sizes_are_not_dealt(request_):
    with pytest.raises(ValueError, match="bits"):
        request_.deal(TraceView(0))


def test_keys_are_fresh_each_time():
    def job(party):
        return np.concatenate([np.concatenate([m.keys, m.wide]) for m in (Keyring.begin(party) for _ in range(3))])

    first, second = run_both(job)[0]
    assert len({*first.tolist(), *second.tolist()}) == 24
