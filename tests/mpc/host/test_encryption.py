"""Encrypted files: their content is restored exactly, and any other file is refused."""

import random

import pytest

from mpc.errors import ConfigError, DataError
from mpc.host.encryption import FileKey, is_encrypted, opened

KEY = FileKey.parse("ab" * 32 + "\n", "file:files.key")
OTHER = FileKey.parse("ba" * 32, "env:OTHER")
CHUNK = 64 << 10


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_content_comes_back(size):
    data = random.Random(size).randbytes(size)
    first, second = KEY.encrypt(data, "a role"), KEY.encrypt(data, "a role")
    assert is_encrypted(first) and first != second
    assert [opened(e, "a role", KEY, "f") for e in (first, second)] == [data] * 2


@pytest.mark.parametrize("size", [0, 5, CHUNK, 2 * CHUNK + 9])
def test_every_change_is_refused(size):
    rng = random.Random(size)
    encrypted = KEY.encrypt(rng.randbytes(size), "role")
    header = len(encrypted) - size - 16 * (size // CHUNK + 1)
    places = {*range(header + 20), *(rng.randrange(len(encrypted)) for _ in range(60)), len(encrypted) - 1}
    for place in sorted(p for p in places if p < len(encrypted)):
        changed = bytearray(encrypted)
        changed[place] ^= 1 << rng.randrange(8)
        with pytest.raises(DataError, match=r"^f: "):
            opened(bytes(changed), "role", KEY, "f")
    whole = CHUNK + 16
    cuts = {len(encrypted) - 1, header, header + 15, *(header + whole * n for n in range(size // CHUNK + 1))}
    for cut in (c for c in cuts if c < len(encrypted)):
        with pytest.raises(DataError, match=r"^f: "):
            opened(encrypted[:cut], "role", KEY, "f")
    with pytest.raises(DataError, match=r"cut short"):
        opened(encrypted + b"x", "role", KEY, "f")


def test_chunks_keep_their_order_and_their_file():
    one, two = (KEY.encrypt(bytes([n]) * 3 * CHUNK, "role") for n in (1, 2))
    start, whole = len(one) - 3 * (CHUNK + 16) - 16, CHUNK + 16
    chunks = [one[start + n * whole : start + (n + 1) * whole] for n in range(4)]
    swapped = one[:start] + chunks[1] + chunks[0] + chunks[2] + chunks[3]
    mixed = one[:start] + two[start:]
    for altered in (swapped, mixed, one[:start] + b"".join(chunks[:3])):
        with pytest.raises(DataError, match=r"cannot be decrypted with the key of file:files.key"):
            opened(altered, "role", KEY, "f")


def test_sentences():
    encrypted = KEY.encrypt(b"content", "checkpoint")
    with pytest.raises(DataError, match=r"^f: encrypted as checkpoint, must be half of a model$"):
        opened(encrypted, "half of a model", KEY, "f")
    with pytest.raises(
        DataError, match=r"^f: cannot be decrypted with the key of env:OTHER: encrypted under another key"
    ):
        opened(encrypted, "checkpoint", OTHER, "f")
    with pytest.raises(DataError, match=r"^f: encrypted, but no key is set: set files_key"):
        opened(encrypted, "checkpoint", None, "f")
    with pytest.raises(DataError, match=r"^f: not encrypted, although file:files.key is set"):
        opened(b"content", "checkpoint", KEY, "f")
    assert opened(b"content", "checkpoint", None, "f") == b"content"


@pytest.mark.parametrize("text", ["", "ab" * 31, "ab" * 33, "zz" * 32, "a secret that must not be repeated"])
def test_a_key_is_64_digits_and_is_never_repeated(text):
    with pytest.raises(
        ConfigError, match=rf"^env:K must have 64 hexadecimal digits, got a text of {len(text)} characters"
    ) as raised:
        FileKey.parse(text, "env:K")
    assert not text or text not in str(raised.value)
    assert "ab" * 32 not in repr(KEY)
