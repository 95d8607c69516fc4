"""Malicious plans and frames of authenticated parties: the dealer survives, and an honest session succeeds."""

import contextlib
import copy
import random
import time

import pytest

from mpc.errors import PeerFailure
from mpc.protocol.catalogue import correlations
from protocols.offline.plan import encode_plan
from protocols.runtime import dealer_host as desk
from protocols.testing.two_parties import run_both
from protocols.transport.codec import encode
from protocols.transport.frames import FACTS_LIMIT, Kind, head
from protocols.transport.link import Intake
from secure_tree import SecureXGBClassifier
from tests.lies import mutated
from tests.protocols.runtime.meeting import NAMES, dealing, honest

pytestmark = pytest.mark.long

MANY, OFTEN, PATIENCE = 400, 20, 1.0


@pytest.fixture(scope="module")
def plans():
    """Return every plan of a small training, encoded, and further plans, so that all kinds of requests occur."""
    seen = []

    def job(party):
        party.randomness.provide = lambda plan: seen.append(encode_plan(plan))
        X = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
        for party.round_price in (0, 1 << 40):
            model = SecureXGBClassifier(n_estimators=1, max_depth=2, max_bin=2)
            model.fit(party, X, [0, 1, 1]).predict_margin(party, X, "thresholds")

    run_both(job)
    assert len({request[0] for plan in seen for requests, _ in plan for request in requests}) > 10
    return seen


@pytest.fixture
def dealer(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "_GRACE", 0.5)
    with dealing(tmp_path, patience=5, memory=1_000_000_000) as dealer:
        yield dealer


def visit(dealer, rng, say):
    """Run a session in which both parties send their nonces and then only what `say(channel, number)` sends."""
    session = rng.randbytes(16)
    channels = [dealer.channel(name, session) for name in NAMES]
    with channels[0], channels[1], contextlib.suppress(PeerFailure):
        for channel in channels:
            channel.timeout = PATIENCE
        for number, channel in enumerate(channels):
            say(channel, number)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for channel in channels:
                channel.receive("dealer.batch")


def survives(dealer, attacks):
    for number, attack in enumerate(attacks):
        attack()
        if number % OFTEN == OFTEN - 1:
            assert honest(dealer), number
    assert honest(dealer)
    ends = [line for line in dealer.lines if line.startswith(("session ended early", "dealt", "a party left"))]
    assert len(ends) >= len(attacks)
    assert not any("internal error" in line for line in dealer.lines)


def test_mutated_plans(dealer, plans):
    rng = random.Random(1)

    def broken():
        while True:
            plan = copy.deepcopy(rng.choice(plans))
            for _ in range(rng.choice([1, 1, 3, 10])):
                plan = mutated(plan, rng)
            with contextlib.suppress(ValueError):  # an integer that is too large
                return b"".join(encode(plan))

    def attack():
        plan = broken()

        def say(channel, number):
            channel.send("dealer.hello", bytes(16))
            channel.send("dealer.plan", plan)

        visit(dealer, rng, say)

    survives(dealer, [attack] * MANY)


def test_a_plan_of_countless_values_takes_no_more_memory_than_a_plan_may(dealer):
    """Values of one byte each on the wire, up to the longest message."""
    for value in (b"N", b"l" + bytes(8), b"i" + (1).to_bytes(8, "little") + b"\0"):
        count = (FACTS_LIMIT - 100) // len(value)
        plan = b"l" + count.to_bytes(8, "little") + value * count
        channels = [dealer.channel(name, b"countless values") for name in NAMES]
        with channels[0], channels[1]:
            for channel in channels:
                channel.timeout = 400  # decoding takes half a minute, on a busy machine more
                channel.send("dealer.hello", bytes(16))
            for channel in channels:
                channel.receive("dealer.session")
                channel.send("dealer.plan", plan)
            said = {str(channel.last_words("the end")) for channel in channels}
        assert len(said) == 1 and "memory" in said.pop()
        assert honest(dealer)
    assert not any("internal error" in line for line in dealer.lines)


def test_mutated_frames(dealer, plans):
    rng = random.Random(2)

    def frames():
        tree = b"".join(encode(b"".join(encode(rng.choice(plans)))))
        nonce = b"".join(encode(bytes(16)))
        return [
            head(Kind.TREE, "dealer.hello", 0, len(nonce)) + nonce,
            head(Kind.TREE, "dealer.plan", 1, len(tree)) + tree,
        ]

    def broken(data):
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        if kind == 0:
            return data[:at]
        if kind == 1:
            return data[:at] + rng.randbytes(rng.randrange(1, 50)) + data[at:]
        if kind == 2:
            return data[:at] + data[at + rng.randrange(1, 20) :]
        if kind == 3:
            return data[:16] + rng.randbytes(8) + data[24:]  # the length
        if kind == 4:
            return data + data
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]

    def attack():
        sent = [frames(), frames()]
        for _ in range(rng.choice([1, 2])):
            party, place = rng.randrange(2), rng.randrange(2)
            sent[party][place] = broken(sent[party][place])

        def say(channel, number):
            for frame in sent[number]:
                channel._link.transfer([frame], Intake(iter(())), "attack")

        visit(dealer, rng, say)

    survives(dealer, [attack] * MANY)


def test_every_request_with_every_extreme(dealer):
    """Every kind of request, with zeros, ones and the largest numbers in every place."""
    rng = random.Random(3)
    extremes = (0, 1, 2, 7, 64, 65, 255, 1 << 16, 1 << 32, 1 << 36)
    words = ("uint8", "uint64", "GF2", "bool")

    def value(annotation):
        if annotation == "Shape":
            return [rng.choice(extremes) for _ in range(rng.choice([0, 1, 2, 17, 65]))]
        return rng.choice(extremes) if annotation == "int" else rng.choice(words)

    def attack(name, described):
        fields = described.__dataclass_fields__.values()
        said = b"".join(encode([[[[name, *(value(f.type) for f in fields)]], 1]]))

        def say(channel, number):
            channel.send("dealer.hello", bytes(16))
            channel.send("dealer.plan", said)

        visit(dealer, rng, say)

    survives(dealer, [lambda n=name, d=d: attack(n, d) for name, d in correlations().items() for _ in range(8)])
