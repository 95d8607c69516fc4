"""What the guest takes from a host: values of one type, length and range. Anything else names the host and ends it all.

A host is trusted to follow the protocol, so these checks hold against faults, not against a host that lies with
care: its sums and its routes need to agree with the guest's own totals, not with the host's columns.
"""

from __future__ import annotations

from typing import NoReturn, TypeGuard

import numpy as np

from mpc.errors import ProtocolDesync

MOST_COLUMNS = 1 << 20


def refuse(host: str, wanted: str, got: str) -> NoReturn:
    raise ProtocolDesync(f"{host} must answer with {wanted}, got {got}")


def description(host: str, answer: object, bins: int) -> tuple[int, int]:
    """Columns of a host, and buckets per column: one for each bin, and perhaps one more for missing values."""
    if type(answer) is not tuple or [type(part) for part in answer] != [int, int]:
        refuse(host, "the numbers of its columns and buckets", _kind(answer))
    columns, buckets = answer
    if not 1 <= columns <= MOST_COLUMNS or buckets not in (bins, bins + 1):
        refuse(host, f"1 to {MOST_COLUMNS} columns of {bins} or {bins + 1} buckets", f"{columns} of {buckets}")
    return columns, buckets


def batches(host: str, answer: object, nodes: int) -> list[bytes]:
    """Ciphertexts of every node that the guest asked for."""
    if type(answer) is not list or any(type(part) is not bytes for part in answer) or len(answer) != nodes:
        refuse(host, f"the sums of {nodes} nodes", _kind(answer))
    return answer


def check_sums(host: str, sums: np.ndarray, totals: np.ndarray, noisy: bool) -> None:
    """sums int64[v, c, buckets, 2] must add up to the totals int64[v, 2] of v nodes; no exact hessian is negative."""
    if (sums.sum(axis=2) != totals[:, None]).any() or (not noisy and (sums[..., 1] < 0).any()):
        refuse(host, "sums that add up to those of the rows of each node", "others")


def records(host: str, answer: object, first: int, count: int) -> np.ndarray:
    """The places of new splits: the next `count` from `first`, int64[count]."""
    wanted = np.arange(first, first + count)
    if not _is_array(answer, np.int64, count) or not np.array_equal(answer, wanted):
        refuse(host, f"the split records {first} to {first + count - 1}", _kind(answer))
    return wanted


def directions(host: str, answer: object, rows: int) -> np.ndarray:
    """One bit per row, and no other: bool[rows]."""
    if not _is_array(answer, np.uint8, -(-rows // 8)) or np.unpackbits(answer)[rows:].any():
        refuse(host, f"one bit for each of {rows} rows", _kind(answer))
    return np.unpackbits(answer, count=rows).astype(bool)


def _is_array(value: object, dtype: type, length: int) -> TypeGuard[np.ndarray]:
    return type(value) is np.ndarray and value.dtype == dtype and value.shape == (length,)


def _kind(value: object) -> str:
    """Type and length; of an array also that its content may be what is wrong."""
    if type(value) is np.ndarray:
        return f"an array {value.dtype}{list(value.shape)} of another length or content"
    length = f" of {len(value)}" if isinstance(value, (list, tuple, dict, str, bytes)) else ""
    return f"a value of type {type(value).__name__}{length}"
