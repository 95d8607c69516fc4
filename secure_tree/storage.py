"""Files of facts and arrays: .npz, or JSON with arrays in base64. Written whole or not at all; nothing is evaluated."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from mpc.errors import DataError

Arrays = dict[str, np.ndarray]
_FORBIDDEN = "OVSU"


def to_document(facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Facts and arrays as one JSON object."""
    coded = {
        name: {
            "dtype": a.dtype.str,
            "shape": list(a.shape),
            "base64": base64.b64encode(np.ascontiguousarray(a).tobytes()).decode(),
        }
        for name, a in arrays.items()
    }
    return {"facts": facts, "arrays": coded}


def from_document(document: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Inverse of `to_document`. Raises KeyError, TypeError or ValueError for anything else."""
    arrays = {}
    for name, coded in document["arrays"].items():
        dtype = np.dtype(coded["dtype"])
        if dtype.kind in _FORBIDDEN:
            raise ValueError(f"array {name!r} is not numeric")
        data = np.frombuffer(base64.b64decode(coded["base64"], validate=True), dtype)
        arrays[name] = data.reshape(coded["shape"]).copy()
    return document["facts"], arrays


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """The name of a file that becomes `path` once it is written, and is gone if it cannot be. Raises DataError."""
    partial = path.with_name(path.name + ".partial")
    try:
        try:
            yield partial
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file, whole or not at all. Raises DataError."""
    with _whole(Path(path)) as partial:
        partial.write_bytes(data)


def write_json(path: str | Path, document: dict[str, Any]) -> None:
    """Write a JSON object, whole or not at all. Raises DataError."""
    write_bytes(path, (json.dumps(document, indent=2) + "\n").encode())


def read_json(path: str | Path, what: str) -> dict[str, Any]:
    """Read a JSON object; `what` says in the DataError what the file should have been."""
    try:
        document = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a {what} ({error})") from None
    if not isinstance(document, dict):
        raise DataError(f"{path}: not a {what} (no JSON object)")
    return document


def write_arrays(path: str | Path, facts: dict[str, Any], arrays: Arrays) -> None:
    """Write facts and arrays to `path`, whole or not at all: JSON if it ends in .json, else .npz. Raises DataError."""
    path = Path(path)
    if path.suffix == ".json":
        return write_json(path, to_document(facts, arrays))
    with _whole(path) as partial, open(partial, "wb") as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]


def read_arrays(path: str | Path, what: str) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_arrays` wrote. Raises DataError: `what` says what the file should have been."""
    if Path(path).suffix == ".json":
        document = read_json(path, what)
        try:
            return from_document(document)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a {what} ({error})") from None
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        return json.loads(str(stored.pop("facts"))), stored
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a {what} ({error})") from None
