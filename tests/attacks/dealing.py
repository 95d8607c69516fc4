"""Two parties and a dealer as threads, with checks of what is dealt for some requests, and lies of the dealer."""

import threading
from contextlib import contextmanager
from itertools import count

import numpy as np

from mpc.rings import Z2k
from protocols.randomness import dealer
from protocols.randomness.checking import Dealt
from protocols.randomness.dealt import DealtRandomness
from protocols.randomness.views import DealerView
from protocols.transport.memory import memory_pair

SEED = b"s" * 32


def checked(requests):
    """Return whether the parties accept what is dealt for requests; both must decide the same."""
    ends, checks = [memory_pair((f"party_{rank}", "dealer"), timeout=60) for rank in (0, 1)], [None, None]

    def take(rank):
        randomness = DealtRandomness(rank, ends[rank][0])
        checks[rank] = randomness.check(SEED)
        randomness.provide([(requests, 1)])
        for request in requests:
            randomness.take(request)
        randomness.close()

    targets = [lambda: take(0), lambda: take(1), lambda: dealer.serve(ends[0][1], ends[1][1])]
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [each.said() for each in checks]
    first, second = checks[0].hold(said[1]), checks[1].hold(said[0])
    assert first == second
    return first


def plus(ring, values, error):
    """Add errors of the same shape to values of a ring; to bits, by xor."""
    error = error.astype(values.dtype)
    return values + error if isinstance(ring, Z2k) else values ^ error


@contextmanager
def lying(monkeypatch, wrong=None, wrong_mask=None, proving_right=False):
    """Run with a dealer that lies.

    It adds `wrong(number, ring, shape)`, unless that is None, to derived values, numbered as they are dealt; or it
    derives them from other masks than the parties'. With `proving_right`, it proves what it should have dealt.
    """
    numbers = count()

    class Lying(DealerView):
        def mask(self, ring, shape):
            values = super().mask(ring, shape)
            return plus(ring, values, wrong_mask(ring, shape)) if wrong_mask else values

        def derived(self, ring, shape, recipe, to=1):
            error = wrong(next(numbers), ring, shape) if wrong else None
            right = np.asarray(recipe(), ring.dtype).reshape(shape)
            super().derived(ring, shape, lambda: right if error is None else plus(ring, right, error), to)
            return right

    honest = Dealt.add

    def add(self, request, index, corrections):
        if proving_right:
            view = DealerView(tuple(streams.of(index) for streams in self.streams), {})
            request.deal(view)
            corrections = view.corrections
        honest(self, request, index, corrections)

    with monkeypatch.context() as patch:
        patch.setattr(dealer, "DealerView", Lying)
        patch.setattr(Dealt, "add", add)
        yield
