"""Messages and outputs of the extensions with fixed seeds, so that every change of them is deliberate."""

import hashlib

import numpy as np

from protocols.ot import base, ferret, softspoken, trees
from protocols.ot.pads import pads

SESSION = bytes(range(33))
DELTA = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543210], np.uint64)


def words(name, *shape):
    stream = hashlib.shake_128(name.encode()).digest(8 * np.prod(shape, dtype=int))
    return np.frombuffer(stream, np.uint64).reshape(shape)


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def made(steps, *answers):
    """Run steps; return what they send in each round, and their result."""
    sent = [list(next(steps).sent)]
    for answer in answers[:-1]:
        sent.append(list(steps.send(answer).sent))
    try:
        steps.send(answers[-1])
    except StopIteration as done:
        return sent, done.value
    raise AssertionError("the steps must take as many rounds as there are answers")


def test_base_ot():
    offers = base._element(b"seed")[None]
    assert digest(base._oracle(SESSION, np.array([1]), offers)) == "277855e02eff3824"
    assert digest(base._key(SESSION, 5, 1, bytes(32))) == "7b39bd921bfc34bb"


def test_trees():
    leaves = words("roots", 16, 3, 2).copy()
    sums = trees.grow(leaves, 4, trees.ggm(trees.permutation_key(SESSION, "seeds")))
    assert (digest(leaves), digest(sums)) == ("308cf0946b572de2", "afb4b68b5cab9cfc")


def test_softspoken():
    leaves = words("leaves", 1 << softspoken.FIELD_BITS, softspoken.TREES, 2)
    coin = words("coin", 2).view(np.uint8)
    ((said,), none, (hashes,)), (choices, t) = made(softspoken.SoftSpokenReceiver(leaves).extend(1), [], [coin], [])
    assert (said.size, none, hashes.size, choices.size) == (31 * (1 << 13) // 8, [], 1024, (1 << 13) - 64)
    assert digest(hashes) == "892e692ab9c591c7"
    assert (digest(said), digest(choices), digest(t)) == ("c8a87da3a8f96098", "9f3647d698b46138", "f515f41425869c9a")


def test_ferret():
    q = words("kept", ferret.KEPT, 2) & np.array([2**64 - 2, 2**64 - 1], np.uint64)
    challenge = words("challenge", 3).view(np.uint8)
    ((said,), none, (answer,)), blocks = made(ferret.FerretSender(SESSION, DELTA, q).extend(1), [], [challenge], [])
    assert (said.size, none, answer.size, blocks.shape) == (16 * 10 * 1184, [], 32, (2_149_600, 2))
    assert digest(answer) == "482f65886dfea50c"
    assert (digest(said), digest(blocks)) == ("8f8f712830160ad9", "c8f010b6367bcd42")


def test_pads():
    assert digest(pads(words("blocks", 70_000, 2), 60_000, 3, bytes(range(16)))) == "87d2e9ecb649d0fd"
    assert digest(pads(words("blocks", 70, 2), 60_000, 66, bytes(range(16)))) == "cb4106263282aa64"
