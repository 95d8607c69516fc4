"""No mask is used in two shards: the leads and workers of both parties use every (key, counter) only once."""

import hashlib
import os
import threading
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from protocols.offline.dealer import client as dealt
from protocols.offline.dealer import delivery
from protocols.offline.dealer import server as dealer
from protocols.offline.pairwise import client as pairwise
from protocols.offline.streams import DOMAIN_BYTES, Streams, shard_domain
from protocols.ot import softspoken, transfers
from protocols.testing import two_parties
from protocols.testing.two_parties import run_both, with_workers
from protocols.transport.memory import memory_pair
from secure_tree import SecureXGBClassifier
from tests.secure_tree.test_twin import halves, table

SHARDS = 3


class Used:
    """The blocks of key streams and the keys of hashes that each pair of processes has used, by rank."""

    def __init__(self):
        self.blocks = defaultdict(list)
        self.pairs = defaultdict(set)
        self.at = threading.local()

    def recording(self):
        """Return a class of streams that records for the process that creates them."""
        used = self

        class Recorded(Streams):
            def __init__(self, seed, nonce):
                super().__init__(seed, nonce)
                self._rank, self._pair = used.at.rank, used.at.pair
                self._key = super().draw(1 << 63, 0, 16).tobytes()  # identifies the key, at an index without a request
                used.pairs[self._key].add(self._pair)

            def draw(self, index, block, size):
                used.blocks[self._place(index)].append((block, block + -(-size // 16)))
                return super().draw(index, block, size)

            def not_given_out(self, index):
                """Forget a request that has to wait, because it is expanded again later."""
                used.blocks.pop(self._place(index), None)

            def _place(self, index):
                return self._key, self._pair, self._rank, index

        return Recorded

    def repeated(self):
        """Return what is used twice: keys by two pairs, or blocks by one process."""
        keys = [pairs for pairs in self.pairs.values() if len(pairs) > 1]
        return keys + [
            (pair, rank, index)
            for (_, pair, rank, index), blocks in self.blocks.items()
            for (_, end), (start, _) in zip(sorted(blocks), sorted(blocks)[1:], strict=False)
            if start < end
        ]


class OneSeed:
    """Random bytes that depend only on the rank of a process, and so are the same for every pair."""

    def __init__(self, at):
        self._at = at

    def urandom(self, size):
        self._at.drawn = getattr(self._at, "drawn", 0) + 1
        text = f"{getattr(self._at, 'rank', 'dealer')} {self._at.drawn}"
        return hashlib.shake_128(text.encode()).digest(size)


def used_by_training(monkeypatch, offline, one_seed, partition="horizontal"):
    used = Used()
    for module in (dealt, pairwise):
        monkeypatch.setattr(module, "Streams", used.recording())
    expand = delivery.Delivery._expand

    def expanded(self, request, corrections):
        expand(self, request, corrections)
        if request.corrections is not None:
            self._streams.not_given_out(request.index)

    monkeypatch.setattr(delivery.Delivery, "_expand", expanded)
    draw = OneSeed(used.at).urandom if one_seed else os.urandom
    monkeypatch.setattr(pairwise, "os", SimpleNamespace(urandom=draw))
    key_of = transfers.key_of

    def key(session, chooser):
        used.pairs[key_of(session, chooser)].add(used.at.pair)
        return key_of(session, chooser)

    monkeypatch.setattr(pairwise, "key_of", key)

    class Leaves(softspoken._Streams):
        def __init__(self, leaves):
            super().__init__(leaves)
            for leaf in leaves.reshape(-1, 2)[leaves.reshape(-1, 2).any(axis=1)]:  # a missing one is zero
                used.pairs[leaf.tobytes()].add(used.at.pair)

    monkeypatch.setattr(softspoken, "_Streams", Leaves)
    to_dealers = [
        [memory_pair((name, "dealer"), timeout=60) for name in ("party_a", "party_b")] for _ in range(SHARDS + 1)
    ]
    for (_, first), (_, second) in to_dealers:
        threading.Thread(target=dealer.serve, args=(first, second), kwargs={"draw": draw}, daemon=True).start()
    leads, met = memory_pair(), [0, 0]

    def source(rank, second, seeds, domain=b""):
        """Return the source as of real processes: first the workers, then the lead."""
        used.at.rank, used.at.pair, used.at.drawn = rank, met[rank], 0
        met[rank] += 1
        if offline == "pairwise":
            return pairwise.pairwise(rank, second, "softspoken", domain=domain)
        return dealt.FromDealer(rank, to_dealers[used.at.pair][rank][0], domain=domain, draw=draw)

    X, y = table(60, 4, 1)
    tables, labels = halves(X, y, 27) if partition == "horizontal" else ((X[:, :2], X[:, 2:]), (y, None))

    def job(party):
        party.randomness = source(party.rank, leads[party.rank], None)
        model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=4, partition=partition)
        return model.fit(party, tables[party.rank], labels[party.rank]).predict_margin(party, tables[party.rank])

    run_both(with_workers(job, SHARDS, source))
    assert met == [SHARDS + 1] * 2
    found = {(pair, rank) for _, pair, rank, _ in used.blocks}
    assert found == {(pair, rank) for pair in range(SHARDS + 1) for rank in (0, 1)}
    return used


@pytest.mark.parametrize("one_seed", [False, True])
@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_no_block_of_a_key_is_used_twice(monkeypatch, offline, one_seed):
    """This holds even if all processes of a party draw the same random bytes, because the key contains the shard."""
    assert used_by_training(monkeypatch, offline, one_seed).repeated() == []


@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_workers_of_one_seed_and_one_shard_number_are_found(monkeypatch, offline):
    """The test above is able to fail."""
    monkeypatch.setattr(
        two_parties, "shard_domain", lambda shard, count, leads: shard_domain(min(shard, 1), count, leads)
    )
    repeated = used_by_training(monkeypatch, offline, one_seed=True).repeated()
    assert repeated and all(pairs == {1, 2} for pairs in repeated)


def test_every_fact_of_a_shard_is_in_its_domain():
    domains = {
        shard_domain(*facts) for facts in [(0, 2, "ab"), (1, 2, "ab"), (0, 3, "ab"), (0, 2, "ac"), (1, 12, "ab")]
    }
    assert len(domains) == 5 and {len(domain) for domain in domains} == {DOMAIN_BYTES}
    streams = [Streams(bytes(16), bytes(48) + domain).draw(0, 0, 16).tobytes() for domain in (b"", *domains)]
    assert len(set(streams)) == 6


def test_a_dealer_refuses_workers_of_different_shards():
    ends = [memory_pair((name, "dealer"), timeout=20) for name in ("party_a", "party_b")]
    for shard, (channel, _) in enumerate(ends):
        channel.send("dealer.hello", np.random.default_rng(shard).bytes(16) + shard_domain(shard, 2, "ab"))
    with pytest.raises(dealer.ProtocolDesync, match="party_a and party_b are workers of different shards or jobs"):
        dealer.serve(ends[0][1], ends[1][1])
