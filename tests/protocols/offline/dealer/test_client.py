"""A party's end of the dealer: the messages of a lying dealer that it refuses."""

import threading

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import PeerFailure, ProtocolDesync
from mpc.rings import Z64
from mpc.sharing import ZeroShares
from protocols.offline.dealer import server as dealer
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import FEW_BYTES, serve
from protocols.transport.memory import memory_pair
from tests.protocols.offline.dealer.test_server import with_dealer

REQUEST = Triples((3,), Z64)
SIZES = np.array([24, 24])
DATA = np.zeros(48, np.uint8)


def told_by(messages, job):
    """Run `job` as party 1 with a dealer that sends these messages, whatever it receives."""
    mine, its = memory_pair(("party_b", "dealer"), timeout=5)

    def lie():
        nonce = its.receive("dealer.hello")
        for tag, message in messages(nonce):
            its.send(tag, message)

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        return job(mine)
    finally:
        mine.close()
        liar.join()


def session(nonce):
    return "dealer.session", {"seed": bytes(16), "nonce": bytes(16) + bytes(16) + nonce}


def asked(channel):
    randomness = FromDealer(1, channel)
    randomness.provide([([REQUEST], 2)])
    return [randomness.take(REQUEST) for _ in range(2)]


@pytest.mark.parametrize(
    "lie",
    [
        None,
        7,
        [],
        {},
        {"seed": bytes(16)},
        {"seed": bytes(15), "nonce": bytes(48)},
        {"seed": bytes(16), "nonce": bytes(47)},
        {"seed": bytes(16), "nonce": bytes(48)},  # of a session that is not this party's
        {"seed": "text", "nonce": bytes(48)},
        {"seed": bytes(16), "nonce": None},
        {"seed": bytes(16), "nonce": bytes(48), "more": 1},
        bytes(FEW_BYTES + 1),
    ],
    ids=lambda lie: repr(lie)[:40],
)
def test_a_malformed_session_is_refused(lie):
    with pytest.raises(ProtocolDesync):
        told_by(lambda nonce: [("dealer.session", lie)], asked)


@pytest.mark.parametrize(
    "lie",
    [
        False,
        "text",
        {},
        {"sizes": SIZES},
        {"sizes": SIZES, "data": DATA, "more": 1},
        {"sizes": SIZES, "data": bytes(48)},
        {"sizes": [24, 24], "data": DATA},
        {"sizes": SIZES.astype(np.int32), "data": DATA},
        {"sizes": SIZES.reshape(2, 1), "data": DATA},
        {"sizes": SIZES, "data": DATA[:47]},
        {"sizes": SIZES, "data": np.zeros(49, np.uint8)},
        {"sizes": SIZES, "data": DATA.reshape(6, 8)},
        {"sizes": np.array([48, 0]), "data": DATA},
        {"sizes": np.array([-24, 72]), "data": DATA},
        {"sizes": np.array([1 << 62, 1 << 62]), "data": DATA},
        {"sizes": np.array([24, 24, 0]), "data": DATA},
        {"sizes": SIZES[:0], "data": DATA[:0]},
        {"error": "an error of an older dealer"},
    ],
    ids=lambda lie: repr(lie)[:40],
)
def test_a_batch_that_does_not_fit_the_plan_is_refused(lie):
    with pytest.raises(ProtocolDesync):
        told_by(lambda nonce: [session(nonce), ("dealer.batch", lie)], asked)


def test_a_batch_has_a_bound_that_fits_the_plan():
    longest = dealer.BATCH + 24 + 8 * dealer.BATCH_REQUESTS + FEW_BYTES
    with pytest.raises(ProtocolDesync, match=f"at most {longest} allowed"):
        told_by(lambda nonce: [session(nonce), ("dealer.batch", np.zeros(longest, np.uint8))], asked)


def test_a_dealer_that_gives_up_says_why():
    def messages(nonce):
        yield session(nonce)
        channel.end("no memory")

    mine, channel = memory_pair(("party_b", "dealer"), timeout=5)
    with pytest.raises(PeerFailure, match="ended the session: no memory"):
        liar = threading.Thread(target=lambda: [channel.send(*m) for m in messages(channel.receive("dealer.hello"))])
        liar.start()
        asked(mine)
    liar.join()


def test_a_batch_has_a_bound_of_requests(monkeypatch):
    monkeypatch.setattr(dealer, "BATCH_REQUESTS", 3)
    batches = []
    flush = dealer._Batches.flush
    monkeypatch.setattr(dealer._Batches, "flush", lambda self: batches.append(len(self._sizes)) or flush(self))

    def job(randomness, rank):
        randomness.provide([([ZeroShares((1,), Z64)], 8)])
        return [randomness.take(ZeroShares((1,), Z64)) for _ in range(8)]

    results, errors = with_dealer(job)
    assert not errors and len(results[0]) == 8 and max(batches) == 3


def test_a_plan_is_refused_by_the_dealer_unless_it_is_bytes():
    ends = [memory_pair((f"party_{rank}", "dealer"), timeout=5) for rank in (0, 1)]
    for mine, _ in ends:
        mine.send("dealer.hello", bytes(16))
        mine.send("dealer.plan", [[["Triples", [3], "uint64"], 1]])
    with pytest.raises(ProtocolDesync, match="party_0 must send a plan"):
        serve(ends[0][1], ends[1][1])
    for mine, _ in ends:
        mine.receive("dealer.session")
        assert "ended the session: party_0 must send a plan" in str(mine.last_words("waiting"))
