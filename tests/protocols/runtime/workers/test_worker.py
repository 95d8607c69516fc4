"""Workers that connect over TLS, without Ray: only two workers of the same shard and job accept each other."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from mpc.errors import ConfigError
from protocols.offline.dealer.client import FromDealer
from protocols.offline.streams import shard_domain
from protocols.runtime.hosts import Network
from protocols.runtime.settings import Offline
from protocols.runtime.workers.worker import Worker, packed
from tests.protocols.runtime.meeting import CREDENTIALS, NAMES, SQUARES, dealing, squares

LEADS = "ab" * 32
PAIRED = Offline("pairwise", "softspoken")
NETWORK = Network(
    NAMES,
    ("127.0.0.1", 1),
    None,
    patience=20,
    timeout=20,
    offline=PAIRED,
    shards=2,
    leads=LEADS,
)


def met(first, second):
    """Return the two workers, or their failures, after they have met with these networks."""
    workers = [Worker(rank, partial(CREDENTIALS.get, name)) for rank, name in enumerate(NAMES)]
    meeting = workers[0].listen("127.0.0.1")

    def meet(worker, network):
        try:
            worker.meet(replace(network, meeting=meeting))
            return worker
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(meet, workers, (first, second)))


def at_both(workers, act):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(act, workers))


def program(party, kept):
    return squares(party)


def test_two_workers_of_one_shard_compute_together():
    workers = met(replace(NETWORK, shard=1), replace(NETWORK, shard=1))
    done = at_both(workers, lambda worker: worker.perform(packed((program, ())), "online"))
    assert done == [(True, packed(SQUARES))] * 2
    at_both(workers, Worker.close)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"shard": 1}, "the hosts disagree on shard: 0 here, 1 at party_b"),
        ({"shards": 3}, "the hosts disagree on shards: 2 here, 3 at party_b"),
        ({"leads": "cd" * 32}, f"the hosts disagree on session of the leads: '{LEADS}' here, '{'cd' * 32}' at party_b"),
        ({"shards": 0}, "the hosts disagree on shards: only this party divides its rows"),
    ],
    ids=["shard", "shards", "another job", "no worker"],
)
def test_a_wrong_peer_is_refused_by_name(other, sentence):
    at_a, at_b = met(replace(NETWORK, shard=0), replace(NETWORK, **{"shard": 0, **other}))
    assert type(at_a) is type(at_b) is ConfigError
    assert str(at_a) == sentence


def test_the_shard_is_in_the_keys_of_a_dealers_masks(tmp_path, monkeypatch):
    nonces, init = [], FromDealer.__init__

    def seen(self, *given):
        init(self, *given)
        nonces.append(self._streams.nonce)

    monkeypatch.setattr(FromDealer, "__init__", seen)
    with dealing(tmp_path) as dealer:
        network = replace(NETWORK, offline=Offline("dealer"), dealer=dealer.address, shard=1)
        at_both(met(network, network), Worker.close)
    assert [nonce[48:] for nonce in nonces] == [shard_domain(1, 2, LEADS)] * 2
