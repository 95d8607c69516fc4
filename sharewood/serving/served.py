"""Rows that a service has answered, kept at the party that learns their margins, for `sharewood monitor --served`.

A folder has a file for each day, by UTC, and a file a line for each batch: ids, margins and this party's own features,
encrypted if the host's files are. Damage to a line is noticed; that lines are missing is not.
"""

from __future__ import annotations

import base64
import json
import os
import re
from binascii import Error
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict

from mpc.errors import ConfigError, DataError
from mpc.host.encryption import FileKey
from mpc.host.files import file_errors, make_folder, open_regular
from mpc.host.ledger import canonical, hash_of
from secure_tree.model.shared_model import SharedModel
from secure_tree.monitor.scores import monitored_model
from secure_tree.public.config import validated
from secure_tree.public.numerics import MARGIN_SCALE

_DAY = re.compile(r"\d{4}-\d\d-\d\d\.served")
_ROLE = "served rows"


class _Line(BaseModel):
    """A batch. margins: in units of 2^-MARGIN_SCALE; features: base64 of float32[ids, d]."""

    model_config = ConfigDict(strict=True)

    model: str
    ids: list[str]
    margins: list[int]
    features: str


@dataclass(frozen=True)
class ServedRows:
    """Rows by id, each with its last answer: margins int64[n] at MARGIN_SCALE, own features float32[n, d]."""

    ids: list[str]
    margins: np.ndarray
    features: np.ndarray


def keeper(model: SharedModel, to: int | None, rank: int) -> bool:
    """Return whether this party learns margins of rows, and can keep them."""
    receiver = model.facts.label_holder if to is None else to
    return not model.facts.layout.vertical or receiver == rank


def is_served(path: Path) -> bool:
    """Return whether a file is named as a day of served rows."""
    return bool(_DAY.fullmatch(path.name))


class Served:
    """A party's folder of the rows of one model, which can be monitored. Raises ConfigError, DataError."""

    def __init__(self, folder: Path, model: SharedModel, key: FileKey | None) -> None:
        self._folder, self._model, self._key = folder, monitored_model(model), key
        make_folder(folder)

    def keep(self, ids: Sequence[str], margins: np.ndarray, features: np.ndarray) -> None:
        """Append a batch to the file of this day. Raises DataError."""
        line = _Line(
            model=self._model.facts.pairing,
            ids=list(ids),
            margins=np.rint(margins * (1 << MARGIN_SCALE)).astype(np.int64).tolist(),
            features=base64.b64encode(features.astype("<f4").tobytes()).decode(),
        )
        path = self._folder / f"{datetime.now(UTC):%Y-%m-%d}.served"
        with file_errors(), open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            _cut(file)
            file.write(self._sealed(canonical(line.model_dump())) + b"\n")

    def read(self, since: date | None = None, until: date | None = None) -> ServedRows:
        """Read the rows that this model was asked for on the days from `since` to `until`. Raises DataError."""
        width = len(self._model.facts.names[self._model.facts.layout.features_of(self._model.rank)])
        places: dict[str, int] = {}
        margins, features, count = [np.zeros(0, np.int64)], [np.zeros((0, width), np.float32)], 0
        for place, line in self._lines(since, until):
            if line.model != self._model.facts.pairing:
                continue
            own = np.frombuffer(base64.b64decode(line.features), "<f4")
            if len(line.margins) != len(line.ids) or own.size != width * len(line.ids):
                raise DataError(f"{place}: must have a margin and {width} features for each id")
            # A later answer takes the place of an earlier one.
            places |= {one: count + k for k, one in enumerate(line.ids)}
            margins.append(np.array(line.margins, np.int64))
            features.append(own.reshape(-1, width))
            count += len(line.ids)
        last = np.array(list(places.values()), np.int64)
        return ServedRows(list(places), np.concatenate(margins)[last], np.concatenate(features)[last])

    def _lines(self, since: date | None, until: date | None) -> Iterator[tuple[str, _Line]]:
        for path in sorted(each for each in self._folder.iterdir() if is_served(each)):
            day = date.fromisoformat(path.stem)
            if (since and day < since) or (until and day > until):
                continue
            with file_errors(), open_regular(path) as file:
                for number, text in enumerate(file, 1):
                    # A line without an end was being written when the service was killed, or is being written now.
                    if text.endswith(b"\n"):
                        place = f"{path}, line {number}"
                        yield place, self._opened(text[:-1], place)

    def _sealed(self, text: str) -> bytes:
        if self._key is None:
            return f"{hash_of(text)[:32]} {text}".encode()
        return base64.b64encode(self._key.encrypt(text.encode(), _ROLE))

    def _opened(self, line: bytes, place: str) -> _Line:
        if (self._key is None) != (b" " in line):
            state = "encrypted, but no key is set" if self._key is None else "not encrypted, although a key is set"
            raise DataError(f"{place}: {state} for this host's files")
        damaged = DataError(f"{place}: this line was altered")
        try:
            if self._key is None:
                sum, text = line.decode().split(" ", 1)
                if sum != hash_of(text)[:32]:
                    raise damaged
            else:
                sealed = base64.b64decode(line, validate=True)
                if base64.b64encode(sealed) != bytes(line):  # other bits of padding mean the same
                    raise damaged
                text = self._key.decrypt(sealed, _ROLE, place).decode()
            return validated(_Line, json.loads(text))
        except (ValueError, Error, ConfigError):
            raise damaged from None


def _cut(file: BinaryIO) -> None:
    """Go to the end of a file, without an incomplete last line, whose writer was killed."""
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
