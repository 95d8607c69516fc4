"""Mutated bytes for the codec, frames, plans and the dealer give a value or one sentence, in bounded memory.

Seeded: the same seed gives the same bytes. A few by default; in the long run a million each, 10,000 over sockets.
"""

import contextlib
import random
import socket
import tracemalloc

import numpy as np
import pytest

from mpc.errors import PeerFailure, ProtocolDesync, SharewoodError
from mpc.protocol.catalogue import correlations
from protocols.offline.dealer import server as dealing_side
from protocols.offline.dealer.server import NONCE_BYTES, PLAN_ROOM
from protocols.offline.plan import decode_plan, encode_plan
from protocols.offline.streams import DOMAIN_BYTES
from protocols.transport.codec import DTYPES, decode, encode
from protocols.transport.frames import FACTS_LIMIT, Kind, head, read_head, read_to_the_end
from protocols.transport.link import Intake
from protocols.transport.memory import memory_pair
from sharewood.warming_up import warm_up
from tests.protocols.runtime.meeting import NAMES, SQUARES, both, dealing

SEED = 20260101
FEW = 2_000
MANY = 1_000_000
SOCKETS = 10_000
WATCHED = 25  # one of this many decodings has its memory measured
SLACK = 64 << 10
INTERESTING = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)


@pytest.fixture(scope="module")
def warm():
    """Load kernels before any session, as `sharewood dealer` does."""
    warm_up()


