"""Compare channels with bare blocking TLS sockets, between two processes on loopback.

    python -m pytest benchmarks/bench_transport.py

`extra_info` has the ratio to bare sockets: for the time of a 64-byte exchange (the target is below 2), and for the
throughput of 64 MB in one direction (the target is above 0.6).
"""

import multiprocessing
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mpc.errors import PeerVanished
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import Listener, connect

SMALL = np.zeros(8, np.uint64)
LARGE_BYTES, EXCHANGES, TRANSFERS = 64_000_000, 5_000, 15


@pytest.fixture(scope="module")
def credentials() -> dict[str, Credentials]:
    return make_credentials(["party_a", "party_b"])


@contextmanager
def peer(play: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Start a second process as party_b on a listening socket, and return its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("fork").Process(target=play, args=(listening,), daemon=True)
        process.start()
        try:
            yield listening.getsockname()
        finally:
            process.join(5)
            process.kill()


@contextmanager
def channel_to(credentials: dict[str, Credentials], step: Callable[[Channel], object]) -> Iterator[Channel]:
    """Open a channel to a peer that repeats `step` until it is closed."""

    def play(listening: socket.socket) -> None:
        context = credentials["party_b"].context(server=True)
        with Listener(listening, context).accept("party_a") as channel:
            try:
                while True:
                    step(channel)
            except PeerVanished:
                return

    with peer(play) as address, connect(address, credentials["party_a"], "party_b") as channel:
        yield channel


@contextmanager
def bare_socket_to(
    credentials: dict[str, Credentials], step: Callable[[ssl.SSLSocket], object]
) -> Iterator[ssl.SSLSocket]:
    """Do the same over ssl.SSLSocket."""

    def play(listening: socket.socket) -> None:
        plain, _ = listening.accept()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with credentials["party_b"].context(server=True).wrap_socket(plain, server_side=True) as bare:
                while True:
                    step(bare)
        except OSError:
            return

    with peer(play) as address, socket.create_connection(address) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with credentials["party_a"].context(server=False).wrap_socket(plain) as bare:
            yield bare


def receive(bare: ssl.SSLSocket, target: memoryview) -> None:
    while target:
        count = bare.recv_into(target)
        if not count:
            raise ConnectionResetError
        target = target[count:]


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    def once() -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    once()
    return statistics.median(once() for _ in range(repeats))


def median_of(benchmark: BenchmarkFixture) -> float:
    assert benchmark.stats is not None, "it has run"
    return float(benchmark.stats.stats.median)


def test_ping_pong_of_64_bytes(
    benchmark: BenchmarkFixture, credentials: dict[str, Credentials], request: pytest.FixtureRequest
) -> None:
    repeats = 5 if request.config.getoption("--smallest") else EXCHANGES
    buffer = memoryview(bytearray(64))

    def bare_exchange(bare: ssl.SSLSocket) -> None:
        bare.sendall(buffer)
        receive(bare, buffer)

    def exchange(channel: Channel) -> None:
        channel.exchange("ping uint64[8]", [SMALL])

    with bare_socket_to(credentials, bare_exchange) as bare:
        reference = median_seconds(lambda: bare_exchange(bare), repeats)
    with channel_to(credentials, exchange) as channel:
        benchmark.pedantic(exchange, (channel,), rounds=repeats, warmup_rounds=min(100, repeats))
    benchmark.extra_info["time / bare TLS"] = round(median_of(benchmark) / reference, 2)


def test_throughput_of_64_megabytes(
    benchmark: BenchmarkFixture, credentials: dict[str, Credentials], request: pytest.FixtureRequest
) -> None:
    size, repeats = (64_000, 1) if request.config.getoption("--smallest") else (LARGE_BYTES, TRANSFERS)
    buffer = memoryview(bytearray(size))
    payload = np.ones(size // 8, np.uint64)

    def bare_source(bare: ssl.SSLSocket) -> None:
        receive(bare, memoryview(bytearray(1)))
        bare.sendall(buffer)

    def bare_sink(bare: ssl.SSLSocket) -> None:
        bare.sendall(b"!")
        receive(bare, buffer)

    def source(channel: Channel) -> None:
        channel.exchange("bulk", [payload], like=[])

    def sink(channel: Channel) -> None:
        channel.exchange("bulk", [], like=[((size // 8,), np.uint64)])

    with bare_socket_to(credentials, bare_source) as bare:
        reference = median_seconds(lambda: bare_sink(bare), repeats)
    with channel_to(credentials, source) as channel:
        benchmark.pedantic(sink, (channel,), rounds=repeats, warmup_rounds=1)
    seconds = median_of(benchmark)
    benchmark.extra_info["MB/s"] = round(size / seconds / 1e6)
    benchmark.extra_info["throughput / bare TLS"] = round(reference / seconds, 2)
