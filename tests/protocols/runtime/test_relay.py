"""The relay passes every byte in both directions, and none before its time."""

import socket
import threading
import time

import numpy as np
import pytest

from protocols.runtime.relay import Route, ShapedNetwork, relay


def receive(connection, count):
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data))
    return data


def test_bytes_arrive_whole_and_late_enough():
    delay, rate = 0.03, 40e6
    there, back = (np.random.default_rng(seed).bytes(300_000) for seed in (1, 2))
    arrived = {}

    def answer():
        with server.accept()[0] as connection:
            connection.sendall(back)
            arrived["there"] = receive(connection, len(there))
            connection.sendall(b"!")
            arrived["end"] = connection.recv(1)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        relay([Route("a", "b", server.getsockname())], delay, rate) as [address],
    ):
        thread = threading.Thread(target=answer)
        thread.start()
        with socket.create_connection(address) as client:
            started = time.monotonic()
            client.sendall(there)
            assert receive(client, len(back)) == back
            assert time.monotonic() - started >= 8 * len(back) / rate
            assert client.recv(1) == b"!"
            assert time.monotonic() - started >= 8 * len(there) / rate + 2 * delay
        thread.join(10)
    assert arrived == {"there": there, "end": b""}


@pytest.mark.parametrize("routes", [[("a", "b"), ("a", "c")], [("a", "c"), ("b", "c")]])
def test_a_line_per_host_is_shared(routes):
    delay, rate, count = 0.0, 40e6, 200_000
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ends = (first, second)
        routes = [Route(*hosts, server.getsockname()) for hosts, server in zip(routes, ends, strict=True)]
        with relay(routes, delay, rate, "host") as addresses:
            clients = [socket.create_connection(address) for address in addresses]
            servers = [server.accept()[0] for server in ends]
            started = time.monotonic()
            for client in clients:
                client.sendall(bytes(count))
            for server in servers:
                receive(server, count)
            assert time.monotonic() - started >= 8 * 2 * count / rate
            for end in (*clients, *servers):
                end.close()


@pytest.mark.parametrize(("lines", "shared"), [("host", True), ("pair", False)])
def test_which_connections_share_a_line(lines, shared):
    network = ShapedNetwork(0.02, 100e6, lines)
    for sender, receiver in (("dealer", "b"), ("a", "b"), ("a", "b"), ("dealer", "a")):
        network.join(None, None, sender, receiver)
    dealt, first, second, other = network.pipes
    assert first.uplink is second.uplink and first.downlink is second.downlink
    assert (dealt.downlink is first.downlink) == shared == (dealt.uplink is other.uplink)
    assert first.uplink is not first.downlink
