"""Checks of a host's answers: type, length and range. A failed check names the host and ends the training.

A host is trusted to follow the protocol, so these checks detect faults, not a host that lies with care: its sums and
its routes must agree with the guest's own totals, but are not compared with the host's columns.
"""

from __future__ import annotations

from typing import NoReturn, TypeGuard

import numpy as np

from mpc.errors import ProtocolDesync

MOST_COLUMNS = 1 << 20


def refuse(host: str, wanted: str, got: str) -> NoReturn:
    raise ProtocolDesync(f"{host} must answer with {wanted}, got {got}")


def description(host: str, answer: object, bins: int) -> tuple[int, int]:
    """Return a host's number of columns, and of buckets per column: the bins, and perhaps one for missing values."""
    if type(answer) is not tuple or [type(part) for part in answer] != [int, int]:
        refuse(host, "the numbers of its columns and buckets", _kind(answer))
    columns, buckets = answer
    if not 1 <= columns <= MOST_COLUMNS or buckets not in (bins, bins + 1):
        refuse(host, f"1 to {MOST_COLUMNS} columns of {bins} or {bins + 1} buckets", f"{columns} of {buckets}")
    return columns, buckets


def batches(host: str, answer: object, nodes: int) -> list[bytes]:
    """Return the ciphertexts of every node that the guest asked for."""
    if type(answer) is not list or any(type(part) is not bytes for part in answer) or len(answer) != nodes:
        refuse(host, f"the sums of {nodes} nodes", _kind(answer))
    return answer


def check_sums(host: str, sums: np.ndarray, totals: np.ndarray, noisy: bool) -> None:
    """Check that sums int64[v, c, buckets, 2] add up to totals int64[v, 2], and that no exact hessian is negative."""
    if (sums.sum(axis=2) != totals[:, None]).any() or (not noisy and (sums[..., 1] < 0).any()):
        refuse(host, "sums that add up to those of the rows of each node", "other sums")


def records(host: str, answer: object, first: int, count: int) -> np.ndarray:
    """Return the places of new splits: the next `count` from `first`, int64[count]."""
    wanted = np.arange(first, first + count)
    if not _is_array(answer, np.int64, count) or not np.array_equal(answer, wanted):
        refuse(host, f"the split records {first} to {first + count - 1}", _kind(answer))
    return wanted


def directions(host: str, answer: object, rows: int) -> np.ndarray:
    """Return one bit per row, bool[rows]; padding must be zero."""
    if not _is_array(answer, np.uint8, -(-rows // 8)) or np.unpackbits(answer)[rows:].any():
        refuse(host, f"one bit for each of {rows} rows", _kind(answer))
    return np.unpackbits(answer, count=rows).astype(bool)


def _is_array(value: object, dtype: type, length: int) -> TypeGuard[np.ndarray]:
    return type(value) is np.ndarray and value.dtype == dtype and value.shape == (length,)


def _kind(value: object) -> str:
    """Describe a value by type and length; for an array, its content may also be what is wrong."""
    if type(value) is np.ndarray:
        return f"an array {value.dtype}{list(value.shape)} of another length or content"
    length = f" of {len(value)}" if isinstance(value, (list, tuple, dict, str, bytes)) else ""
    return f"a value of type {type(value).__name__}{length}"
