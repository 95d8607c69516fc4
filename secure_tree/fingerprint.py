"""A keyed digest of a party's rows, which adds up over its parts: the same however the rows are divided.

Functionality  a key, rows and their places -> four words; those of all parts add up modulo 2^64
How            the words of a row times random words, the upper half of the sum; times random words of its place, by
               AES-CTR under the key. Each is a universal hash (Dietzfelbinger, STACS 1996), and there are four
Error          for a random key, two tables of one shape agree with a probability below 2^-120
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpc.ring import U32, U64
from secure_tree.own_rows import OwnRows, Part
from secure_tree.public import digest
from secure_tree.schema import Table

KEY_BYTES = 16
_LANES, _BLOCK = 4, 16
# The random words of columns lie beyond those of all places.
_COLUMNS = 1 << 100
_ROWS = 1 << 15


def fingerprint(own: OwnRows, key: bytes) -> str:
    """Of the rows that a party trains on and of those that it holds out, in hexadecimal."""
    sums = np.sum(own.each(_words, key), axis=0, dtype=U64)
    held_out = _words(Part(own.validation), key)
    counts = own.count, len(own.validation.features), any(own.each(_labelled)), any(own.each(_weighted))
    return digest(list(own.names), list(counts), sums, held_out)


def _words(part: Part, key: bytes) -> np.ndarray:
    """uint64[4]."""
    total = np.zeros(_LANES, U64)
    for at, rows in _pieces(part.table):
        columns = _random(key, _COLUMNS, rows.shape[1])
        totals = (rows.astype(U64) @ columns) >> U64.type(32)
        total += (totals * _random(key, 2 * (part.first + at), len(rows))).sum(axis=0, dtype=U64)
    return total


def _pieces(table: Table) -> Iterator[tuple[int, np.ndarray]]:
    """Rows as uint32[m, words], some at a time, with their place."""
    numbers = [x for x in (table.labels, table.weights) if x is not None]
    for at in range(0, len(table.features), _ROWS):
        some = slice(at, at + _ROWS)
        features = np.ascontiguousarray(table.features[some]).view(U32)
        yield at, np.hstack([features, *(np.ascontiguousarray(x[some]).view(U32).reshape(-1, 2) for x in numbers)])


def _random(key: bytes, block: int, count: int) -> np.ndarray:
    """Words under the key from a block on, uint64[count, 4]."""
    stream = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(_BLOCK, "big"))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * _LANES * count)), U64).reshape(count, _LANES)


def _labelled(part: Part) -> bool:
    return part.table.labels is not None


def _weighted(part: Part) -> bool:
    return part.table.weights is not None
