"""A dealer that lies, once or from some message on: an honest party ends with an error about it, or with a result.

The contents of corrections are not checked: the dealer is trusted with these.
"""

import random
import threading

import numpy as np
import pytest

from mpc.errors import PeerFailure
from mpc.party import Party
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import serve
from protocols.transport.codec import Joined
from protocols.transport.memory import memory_pair
from secure_tree import SecureXGBClassifier
from tests.lies import mutated

pytestmark = pytest.mark.long

LIES = 300
WAYS = {}, {"test_size": 0.3, "eval_epochs": 1}, {"partition": "vertical"}
RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int)


class Liar:
    """The dealer's end of a channel, which changes some of its messages."""

    def __init__(self, channel, when, rng):
        self._channel, self._when, self._rng, self._sent = channel, when, rng, 0

    def send(self, tag, tree):
        self._sent += 1
        self._channel.send(tag, self._changed(tree) if self._sent in self._when else tree)

    def _changed(self, tree):
        rng, tree = self._rng, {name: whole(part) for name, part in tree.items()}
        name = rng.choice(list(tree))
        if isinstance(tree[name], np.ndarray) and tree[name].size and rng.random() < 0.7:
            array = tree[name]
            kind, at = rng.randrange(5), rng.randrange(array.size)
            if kind == 0:
                array[at] ^= 1
            elif kind == 1:
                array = np.frombuffer(rng.randbytes(array.nbytes), array.dtype)
            else:
                array = [array[:at], np.append(array, array[at]), np.roll(array, 1)][kind - 2]
            return {**tree, name: array}
        return mutated(tree, rng)

    def __getattr__(self, name):
        return getattr(self._channel, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()


def whole(part):
    return (
        np.concatenate([np.zeros(0, np.uint8), *part])
        if isinstance(part, Joined)
        else np.copy(part)
        if (isinstance(part, np.ndarray))
        else part
    )


def outcomes(rng):
    """Return how a training and a prediction end at each party."""
    ends, link = [memory_pair((f"party_{rank}", "dealer"), timeout=20) for rank in (0, 1)], memory_pair(timeout=20)
    way, victim, first = rng.choice(WAYS), rng.randrange(2), rng.randrange(1, 6)
    when = range(first, first + 1) if rng.random() < 0.5 else range(first, 1000)
    found = [None, None]

    def columns(rank):
        return slice(2 * rank, 2 * rank + 2) if "partition" in way else slice(None)

    def rows(rank):
        return slice(None) if "partition" in way else slice(20 * rank, 20 * rank + 20)

    def play(rank):
        with ends[rank][0] as dealer, link[rank] as peer:
            try:
                randomness = FromDealer(rank, dealer)
                party = Party(rank, peer, randomness)
                labels = None if "partition" in way and rank == 1 else Y[rows(rank)]
                model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, **way)
                model.fit(party, X[rows(rank), columns(rank)], labels)
                model.predict_margin(party, X[:5, columns(rank)], "thresholds")
                found[rank] = "a result"
                randomness.close()
            except Exception as error:
                found[rank] = error

    def deal():
        channels = [Liar(ends[rank][1], when if rank == victim else (), rng) for rank in (0, 1)]
        try:
            serve(*channels)
        except Exception:
            for channel in channels:
                channel.close()

    threads = [threading.Thread(target=target) for target in (deal, lambda: play(0), lambda: play(1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.mark.timeout(3000)
def test_lies_of_a_dealer():
    rng = random.Random(4)
    failed = 0
    for _ in range(LIES):
        for end in outcomes(rng):
            assert end == "a result" or isinstance(end, PeerFailure), repr(end)
            failed += end != "a result"
    assert failed > LIES / 3
