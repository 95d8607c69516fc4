"""Attacks on the ports of party A and of the dealer, by anyone without a certificate or with the wrong one.

Every attack runs while the two honest parties connect, and must not make their run fail.
"""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time

import pytest

from protocols.transport import tls
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.frames import VERSION
from tests.protocols.runtime.meeting import AUTHORITY, CREDENTIALS, SQUARES, dealing, outcome

pytestmark = pytest.mark.long

STRANGERS = make_credentials(["party_a", "party_b"])
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)


def plain(address):
    """Connect as soon as somebody listens."""
    until = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(address, 20)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)


def said(*parts):
    """Return an attack that sends this and keeps listening."""

    def attack(address):
        connection = plain(address)
        for part in parts:
            connection.sendall(part)
        return connection

    return attack


def close(address):
    connection = plain(address)
    connection.close()
    return connection


def reset(address):
    connection = plain(address)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    return connection


def half_close(address):
    connection = plain(address)
    connection.shutdown(socket.SHUT_WR)
    return connection


def crowd(address):
    stack = contextlib.ExitStack()
    for _ in range(200):
        stack.enter_context(plain(address))
    return stack


def drip(payload, connect=plain):
    def attack(address):
        connection = connect(address)

        def play():
            with contextlib.suppress(OSError):
                for byte in payload:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.3)

        threading.Thread(target=play, daemon=True).start()
        return connection

    return attack


def over_tls(credentials, *parts, version=ssl.TLSVersion.TLSv1_3, certificate=True):
    """Return an attack over TLS; the listener may end it at any time."""

    def attack(address):
        context = credentials.context(server=False)
        if not certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        connection = plain(address)
        try:
            connection = context.wrap_socket(connection)
            for part in parts:
                connection.sendall(part)
        except OSError:
            pass
        return connection

    return attack


def closed_after(attack):
    def both(address):
        connection = attack(address)
        connection.close()
        return connection

    return both


def hello(version=VERSION, name=b"sharewood", session=bytes(16)):
    return tls._HELLO.pack(name, version, False, session)


def attacks(guest):
    """Return the attacks by name; `guest` is a peer that may connect."""
    good, other, stranger = CREDENTIALS[guest], CREDENTIALS["party_c"], STRANGERS[guest]
    borrowed = Credentials(stranger.certificate, stranger.private_key, good.authority)
    return {
        "idle": said(),
        "closes at once": close,
        "resets": reset,
        "closes one side": half_close,
        "HTTP": said(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        "random bytes": said(os.urandom(1 << 16)),
        "zeros": said(bytes(1 << 20)),
        "half a ClientHello": said(CLIENT_HELLO),
        "a record of no type": said(b"\xff\x03\x03\xff\xff" + bytes(100)),
        "drips a ClientHello": drip(CLIENT_HELLO),
        "200 at once": crowd,
        "TLS 1.2": over_tls(good, version=ssl.TLSVersion.TLSv1_2),
        "no certificate": over_tls(good, hello(), certificate=False),
        "another authority": over_tls(stranger, hello()),
        "another authority's key": over_tls(borrowed, hello()),
        "an old certificate": over_tls(AUTHORITY.issue(guest, -0.04), hello()),
        "another name": over_tls(other, hello()),
        "the listener's own name": over_tls(CREDENTIALS["dealer" if guest == "party_a" else "party_a"], hello()),
        "TLS, then silence": over_tls(good),
        "TLS, then closes": closed_after(over_tls(good)),
        "TLS, then half a hello": over_tls(good, hello()[:10]),
        "TLS, then drips a hello": drip(hello(), over_tls(good)),
        "TLS, then no hello": over_tls(good, b"GET / HTTP/1.1\r\n" * 4),
        "TLS, then another version": over_tls(good, hello(VERSION + 1)),
        "a hello, then closes": closed_after(over_tls(good, hello(session=b"a session of one"))),
        "a hello, then zeros": closed_after(over_tls(good, hello(session=b"a session of one"), bytes(1000))),
    }


@pytest.fixture(scope="module")
def dealer(tmp_path_factory):
    with dealing(tmp_path_factory.mktemp("dealer"), patience=30) as dealer:
        yield dealer


def run_beside(dealer, attack, address, network):
    """Return the outcomes of two honest parties during an attack on an address."""
    found = {}
    first = threading.Thread(target=lambda: found.update({0: outcome(network, 0)}))
    first.start()
    with attack(address):
        found[1] = outcome(network, 1)
        first.join(60)
    return [found.get(0), found.get(1)]


@pytest.mark.parametrize("name", attacks("party_b"))
def test_at_party_a(dealer, name):
    network = dealer.network()
    assert run_beside(dealer, attacks("party_b")[name], network.meeting, network) == [SQUARES] * 2


@pytest.mark.parametrize("name", attacks("party_a"))
def test_at_the_dealer(dealer, name):
    assert run_beside(dealer, attacks("party_a")[name], dealer.address, dealer.network()) == [SQUARES] * 2


def test_all_at_once(dealer):
    network = dealer.network()
    with contextlib.ExitStack() as stack:
        for attack in attacks("party_a").values():
            stack.enter_context(attack(dealer.address))
        every = attacks("party_b").values()

        def attack(address):
            for each in every:
                stack.enter_context(each(address))
            return contextlib.nullcontext()

        assert run_beside(dealer, attack, network.meeting, network) == [SQUARES] * 2
