"""Transfers: which blocks are hashed, which requests are refused, and that both ends agree."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mpc.endpoint import Endpoint
from mpc.offline.transfers import Correlated, MaskedMessage, Transfer
from mpc.protocol.rehearsal import Requests
from mpc.rings import GF2, Z32, PackedBits, Z2k
from mpc.words import U64
from protocols.offline.pairwise.known_transfers import KnownReceiver, KnownSender
from protocols.offline.streams import Streams
from protocols.ot import transfers as module
from protocols.ot.transfers import Transfers, key_of
from protocols.transport.memory import memory_pair

SESSION = bytes(range(32))
RNG = np.random.default_rng(1)


def at_both(program):
    """Run program(transfers, endpoint) at both ends."""
    channels = memory_pair()

    def play(rank):
        known = Streams(SESSION[:16], SESSION)
        keys = key_of(SESSION, 0), key_of(SESSION, 1)
        transfers = Transfers(rank, KnownSender(1 - rank, known), KnownReceiver(rank, known), keys)
        try:
            return program(transfers, Endpoint(rank, channels[rank], Requests(rank)))
        except BaseException:
            channels[rank].close()
            raise

    with ThreadPoolExecutor(2) as pool:
        return [future.result(60) for future in [pool.submit(play, rank) for rank in (0, 1)]]


def both(waves):
    """Run waves of [(chooser, ring, choices, words)] at both ends; return each end's shares, wave by wave."""

    def asked(rank, chooser, ring, choices, words):
        mine = rank == chooser
        return Transfer(chooser, *words.shape, ring, choices if mine else None, None if mine else words)

    def program(transfers, endpoint):
        return [endpoint.run(transfers.run([asked(endpoint.rank, *one) for one in wave])) for wave in waves]

    return at_both(program)


def some(chooser, ring, count, width):
    bits = RNG.integers(0, 2, (count, width)).astype(np.uint8)
    words = bits if ring == GF2 else RNG.integers(0, 1 << 32, (count, width)).astype(ring.dtype)
    return chooser, ring, RNG.integers(0, 2, count).astype(np.uint8), words


def test_shares_add_up_in_every_ring_and_direction():
    rings = [GF2, Z32, Z2k(U64, 13), PackedBits(U64)]
    waves = [[some(c, ring, n, m) for ring in rings for c in (0, 1) for n, m in ((5, 1), (70, 3))] for _ in range(3)]
    first, second = both(waves)
    for wave, a, b in zip(waves, first, second, strict=True):
        for (_, ring, choices, words), x, y in zip(wave, a, b, strict=True):
            whole, wanted = ring.add(x, y), words * choices[:, None].astype(ring.dtype)
            mask = ring.dtype.type(2**ring.bits - 1)
            assert np.array_equal(whole & mask, wanted & mask)


@pytest.fixture
def hashed(monkeypatch):
    """Collect what is hashed for pads: the key, the number of the first block, and the blocks."""
    hashed, one, two = [], module.pads, module.pads_of_both

    def noted(blocks, first, words, key):
        hashed.append((key, first, blocks.copy()))
        return one(blocks, first, words, key)

    def both_noted(blocks, flips, delta, first, words, key):
        flipped = blocks ^ flips[:, None].astype(np.uint64) * delta
        hashed.extend([(key, first, flipped), (key, first, flipped ^ delta)])
        return two(blocks, flips, delta, first, words, key)

    monkeypatch.setattr(module, "pads", noted)
    monkeypatch.setattr(module, "pads_of_both", both_noted)
    return hashed


def test_no_number_is_hashed_twice_under_a_key(hashed):
    both([[some(c, ring, n, 2) for c in (0, 1) for ring in (GF2, Z32) for n in (3, 40)] for _ in range(4)])
    seen = {}
    for key, first, blocks in hashed:
        for number, block in enumerate(map(bytes, blocks), first):
            seen.setdefault((key, number), set()).add(block)
    # Per number, only the two blocks of one transfer: the sender hashes both, the chooser one of them.
    assert len(seen) == 2 * 4 * 2 * 43 and all(len(blocks) == 2 for blocks in seen.values())


def test_requested_blocks_differ_by_delta_and_are_not_hashed(hashed):
    choices = RNG.integers(0, 2, (2, 50)).astype(np.uint8)

    def program(transfers, endpoint):
        own, answers = endpoint.rank, []
        ones, words = (np.ones(9, np.uint8), None) if own == 0 else (None, np.ones((9, 1), np.uint32))
        for _ in range(2):
            first, second = (Correlated(c, 50, choices[c] if own == c else None) for c in (0, 1))
            asked = [first, Transfer(0, 9, 1, Z32, ones, words), second]
            answers += endpoint.run(transfers.run(asked))[::2]
        return transfers.sender.delta, answers

    (delta, first), (other, second) = at_both(program)
    for i, (x, y) in enumerate(zip(first, second, strict=True)):
        assert x.shape == y.shape == (50, 2)
        assert np.array_equal(x ^ y, choices[i % 2][:, None] * (delta if i % 2 else other))
    blocks = {block.tobytes() for several in (*first, *second) for block in several}
    assert (
        len(blocks) > 200 and hashed and not blocks & {block.tobytes() for *_, several in hashed for block in several}
    )


def test_messages_arrive():
    def program(transfers, endpoint):
        words = [np.arange(3, dtype=np.uint32) + sender for sender in (0, 1)]
        return endpoint.run(
            transfers.run([MaskedMessage(s, 3, Z32, words[s] if endpoint.rank == s else None) for s in (0, 1)])
        )

    for told in at_both(program):
        assert [t.tolist() for t in told] == [[0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize("count", [0, 1])
def test_small_numbers(count):
    (first,), (second,) = both([[some(0, Z32, count, 1)]])
    assert first[0].shape == second[0].shape == (count, 1)
