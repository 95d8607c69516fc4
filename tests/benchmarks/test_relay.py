"""The relay passes every byte in both directions, and none before its time."""

import socket
import threading
import time

import numpy as np

from benchmarks.relay import Route, relay


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


def test_an_uplink_is_shared():
    delay, rate, count = 0.0, 40e6, 200_000
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        routes = [Route("a", "b", first.getsockname()), Route("a", "c", second.getsockname())]
        with relay(routes, delay, rate) as addresses:
            clients = [socket.create_connection(address) for address in addresses]
            servers = [server.accept()[0] for server in (first, second)]
            started = time.monotonic()
            for client in clients:
                client.sendall(bytes(count))
            for server in servers:
                receive(server, count)
            assert time.monotonic() - started >= 8 * 2 * count / rate
            for end in (*clients, *servers):
                end.close()
