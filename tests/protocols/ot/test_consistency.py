"""The check of correlated transfers against parties that deviate, with and without a guess of the other's secrets."""

import os
from itertools import product

import numpy as np
import pytest

from mpc.errors import ProtocolDesync
from mpc.rounds import parallel
from protocols.ot import ferret, softspoken
from protocols.ot.consistency import BlockHash
from protocols.ot.correlated import set_up
from protocols.testing.lying_transfers import (
    SESSION,
    ferret_pair,
    lying_corrections,
    lying_sums,
    meet,
    passes,
    small_ferret,
    softspoken_pair,
    wrong_sums,
)
from protocols.testing.two_parties import run_both
from tests.protocols.ot.pairs import check

CAUGHT = "contradict each other"
RNG = np.random.default_rng(7)


def words(*shape):
    return RNG.integers(0, 2**64, shape, np.uint64)


def flip(array, bit):
    array.view(np.uint8).reshape(-1)[bit >> 3] ^= np.uint8(1 << (bit & 7))


# SoftSpoken: the receiver of COTs lies.
def test_honest_parties_pass():
    sender, receiver, _ = softspoken_pair(RNG)
    for count in (1, 8128, 8129, 30000):
        q, (choices, t) = meet(sender.extend(count), receiver.extend(count))
        assert len(q) == -(-(count + 64) // 8192) * 8192 - 64
        check(sender.delta, q, choices, t)


@pytest.mark.parametrize("row", [0, 77, 8191])
@pytest.mark.parametrize("trees", [(1,), (31,), (3, 17)])
def test_wrong_corrections_pass_with_the_right_guess_only(trees, row):
    sender, receiver, bits = softspoken_pair(RNG)
    right = [bits[tree] for tree in trees]
    assert passes(sender, receiver, lying_corrections(trees, right, row))
    for place in range(4 * len(trees)):
        wrong = np.concatenate(right)
        wrong[place] ^= 1
        assert not passes(sender, receiver, lying_corrections(trees, np.split(wrong, len(trees)), row))


def within(count, trials, rate):
    """Return whether a count is within four standard deviations of its expectation."""
    return abs(count - trials * rate) <= 4 * (trials * rate * (1 - rate)) ** 0.5


@pytest.mark.parametrize(("trees", "trials"), [((5,), 600), ((2, 30), 2000)])
def test_wrong_corrections_pass_as_often_as_stated(trees, trials):
    passed = 0
    for _ in range(trials):
        sender, receiver, _ = softspoken_pair(RNG)
        guesses = RNG.integers(0, 2, (len(trees), 4)).astype(np.uint8)
        passed += passes(sender, receiver, lying_corrections(trees, guesses, 100))
    assert within(passed, trials, 2.0 ** (-4 * len(trees)))


def test_an_error_that_packing_would_hide():
    """Each tree is wrong in a row of its own. If 128 blocks were one element, all errors would meet in one place, where
    a guess of four bits is enough.
    """
    for guess in product((0, 1), repeat=4):
        sender, receiver, _ = softspoken_pair(RNG)
        lies = [lying_corrections((tree,), [np.array(guess, np.uint8)], 124 - 4 * tree) for tree in range(1, 32)]

        def lie(rank, number, arrays, lies=lies):
            for one in lies:
                arrays = one(rank, number, arrays)
            return arrays

        assert not passes(sender, receiver, lie)


# SoftSpoken's set-up: the maker of the trees lies.
@pytest.fixture
def known_base(monkeypatch):
    """Give base OTs fixed keys, which takes no time."""
    keys = words(128, 2, 2)

    def send(count, session):
        yield from ()
        return keys

    def receive(choices, session):
        yield from ()
        return keys[np.arange(128), choices]

    monkeypatch.setattr(softspoken, "send_base", send)
    monkeypatch.setattr(softspoken, "receive_base", receive)


def start(lie):
    return meet(softspoken.set_up_sender(SESSION, os.urandom), softspoken.set_up_receiver(SESSION, os.urandom), lie)


@pytest.mark.usefixtures("known_base")
@pytest.mark.parametrize("lies", [1, 2])
def test_wrong_sums_at_set_up_pass_as_often_as_stated(lies):
    passed, trials = 0, 400

    def lie(rank, number, arrays):
        if rank == 1:
            for i in range(lies):
                arrays[0].view(np.uint64).reshape(128, 2, 2)[17 * i + 3, 1, 0] ^= np.uint64(4)
        return arrays

    for _ in range(trials):
        try:
            sender, receiver = start(lie)
        except ProtocolDesync as error:
            assert CAUGHT in str(error)
            continue
        passed += 1
        q, (choices, t) = meet(sender.extend(1), receiver.extend(1))
        check(sender.delta, q, choices, t)
    assert within(passed, trials, 2.0**-lies)


@pytest.mark.usefixtures("known_base")
@pytest.mark.parametrize("array", [1, 2])
@pytest.mark.parametrize("bit", [0, 255])
def test_wrong_bindings_at_set_up_are_found(array, bit):
    def lie(rank, number, arrays):
        if rank == 1:
            flip(arrays[array], bit)
        return arrays

    with pytest.raises(ProtocolDesync, match=CAUGHT):
        start(lie)


# Ferret: the sender of COTs lies.
@pytest.fixture
def small():
    with small_ferret():
        yield


def of_tree(level, tree):
    """Return the number of a tree's choice among those that are kept."""
    return ferret.SECRET + level * ferret.TREES + tree


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("level", [1, 2])
def test_wrong_sums_pass_with_the_right_guess_only(level):
    for _ in range(20):
        sender, receiver, q, choices = ferret_pair(RNG)
        error = wrong_sums(RNG, level, 9)
        # Choices of other trees and of the secret are not needed.
        guess = np.zeros_like(choices)
        of = [of_tree(d, 9) for d in range(ferret.DEPTH)]
        guess[of] = choices[of]
        wrong = guess.copy()
        wrong[of_tree(RNG.integers(0, level), 9)] ^= np.uint64(1)
        state = sender._state._kept.copy()
        assert not passes(sender, receiver, lying_sums(q, wrong, sender.delta, error))
        sender, receiver = (
            ferret.FerretSender(SESSION, sender.delta, state),
            ferret.FerretReceiver(SESSION, q ^ choices[:, None] * sender.delta),
        )
        assert passes(sender, receiver, lying_sums(q, guess, sender.delta, error))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("level", [1, 2])
def test_wrong_sums_pass_at_most_as_often_as_stated(level):
    passed, trials = 0, 1000
    for _ in range(trials):
        sender, receiver, q, choices = ferret_pair(RNG)
        error = wrong_sums(RNG, level, 4)
        guess = RNG.integers(0, 2, choices.size).astype(np.uint64)
        passed += passes(sender, receiver, lying_sums(q, guess, sender.delta, error))
    # Deeper sums depend on the path too. Its last side does not matter: both leaves there are wrong by the same block.
    assert within(passed, trials, 2.0 ** (1 - ferret.DEPTH))


def lies_anywhere(kind, lie):
    """Run set-up and two extensions of both parties, of which party 0 changes one array; return how many it sends."""

    def job(party):
        count = [0]

        def lying(steps):
            asked = next(steps)
            while True:
                for one in asked if isinstance(asked, list) else [asked]:
                    sent = [np.array(array) for array in one.sent]
                    for array in sent:
                        if party.rank == 0:
                            lie(count[0], array)
                        count[0] += 1
                    one.sent = sent
                try:
                    asked = steps.send((yield asked))
                except StopIteration as done:
                    return done.value

        def program():
            sender, receiver = yield from set_up(party.rank, SESSION, kind, os.urandom)
            made = []
            for _ in range(2):
                made.append((yield from parallel(sender.extend(1), receiver.extend(1))))
            return sender.delta, made

        return *party.run(lying(program())), count[0]

    return run_both(job)[0]


def test_what_the_receiver_says_of_its_bits_is_uniform():
    blocks, trials = np.zeros((3000, 2), np.uint64), 4000
    for bits in (np.zeros(3000, np.uint8), np.ones(3000, np.uint8)):
        said = np.empty(trials, np.uint64)
        for i in range(trials):
            hashed = BlockHash(np.zeros(2, np.uint64))
            hashed.add(blocks, bits)
            hashed.add_last(blocks[:64], RNG.integers(0, 2, 64).astype(np.uint8))
            said[i] = hashed.challenge()[0][2]
        ones = np.unpackbits(said.view(np.uint8)).reshape(trials, 64).sum(axis=0, dtype=int)
        assert (abs(2 * ones - trials) < 5 * trials**0.5).all()


CHANGES = {
    "a bit": lambda array: flip(array, 8 * (array.nbytes // 3) + 5),
    "a block": lambda array: np.bitwise_xor(array.view(np.uint8)[:16], 255, out=array.view(np.uint8)[:16]),
    "everything": lambda array: np.bitwise_xor(array, RNG.integers(0, 256, array.size, np.uint8), out=array),
}


@pytest.mark.parametrize("change", ["a bit", *(pytest.param(c, marks=pytest.mark.long) for c in list(CHANGES)[1:])])
@pytest.mark.parametrize("kind", ["ferret", "softspoken"])
def test_a_lie_in_any_message_is_found_or_changes_nothing(kind, change):
    sent = lies_anywhere(kind, lambda number, array: None)[0][2]
    assert sent > 10
    found = 0
    for lied in range(sent):

        def lie(number, array, lied=lied):
            if number == lied:
                CHANGES[change](array.reshape(-1).view(np.uint8))

        try:
            first, second = lies_anywhere(kind, lie)
        except ProtocolDesync:
            found += 1
            continue
        for one, other in ((first, second), (second, first)):
            for (q, _), (_, (choices, t)) in zip(one[1], other[1], strict=True):
                check(one[0], q, choices, t)
    # What may change nothing: keys of base OT, of which each party uses one; sums that the other has no use for.
    assert found > sent - 8
