"""Points of Curve25519 that stand for ids, and their masks, with libsodium through PyNaCl.

hashed   ids -> a point each of the subgroup of prime order: BLAKE2b, then Elligator 2, times the cofactor
masked   points, key -> each point times the key, by X25519

A point is its u-coordinate, 32 bytes, and has no sign. X25519 sets bits of the key so that it is 8 m with
2^251 <= m < 2^252; modulo the order of the subgroup these are, up to the sign and 2^-126 of them, all numbers but 0.
Coordinates that are on no point of the curve are on one of its twist, whose order is as good; masking ends in the
subgroup of prime order of either, or is refused.

Source   Bernstein, PKC 2006 (RFC 7748); Bernstein, Hamburg, Krasnova and Lange, CCS 2013 (RFC 9380, section 6.7)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from types import ModuleType

from mpc.errors import ConfigError
from mpc.host.extras import install

POINT = 32
_PRIME = 2**255 - 19
_COORDINATE = 2**255 - 1
_CHUNK = 4096


def hashed(ids: Sequence[bytes]) -> list[bytes]:
    """Return a point for each id."""
    return _in_threads(_hash_chunk, ids)


def masked(points: Sequence[bytes], key: bytes) -> list[bytes]:
    """Multiply points by a key of 32 bytes. Raises ValueError for a point whose order is at most 8."""
    multiply = sodium().crypto_scalarmult

    def mask(chunk: Sequence[bytes]) -> list[bytes]:
        return [multiply(key, point) for point in chunk]

    try:
        return _in_threads(mask, points)
    except RuntimeError:  # libsodium's answer
        raise ValueError("a point is of small order") from None


def read_points(joined: bytes) -> list[bytes]:
    """Split bytes into points. Raises ValueError if there are none, or one is not reduced or appears twice."""
    if not joined or len(joined) % POINT:
        raise ValueError(f"points have {POINT} bytes each, got {len(joined)} bytes")
    points = [joined[start : start + POINT] for start in range(0, len(joined), POINT)]
    if any(int.from_bytes(point, "little") >= _PRIME for point in points):
        raise ValueError("a point is not reduced")
    if len(set(points)) < len(points):
        raise ValueError("a point appears twice")
    return points


def sodium() -> ModuleType:
    """Import PyNaCl. Raises ConfigError if it is not installed."""
    try:
        from nacl import bindings
    except ImportError:
        needs = "private set intersection needs PyNaCl, which is not installed"
        raise ConfigError(f"{needs}: {install('align')}") from None
    return bindings


def _hash_chunk(ids: Sequence[bytes]) -> list[bytes]:
    """Return u = (1 + y) / (1 - y) of Edwards points y; one inverse serves all."""
    on_edwards = sodium().crypto_core_ed25519_from_uniform
    digests = (hashlib.blake2b(each, digest_size=POINT, person=b"sharewood ids").digest() for each in ids)
    ys = [int.from_bytes(on_edwards(digest), "little") & _COORDINATE for digest in digests]
    product, before = 1, []
    for y in ys:
        before.append(product)
        product = product * (1 - y) % _PRIME
    inverse, us = pow(product, -1, _PRIME), []
    for y, others in zip(reversed(ys), reversed(before), strict=True):
        us.append((1 + y) * others * inverse % _PRIME)
        inverse = inverse * (1 - y) % _PRIME
    return [u.to_bytes(POINT, "little") for u in reversed(us)]


def _in_threads(work: Callable[[Sequence[bytes]], list[bytes]], items: Sequence[bytes]) -> list[bytes]:
    """Work on chunks, one thread per processor: libsodium runs without Python's lock."""
    chunks = [items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(chain.from_iterable(pool.map(work, chunks)))
