"""Files of facts and arrays: .npz, or JSON with arrays in base64. Reading a file never executes code from it.

Every file contains the SHA-256 of the rest, which is checked before facts or arrays are parsed. With a key, the whole
file is encrypted (mpc/host/encryption.py), whatever its suffix.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from mpc.errors import DataError, SharewoodError
from mpc.host.encryption import FileKey, is_encrypted, opened
from mpc.host.files import open_regular, write_bytes

Arrays = dict[str, np.ndarray]
_FORBIDDEN = "OVSU"
_CHECKSUM = "sha256"
_DIGITS = 64
# How files begin.
_JSON, _ZIP = b"{", b"PK"


def to_document(facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Encode facts and arrays as one JSON object."""
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
    """Invert `to_document`. Raises KeyError, TypeError or ValueError for anything else."""
    arrays = {}
    for name, coded in document["arrays"].items():
        dtype = np.dtype(coded["dtype"])
        if dtype.kind in _FORBIDDEN:
            raise ValueError(f"array {name!r} is not numeric")
        data = np.frombuffer(base64.b64decode(coded["base64"], validate=True), dtype)
        arrays[name] = data.reshape(coded["shape"]).copy()
    return document["facts"], arrays


def unpack_bits(packed: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Invert np.packbits. Raises ValueError if the number of bytes does not fit the shape."""
    count = math.prod(shape.tolist())
    if packed.size != -(-count // 8):
        raise ValueError(f"{packed.size} bytes are not {count} bits")
    return np.unpackbits(packed, count=count).reshape(shape.tolist())


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Convert any exception of a parser to a DataError. `what` describes the expected file."""
    try:
        yield
    except SharewoodError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except KeyError as error:
        raise DataError(f"{path}: not a {what} (it has no entry {error})") from None
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not a {what} ({said})") from None


def write_json(path: str | Path, document: dict[str, Any]) -> None:
    """Write a JSON object atomically, in UTF-8 because XGBoost does not read escapes. Raises DataError."""
    write_bytes(path, _json(document))


def read_json(path: str | Path, what: str) -> dict[str, Any]:
    """Read a JSON object. Raises DataError."""
    with reading(path, what):
        return _object(_content(Path(path), _JSON))


def write_sealed_json(path: str | Path, document: dict[str, Any]) -> None:
    """Write a JSON object with a checksum. Raises DataError."""
    write_json(path, _sealed(document))


def read_sealed_json(path: str | Path, what: str) -> dict[str, Any]:
    """Read what `write_sealed_json` wrote, and remove the checksum. Raises DataError."""
    return _unsealed(read_json(path, what), path, what)


def to_npz(arrays: Arrays) -> bytes:
    """Encode arrays as numpy's .npz, without a checksum."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # an array might have the name of an option
    return file.getvalue()


def write_arrays(
    path: str | Path, facts: dict[str, Any], arrays: Arrays, key: FileKey | None = None, role: str = "file"
) -> None:
    """Write facts and arrays with a checksum: as JSON if `path` ends in .json, otherwise as .npz. Raises DataError.

    With a key, the file is encrypted, and can be read only as a file of the same `role`.
    """
    content = _json(_sealed(to_document(facts, arrays))) if Path(path).suffix == ".json" else _npz(facts, arrays)
    write_bytes(path, key.encrypt(content, role) if key else content)


def _npz(facts: dict[str, Any], arrays: Arrays) -> bytes:
    file = io.BytesIO(to_npz({"facts": np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays}))
    with ZipFile(file, "a") as archive:
        archive.comment = bytes(_DIGITS)
    content = file.getvalue()[:-_DIGITS]
    return content + _of_bytes(content)


def read_arrays(
    path: str | Path, what: str, key: FileKey | None = None, role: str = "file"
) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_arrays` wrote. Raises DataError. `what` describes the expected file."""
    with reading(path, what):
        json_file = Path(path).suffix == ".json"
        data = opened(_content(Path(path), _JSON if json_file else _ZIP), role, key, path)
        if json_file:
            return from_document(_unsealed(_object(data), path, what))
        if data[-_DIGITS:] != _of_bytes(data[:-_DIGITS]):
            raise _not_whole(path, what)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        return json.loads(stored.pop("facts").tobytes()), stored


def _content(path: Path, beginning: bytes) -> bytes:
    """Read a regular file whole if it begins as it must, or is encrypted. Raises OSError, ValueError."""
    with open_regular(path) as file:
        head = file.read(64)
        if not head.lstrip().startswith(beginning) and not is_encrypted(head):
            raise ValueError(f"it must begin with {beginning.decode()!r}, got {head[:8]!r}")
        return head + file.read()


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _object(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
    return document


def _sealed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, _CHECKSUM: _of_document(document)}


def _unsealed(document: dict[str, Any], path: str | Path, what: str) -> dict[str, Any]:
    if document.pop(_CHECKSUM, None) != _of_document(document):
        raise _not_whole(path, what)
    return document


def _of_document(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _of_bytes(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _not_whole(path: str | Path, what: str) -> DataError:
    return DataError(
        f"{path}: not a {what}: its checksum is wrong or missing, so the file is damaged, altered, of another kind, or "
        "from an older version of Sharewood without checksums"
    )
