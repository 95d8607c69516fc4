"""Pairs of channels, in memory and over TLS, and a way to run both ends."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.memory import memory_pair
from protocols.transport.tcp import connect, listen

Pair = tuple[Channel, Channel]


def both(first: Callable, second: Callable) -> tuple:
    """Run two calls at the same time; return each one's result or error."""

    def outcome(call: Callable) -> object:
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return tuple(pool.map(outcome, (first, second)))


def tcp_pair(first: Credentials, second: Credentials, **options) -> Pair:
    """Connect party_a to party_b; return the channels, or an error in place of a channel."""
    with listen(("127.0.0.1", 0), first) as listener:
        return both(
            lambda: listener.accept("party_b", patience=30, **options),
            lambda: connect(listener.address, second, "party_a", patience=30, **options),
        )


@pytest.fixture(scope="session")
def credentials() -> dict[str, Credentials]:
    return make_credentials(["party_a", "party_b", "party_c"])


@pytest.fixture(params=["memory", "tcp"])
def make_pair(request, credentials):
    """make_pair(timeout=..., limit=...) -> channels of party_a and party_b, closed after the test."""
    pairs = []

    def make(**options) -> Pair:
        if request.param == "memory":
            pairs.append(memory_pair(**options))
        else:
            pairs.append(tcp_pair(credentials["party_a"], credentials["party_b"], **options))
        return pairs[-1]

    yield make
    for channel in sum(pairs, ()):
        channel.close()


@pytest.fixture
def pair(make_pair) -> Pair:
    return make_pair(timeout=20)
