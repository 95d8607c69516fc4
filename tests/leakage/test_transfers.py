"""Messages of a transfer are uniform to their receiver, for any choices and words."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mpc.endpoint import Endpoint
from mpc.offline.transfers import Correlated, Transfer
from mpc.protocol.rehearsal import Requests
from mpc.rings import GF2, Z8, Z64, PackedBits, Z2k
from mpc.words import U64
from protocols.offline.pairwise.known_transfers import KnownReceiver, KnownSender
from protocols.offline.streams import Streams
from protocols.ot.transfers import Transfers, key_of
from protocols.testing.two_parties import Recorder
from protocols.transport.memory import memory_pair
from tests.leakage.welch import Tally, leaking_positions

LANES = 20_000
RINGS = [(GF2, 3), (Z8, 1), (Z64, 2), (Z2k(U64, 24), 1), (PackedBits(U64), 2)]


def sent(ring, width, choices, words, seed):
    """Return what each party sends in LANES transfers, in order; party 1 is the chooser."""
    channels = [Recorder(channel) for channel in memory_pair()]
    session = bytes([seed]) * 32

    def play(rank):
        known = Streams(session[:16], session)
        keys = key_of(session, 0), key_of(session, 1)
        transfers = Transfers(rank, KnownSender(1 - rank, known), KnownReceiver(rank, known), keys)
        one = Correlated(1, LANES, choices if rank else None)
        if ring is not None:
            one = Transfer(1, LANES, width, ring, choices if rank else None, None if rank else words)
        Endpoint(rank, channels[rank], Requests(rank)).run(transfers.run([one]))

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(play, rank) for rank in (0, 1)]:
            future.result(60)
    return [[a for a in channel.arrays if a] for channel in channels]


def tallies(ring, width, seed, fixed):
    rng = np.random.default_rng(seed)
    choices = np.zeros(LANES, np.uint8) if fixed else rng.integers(0, 2, LANES).astype(np.uint8)
    words = rng.integers(0, 256, (1 if fixed else LANES, width * ring.dtype.itemsize)).astype(np.uint8)
    words = np.ascontiguousarray(np.broadcast_to(words, (LANES, words.shape[1]))).view(ring.dtype)
    words = words & words.dtype.type(1) if ring == GF2 else words
    words, choices = sent(ring, width, choices, words, seed)
    return Tally.by_lane(words, LANES), Tally.by_lane(choices, LANES)


@pytest.mark.parametrize(("ring", "width"), RINGS, ids=str)
def test_no_bit_of_a_transfer_distinguishes_fixed_from_random(ring, width):
    for fixed, other in zip(tallies(ring, width, 3, True), tallies(ring, width, 4, False), strict=True):
        assert fixed.ones.size > 0
        assert leaking_positions(fixed, other).tolist() == []


def test_no_choice_of_a_block_distinguishes_fixed_from_random():
    chosen = [np.zeros(LANES, np.uint8), np.random.default_rng(4).integers(0, 2, LANES).astype(np.uint8)]
    messages = [sent(None, 2, choices, None, seed) for seed, choices in enumerate(chosen, 3)]
    # The sender is silent, and the chooser sends the difference between its choices and dealt ones.
    assert all(not silent and len(chooser) == 1 for silent, chooser in messages)
    fixed, other = (Tally.by_lane(chooser, LANES) for _, chooser in messages)
    assert fixed.ones.size > 0 and leaking_positions(fixed, other).tolist() == []


def test_a_correction_without_its_pad_is_found(monkeypatch):
    real = Transfers._take

    def unmasked(self, stock, count, arrays):
        first, taken = real(self, stock, count, arrays)
        return first, [taken[0] * 0, *taken[1:]] if arrays == 2 else taken

    monkeypatch.setattr(Transfers, "_take", unmasked)
    fixed, other = tallies(Z64, 1, 3, True)[1], tallies(Z64, 1, 4, False)[1]
    assert leaking_positions(fixed, other).tolist() != []
