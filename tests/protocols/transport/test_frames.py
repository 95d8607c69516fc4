import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.errors import PeerVanished, ProtocolDesync
from protocols.transport.frames import DATA_LIMIT, HEADER, MAGIC, VERSION, Kind, head, read_head

TAG = "beaver.multiply uint64[2,128]"


def read(data, tag=TAG, sequence=0, limit=DATA_LIMIT):
    """Return what the reader of a frame's head returns for `data`; None if it waits for more."""
    reader = read_head(Kind.ARRAYS, tag, sequence, limit, "party_b")
    stream = memoryview(data)
    try:
        while True:
            target = next(reader)
            if len(stream) < len(target):
                return None
            target[:], stream = stream[: len(target)], stream[len(target) :]
    except StopIteration as done:
        return done.value


def test_the_header_is_pinned():
    assert head(Kind.TREE, "ab", 3, 2**33).hex() == (
        "53485257" + "0400" + "01" + "02" + "0300000000000000" + "0000000002000000" + "6162"
    )


@given(st.text(max_size=60), st.integers(0, 2**64 - 1), st.integers(0, DATA_LIMIT))
def test_reading_inverts_writing(tag, sequence, length):
    assert read(head(Kind.ARRAYS, tag, sequence, length), tag, sequence) == length


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", "magic: expected b'SHRW', got b'GET '"),
        (HEADER.pack(MAGIC, VERSION + 1, 0, 0, 0, 0), "protocol version: expected 4, got 5"),
        (head(Kind.ARRAYS, "reveal uint64[128]", 0, 8), f"expected {TAG}, got reveal uint64[128]"),
        (head(Kind.ARRAYS, "\x1b[2J", 0, 8), rf"expected {TAG}, got '\x1b[2J'"),
        (HEADER.pack(MAGIC, VERSION, 0, 1, 0, 0) + b"\xff", rf"expected {TAG}, got \xff"),
        (HEADER.pack(MAGIC, VERSION, 0, 0, 0, 0), f"expected {TAG}, got "),
        (head(Kind.ARRAYS, TAG, 5, 8), f"{TAG}: frame number: expected 0, got 5"),
        (head(Kind.TREE, TAG, 0, 8), f"{TAG}: payload kind: expected 0, got 1"),
        (
            head(Kind.ARRAYS, TAG, 0, DATA_LIMIT + 1),
            f"{TAG}: payload of {DATA_LIMIT + 1} bytes announced, at most {DATA_LIMIT} allowed",
        ),
    ],
)
def test_an_unexpected_frame_is_refused(data, message):
    with pytest.raises(ProtocolDesync) as caught:
        read(data)
    assert str(caught.value) == message


def test_the_last_frame_says_why():
    with pytest.raises(PeerVanished, match=r"^party_b ended the session: its disk is full$"):
        read(head(Kind.END, "its disk is full", 7, 0))


@given(st.binary(min_size=HEADER.size, max_size=400))
def test_random_bytes_are_refused(data):
    with pytest.raises(ProtocolDesync):
        read(data)


@given(st.integers(0, 8 * (HEADER.size + len(TAG)) - 1))
def test_a_flipped_bit_is_refused_or_another_length(bit):
    data = bytearray(head(Kind.ARRAYS, TAG, 0, 1000))
    data[bit // 8] ^= 1 << bit % 8
    try:
        length = read(data)
    except (ProtocolDesync, PeerVanished):  # one flipped bit makes the kind that of a frame that ends the session
        return
    assert length is None or length != 1000


def test_a_tag_too_long_is_not_sent():
    with pytest.raises(ValueError, match="256 bytes, at most 255"):
        head(Kind.ARRAYS, "é" * 128, 0, 0)
