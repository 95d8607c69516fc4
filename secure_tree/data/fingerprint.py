"""A keyed digest of a party's rows. It is additive over parts, so it does not depend on how the rows are divided.

Functionality  a key, rows and their positions -> four words; the words of all parts add up modulo 2^64
How            four universal hashes (Dietzfelbinger, STACS 1996). Each takes the inner product of a row's words with
               random words, and multiplies its upper half by a random word for the row's position. AES-CTR under the
               key makes the random words
Error          for a random key, two different tables of the same shape collide with probability below 2^-120
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpc.words import U32, U64
from secure_tree.data.own_rows import OwnRows, Part
from secure_tree.data.table import Table
from secure_tree.public.exact import digest

KEY_BYTES = 16
_LANES, _BLOCK = 4, 16
# The random words of columns come after those of all positions.
_COLUMNS = 1 << 100
_ROWS = 1 << 15


def fingerprint(own: OwnRows, key: bytes) -> str:
    """Return the digest of a party's training rows and held-out rows, in hexadecimal."""
    sums = np.sum(own.each(_words, key), axis=0, dtype=U64)
    held_out = _words(Part(own.validation), key)
    counts = own.count, len(own.validation.features), any(own.each(_labelled)), any(own.each(_weighted))
    return digest(list(own.names), list(counts), sums, held_out)


def _words(part: Part, key: bytes) -> np.ndarray:
    """Return the four words of a part, uint64[4]."""
    total = np.zeros(_LANES, U64)
    for at, rows in _pieces(part.table):
        columns = _random(key, _COLUMNS, rows.shape[1])
        totals = (rows.astype(U64) @ columns) >> U64.type(32)
        total += (totals * _random(key, 2 * (part.first + at), len(rows))).sum(axis=0, dtype=U64)
    return total


def _pieces(table: Table) -> Iterator[tuple[int, np.ndarray]]:
    """Yield batches of rows as uint32[m, words], each with its position in the table."""
    offsets = () if table.offsets is None else table.offsets
    numbers = [x for x in (table.labels, table.weights, *offsets) if x is not None]
    for at in range(0, len(table.features), _ROWS):
        some = slice(at, at + _ROWS)
        features = np.ascontiguousarray(table.features[some]).view(U32)
        yield at, np.hstack([features, *(np.ascontiguousarray(x[some]).view(U32).reshape(-1, 2) for x in numbers)])


def _random(key: bytes, block: int, count: int) -> np.ndarray:
    """Return pseudorandom words under the key, starting at a block, uint64[count, 4]."""
    stream = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(_BLOCK, "big"))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * _LANES * count)), U64).reshape(count, _LANES)


def _labelled(part: Part) -> bool:
    return part.table.labels is not None


def _weighted(part: Part) -> bool:
    return part.table.weights is not None
