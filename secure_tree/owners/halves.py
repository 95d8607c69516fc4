"""Halves of an owner's values: party 0 gets a seed, party 1 the values minus what the seed expands to.

Each half by itself is uniform: a seed is random, and the other half is a one-time pad. A seed is used for one array.
Source: pseudorandom secret sharing by AES-256 in counter mode.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpc.errors import ProtocolDesync
from mpc.words import U8, Shape

SEED_BYTES = 32


def divide(values: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words of an unsigned dtype -> the messages to party 0 and party 1."""
    seed = os.urandom(SEED_BYTES)
    return {"seed": seed}, {"data": (values - _words(seed, values.shape, values.dtype)).reshape(-1).view(U8)}


def divide_bits(bits: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """0 and 1, uint8 -> the messages to party 0 and party 1, eight bits per byte."""
    seed, packed = os.urandom(SEED_BYTES), np.packbits(bits)
    return {"seed": seed}, {"data": packed ^ _bytes(seed, packed.size)}


def half(rank: int, message: Any, shape: Shape, dtype: Any, sender: str) -> np.ndarray:
    """Return a party's half of words. Raises ProtocolDesync, which names the sender."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    part = _checked(rank, message, size, sender)
    return _words(part, shape, dtype) if rank == 0 else part.view(dtype).reshape(shape)


def half_of_bits(rank: int, message: Any, shape: Shape, sender: str) -> np.ndarray:
    """Return a party's half of bits, uint8. Raises ProtocolDesync likewise."""
    count = math.prod(shape)
    return np.unpackbits(packed_half(rank, message, count, sender), count=count).reshape(shape)


def packed_half(rank: int, message: Any, count: int, sender: str) -> np.ndarray:
    """Return a party's half of `count` bits, eight per byte. Raises ProtocolDesync likewise."""
    part = _checked(rank, message, -(-count // 8), sender)
    return _bytes(part, -(-count // 8)) if rank == 0 else part


def _checked(rank: int, message: Any, size: int, sender: str) -> Any:
    name = "data" if rank else "seed"
    part = message.get(name) if isinstance(message, dict) and message.keys() == {name} else None
    if rank == 0 and isinstance(part, bytes) and len(part) == SEED_BYTES:
        return part
    if rank == 1 and isinstance(part, np.ndarray) and part.dtype == U8 and part.shape == (size,):
        return part
    raise ProtocolDesync(f"{sender}: a half must be {f'{size} bytes' if rank else f'a seed of {SEED_BYTES} bytes'}")


def _words(seed: bytes, shape: Shape, dtype: Any) -> np.ndarray:
    return _bytes(seed, math.prod(shape) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)


def _bytes(seed: bytes, size: int) -> np.ndarray:
    stream = Cipher(algorithms.AES256(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(size)), U8)