counts = pytest.mark.parametrize(
    "count", [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)


def changed(data, rng):
    """Return bytes with one to eight changes, as fuzzers make them."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(8)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = rng.randbytes(rng.randrange(1, 30))
        elif kind == 2:
            del data[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            data[at : at + 8] = rng.choice(INTERESTING).to_bytes(8, "little")
        elif kind == 4:
            data[at:at] = data[max(0, at - rng.randrange(1, 40)) : at]
        elif kind == 5 and data:
            data[min(at, len(data) - 1)] = rng.choice(b"NTFifsbltda\x00\xff")
        elif data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
    return bytes(data)


def value(rng, depth=0):
    """Return a tree of plain values that the codec accepts."""
    kind = rng.randrange(7 if depth > 3 else 10)
    if kind < 3:
        return rng.choice((None, True, False, 0, -1, 1 << 70, 0.5, float("inf"), "", "a name", b"", b"bytes"))
    if kind < 5:
        return rng.choice((rng.getrandbits(40), rng.random(), rng.randbytes(9), "é" * rng.randrange(5)))
    if kind < 7:
        shape = [rng.randrange(4) for _ in range(rng.randrange(3))]
        return np.zeros(shape, rng.choice(DTYPES))
    many = [value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return many if kind == 7 else tuple(many) if kind == 8 else {str(n): v for n, v in enumerate(many)}


def plan(rng):
    """Return a plan of a few requests, most of them small."""
    kinds = list(correlations().items())

    def field(annotation):
        if annotation == "Shape":
            return [rng.choice((0, 1, 2, 5, 64)) for _ in range(rng.randrange(3))]
        return rng.choice((0, 1, 2, 5)) if annotation == "int" else rng.choice(("uint8", "uint64", "GF2", "uint64:40"))

    def request():
        name, described = rng.choice(kinds)
        return [name, *(field(f.type) for f in described.__dataclass_fields__.values())]

    return [
        [[request() for _ in range(rng.randrange(1, 4))], rng.choice((0, 1, 2))] for _ in range(rng.randrange(1, 4))
    ]


def greeting(rng):
    """Return the first frames that a party or worker sends to the dealer: its nonce, and a plan, checked or not."""
    hello, asked = bytes(rng.choice((NONCE_BYTES, NONCE_BYTES + DOMAIN_BYTES))), b"".join(encode(plan(rng)))
    nonce, tree = (b"".join(encode(each)) for each in (hello, rng.choice((asked, {"checked": asked}))))
    hello, asked = ("dealer.hello", nonce), ("dealer.plan", tree)
    return [head(Kind.TREE, tag, number, len(data)) + data for number, (tag, data) in enumerate((hello, asked))]


@contextlib.contextmanager
def bounded(number, room):
    """For one in WATCHED runs, check that the memory used in the block is within the bound."""
    if number % WATCHED:
        yield
        return
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= room + SLACK, number
    finally:
        tracemalloc.stop()


@counts
def test_the_codec(count):
    rng, refused, encoded = random.Random(SEED), 0, b""
    for number in range(count):
        if number % 20 == 0:
            encoded = b"".join(encode(value(rng)))
        data = changed(encoded, rng)
        room = rng.choice((200, 2000, 100_000))
        with bounded(number, room):
            try:
                tree = decode(data, room)
            except ProtocolDesync:
                refused += 1
                continue
        assert b"".join(encode(tree)) == data, data  # every value has one encoding
    assert refused > count // 2


@counts
def test_frames(count):
    rng, refused = random.Random(SEED + 1), 0
    for number in range(count):
        tag = rng.choice(("dealer.hello", "dealer.plan", "beaver.multiply"))
        frame = head(rng.choice((Kind.TREE, Kind.ARRAYS, Kind.END)), tag, rng.randrange(3), rng.randrange(60)) + bytes(
            60
        )
        data = memoryview(changed(frame, rng))
        reader = read_head(Kind.TREE, tag, 1, FACTS_LIMIT, "the peer") if number % 2 else read_to_the_end("the peer")
        with bounded(number, 3 * (64 << 10)), contextlib.suppress(EOFError):
            try:
                intake = Intake(reader)
                while intake.target is not None:
                    if not data:
                        raise EOFError
                    size = min(len(data), len(intake.target))
                    intake.target[:size], data = data[:size], data[size:]
                    intake.filled(size)
                assert intake.result is None or intake.result <= FACTS_LIMIT
            except PeerFailure as error:
                assert "\n" not in str(error) and len(str(error)) < 2000
                refused += 1
    assert refused > count // 3


@counts
def test_plans(count):
    rng, refused, encoded = random.Random(SEED + 2), 0, b""
    for number in range(count):
        if number % 20 == 0:
            encoded = b"".join(encode(plan(rng)))
        data = changed(encoded, rng)
        with bounded(number, 1 << 20):
            try:
                decoded = decode_plan(decode(data, PLAN_ROOM))
            except ProtocolDesync:
                refused += 1
                continue
        # Whatever is accepted is a plan that has the same encoding again.
        assert decode_plan(encode_plan(decoded)) == decoded
    assert refused > count // 2


def test_a_plan_is_as_long_as_it_takes_to_go_through():
    for much in ([[[], 1 << 36]], [[[], 1 << 20]] * 1000):
        with pytest.raises(ProtocolDesync, match="at most 16777216 requests"):
            decode_plan(much)


@counts
def test_the_dealer_up_to_its_requests(count):
    """Change what one of two parties sends: the dealer reads it as in a session, but does not deal."""
    rng, refused = random.Random(SEED + 3), 0
    for _ in range(count):
        said = greeting(rng)
        sent = [list(said), list(said)]
        party, place = rng.randrange(2), rng.randrange(2)
        sent[party][place] = changed(sent[party][place], rng)
        ends = []
        for frames in sent:
            here, there = memory_pair(timeout=1.0)
            here._link.transfer([b"".join(frames)], Intake(iter(())), "attack")
            here.close()
            ends.append(there)
        try:
            for channel in ends:
                dealing_side._hello(channel)
            asked = dealing_side._next_plan(ends)
            if asked is not None:
                decode_plan(decode(asked, PLAN_ROOM))
        except SharewoodError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > count // 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [20, pytest.param(SOCKETS, marks=pytest.mark.long)])
def test_through_sockets(tmp_path, warm, count):
    """Send strangers' bytes to the dealer's port, and changed frames from parties with certificates."""
    rng = random.Random(SEED + 4)
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(32)
    with dealing(tmp_path, patience=5, memory=1_000_000_000) as dealer:
        for number in range(count):
            if number % 2:
                with contextlib.suppress(OSError), socket.create_connection(dealer.address, 20) as stranger:
                    stranger.sendall(changed(hello, rng) + rng.randbytes(rng.randrange(300)))
            else:
                session = rng.randbytes(16)
                channels = [dealer.channel(name, session) for name in NAMES]
                frames = b"".join(greeting(rng))
                for channel in channels:
                    with channel, contextlib.suppress(PeerFailure):
                        channel._link.transfer([changed(frames, rng)], Intake(iter(())), "attack")
            if number % 1000 == 999:
                assert both(dealer.network()) == [SQUARES] * 2, number
        assert both(dealer.network()) == [SQUARES] * 2
        assert not any("internal error" in line for line in dealer.lines)
