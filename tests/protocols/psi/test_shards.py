"""Both parties contribute to shard keys, shards are even for any ids, and intersections by shard match the whole."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mpc.errors import ConfigError, ProtocolDesync
from protocols.psi.alignment import align_shard
from protocols.psi.shards import agree_on_shards, shard_numbers
from protocols.transport.memory import memory_pair


def both(jobs):
    """Run each job at its end of a channel; return its result or error."""
    channels = memory_pair()

    def run(rank):
        try:
            return jobs[rank](channels[rank])
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, (0, 1)))


def test_both_parties_have_the_same_new_key():
    keys = [both([lambda peer, r=r: agree_on_shards(peer, r, 3) for r in (0, 1)]) for _ in range(3)]
    assert all(first == second and len(first) == 32 for first, second in keys)
    assert len({first for first, _ in keys}) == 3


@pytest.mark.parametrize(
    ("counts", "said"), [((2, 3), ("2 here and 3 at", "3 here and 2 at")), ((0, 3), ("none here", "3 here and none"))]
)
def test_different_numbers_of_shards_are_refused_at_both(counts, said):
    failures = both([lambda peer, r=r: agree_on_shards(peer, r, counts[r]) for r in (0, 1)])
    for failure, sentence in zip(failures, said, strict=True):
        assert isinstance(failure, ConfigError) and sentence in str(failure)


@pytest.mark.parametrize(
    "told", [None, {}, {"count": 2}, {"count": "2", "bytes": bytes(32)}, {"count": 2, "bytes": b""}]
)
def test_a_malformed_key_is_refused(told):
    first, _ = both(
        [lambda peer: agree_on_shards(peer, 0, 2), lambda peer: peer.exchange_public("shards.key", told, 4096)]
    )
    assert isinstance(first, ProtocolDesync)


def test_shards_are_even_and_another_key_divides_differently():
    ids = [str(i) for i in range(40_000)]
    numbers = shard_numbers(ids, b"k" * 32, 8)
    counts = np.bincount(numbers, minlength=8)
    assert counts.size == 8 and abs(counts - 5000).max() < 8 * 5000**0.5
    other = shard_numbers(ids, b"l" * 32, 8)
    assert abs((numbers == other).mean() - 1 / 8) < 0.02
    assert shard_numbers(ids[:9], b"k" * 32, 8).tolist() == numbers[:9].tolist()
    assert shard_numbers([], b"k" * 32, 8).size == 0


def test_shards_together_have_the_common_ids():
    rng = np.random.default_rng(7)
    tables = [np.char.add("x", rng.permutation(np.arange(a, b)).astype(str)) for a, b in ((0, 60), (40, 110))]
    key, count = b"k" * 32, 30
    shards = [[table[shard_numbers(table, key, count) == i].tolist() for i in range(count)] for table in tables]
    assert any(not ids for table in shards for ids in table)

    def job(rank):
        def run(peer):
            return [[ids[row] for row in align_shard(peer, rank, ids)] for ids in shards[rank]]

        return run

    first, second = both([job(0), job(1)])
    assert first == second and any(not ids for ids in first)
    assert all(ids == sorted(ids) for ids in first)
    assert sorted(one for ids in first for one in ids) == sorted(set(tables[0]) & set(tables[1]))


def test_padding_hides_how_many_ids_a_shard_has():
    def job(rank, ids):
        def run(peer):
            rows = align_shard(peer, rank, ids, pad=8)
            return rows.tolist(), peer.payload_sent

        return run

    results = [both([job(0, list(ids)), job(1, ["b"])]) for ids in ("", "a", "abc", "abcdefgh")]
    assert [first[0] for first, _ in results] == [[], [], [1], [1]] and results[2][1][0] == [0]
    # The guest's points, and the host's answer about them: as many for no id as for eight.
    assert len({host[1] for _, host in results}) == 1
    assert results[0][0][1] == results[1][0][1] and results[2][0][1] == results[3][0][1]
