"""Two parties as threads over the in-memory transport, with a dealer computed on the spot."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mpc.errors import PeerVanished
from mpc.party import Party
from mpc.ring import U64, decode_signed, encode_signed
from mpc.shares import AShare, BShare
from protocols.randomness.local import LocalRandomness
from protocols.randomness.local_pair import local_pair
from protocols.transport.memory import memory_pair

SEEDS = (b"a" * 16, b"b" * 16)


class Recorder:
    """A link that remembers what is said: the tag and the bytes of every round, and every array by itself."""

    def __init__(self, link):
        self._link = link
        self.rounds, self.arrays = [], []

    def exchange(self, tag, arrays, like=None):
        self.arrays += [a.tobytes() for a in arrays]
        self.rounds.append((tag, b"".join(a.tobytes() for a in arrays)))
        return self._link.exchange(tag, arrays, like)

    def __getattr__(self, name):
        return getattr(self._link, name)


class Dealt:
    """A source of randomness that remembers what it gave out, in order: the requests and this party's parts."""

    def __init__(self, randomness):
        self._randomness = randomness
        self.given = []

    def take(self, request):
        part = self._randomness.take(request)
        self.given.append((request, part))
        return part

    def __getattr__(self, name):
        return getattr(self._randomness, name)


def dealt(rank, second, seeds=SEEDS):
    """Randomness as a dealer makes it."""
    return LocalRandomness(rank, seeds)


def made_by_both(rank, second, seeds=SEEDS):
    """Randomness as two parties make it, over a channel of its own."""
    return local_pair(rank, second, seed=seeds[rank])


def run_both(job, seeds=SEEDS, source=dealt):
    """job(party) at both ranks; the two results and the two parties."""
    channels, second = memory_pair(), memory_pair()
    parties = [Party(rank, channels[rank], source(rank, second[rank], seeds)) for rank in (0, 1)]

    def play(party):
        try:
            result = job(party)
            if close := getattr(party.randomness, "close", None):
                close()
            return result
        except BaseException:
            for channel in (channels[party.rank], second[party.rank]):
                channel.close()
            raise

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(play, party) for party in parties]
        causes = [f.exception(timeout=60) for f in futures]
        for cause in sorted((c for c in causes if c), key=lambda c: isinstance(c, PeerVanished)):
            raise cause
        return [f.result() for f in futures], parties


def ring_half(values, rank, dtype=U64, scale=0):
    """A fixed random sharing of integers."""
    words = encode_signed(np.asarray(values), dtype)
    mask = np.random.default_rng(7).integers(0, np.iinfo(dtype).max, words.shape, dtype, endpoint=True)
    return AShare(words - mask if rank == 0 else mask, rank, scale)


def bit_half(bits, rank):
    """A fixed random sharing of bits."""
    bits = np.asarray(bits, np.uint8)
    mask = np.random.default_rng(8).integers(0, 2, bits.shape).astype(np.uint8)
    return BShare(bits ^ mask if rank == 0 else mask, rank)


def opened(halves):
    """The secret behind two halves, as signed integers or bits."""
    a, b = halves
    return decode_signed(a.words + b.words) if isinstance(a, AShare) else a.bits ^ b.bits
