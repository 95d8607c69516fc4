"""Runs two parties' programs side by side in one thread, with an ideal functionality for the transfers."""

from dataclasses import dataclass, field

import numpy as np

from mpc.offline.transfers import Correlated, MaskedMessage
from mpc.rings import Z2k
from protocols.offline.pairwise.view import LocalPair

# Secret deltas: row i is that of party i as the sender of correlated transfers.
DELTAS = np.arange(4, dtype=np.uint64).reshape(2, 2) * np.uint64(0x9E3779B97F4A7C15) | np.array([1, 0], np.uint64)


@dataclass
class Ideal:
    """Carries out transfers; one share of the element numbered `fault` has a wrong `bit`."""

    seed: int = 0
    fault: int | None = None
    bit: int = 0
    elements: int = 0
    starts: list = field(default_factory=list)
    asked: list = field(default_factory=list)

    @property
    def waves(self):
        """The number of waves with at least one transfer."""
        return len(self.starts)

    def run(self, programs):
        """Run both programs and return their results."""
        rng = np.random.default_rng(self.seed)
        results, answers = [None, None], [None, None]
        while True:
            lists = []
            for rank, program in enumerate(programs):
                try:
                    lists.append(list(program.send(answers[rank])))
                except StopIteration as done:
                    results[rank] = done.value
            if not lists:
                return results
            assert len(lists) == 2, "both parties must take equally many waves"
            answers = [[], []]
            if any(one.count for one in lists[0]):
                self.starts.append(self.elements)
            self.asked += lists[0]
            for pair in zip(*lists, strict=True):
                shares = self._made(pair, rng)
                for rank in (0, 1):
                    answers[rank].append(shares[rank])

    def _made(self, pair, rng):
        if isinstance(pair[0], MaskedMessage):
            return self._told(pair)
        return self._correlated(pair, rng) if isinstance(pair[0], Correlated) else self._transferred(pair, rng)

    def _correlated(self, pair, rng):
        chooser, count = pair[0].chooser, pair[0].count
        choices = pair[chooser].choices
        assert (chooser, count) == (pair[1].chooser, pair[1].count) and pair[1 - chooser].choices is None
        assert choices.shape == (count,) and choices.dtype == np.uint8 and (choices <= 1).all()
        blocks = rng.integers(0, 1 << 64, (count, 2), np.uint64)
        chosen = blocks ^ choices[:, None] * DELTAS[1 - chooser]
        return (blocks, chosen) if chooser == 1 else (chosen, blocks)

    def _told(self, pair):
        assert pair[0].count == pair[1].count and pair[0].ring == pair[1].ring
        words = pair[pair[0].sender].words
        assert pair[1 - pair[0].sender].words is None and words.shape == (pair[0].count,)
        return words, words

    def _transferred(self, pair, rng):
        first, second = pair
        shape = first.count, first.width
        assert (first.chooser, *shape, first.ring) == (second.chooser, second.count, second.width, second.ring)
        choices, words = pair[first.chooser].choices, pair[1 - first.chooser].words
        assert pair[first.chooser].words is None and pair[1 - first.chooser].choices is None
        assert choices.shape == (first.count,) and words.shape == shape, (choices.shape, words.shape, shape)
        assert choices.dtype == np.uint8 and words.dtype == first.ring.dtype and (choices <= 1).all()
        ring = first.ring
        own = rng.integers(0, 256, (*shape, ring.dtype.itemsize), np.uint8).view(ring.dtype)[..., 0]
        own = ring.unpack(ring.pack(own), shape)
        product = words * choices[:, None].astype(ring.dtype)
        theirs = ring.subtract(product, own)
        before, self.elements = self.elements, self.elements + theirs.size
        if self.fault in range(before, self.elements):
            theirs.reshape(-1)[self.fault - before] ^= ring.dtype.type(1 << self.bit % ring.bits)
        return (theirs, own) if first.chooser == 0 else (own, theirs)


def shared(ring, values, seed=1):
    """Return values as a random sharing in their ring."""
    rng = np.random.default_rng(seed)
    values = np.asarray(values, ring.dtype)
    mask = rng.integers(0, 256, (*values.shape, ring.dtype.itemsize), np.uint8).view(ring.dtype)[..., 0]
    if isinstance(ring, Z2k) or ring.bits < 8:
        mask = mask & ring.dtype.type((1 << ring.bits) - 1)
    return ring.subtract(values, mask), mask


def made_by(operands, recipe):
    """Return what a party with these kept matrices does to make a recipe's value."""
    return recipe.between(LocalPair(operands.rank, None, operands))
