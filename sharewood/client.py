"""A client who is no party: it asks two services for predictions that nobody else sees. It needs numpy only.

    with Client("client.toml") as client:
        client.predict_proba(rows)

Each service gets a half of every row, and answers with a half of its margin (secure_tree/prediction/client.py). Both
halves of a request have a random id, by which the two services find each other's. A client is for one thread at a time.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import os
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.files import read_private
from secure_tree.prediction.client import ID_BYTES, Offer, Rows, checked_half, divide
from sharewood.tables.toml import read_toml

# Where services are reached without TLS.
_HERE = "127.0.0.1", "::1", "localhost"
_TIMEOUT, _LONGEST = 60.0, 86_400.0
# The status of a service to which the other half has not arrived, usually because the other service has refused it.
UNPAIRED = 504
_LARGEST_ANSWER = 1 << 28
_WORDS = "<u8"


class Client:
    """Both services of a TOML file: `[services.NAME]` with `address` and `token_file`; `tls`, a folder with
    authority.crt; `timeout`, in seconds, which the argument replaces. Raises ConfigError.
    """

    def __init__(self, config: str | Path, timeout: float | None = None) -> None:
        path = Path(config)
        given, folder = read_toml(path), path.absolute().parent
        seconds = timeout or given.get("timeout", _TIMEOUT)
        if not (isinstance(seconds, int | float) and 0 < seconds <= _LONGEST):
            raise ConfigError(f"{path}: timeout must be above 0 and at most {_LONGEST:g} s, got {seconds!r}")
        try:
            sections = sorted(given["services"].items())
            tls = folder / given["tls"] if "tls" in given else None
            self.services = [Service(name, one, folder, tls, seconds) for name, one in sections]
        except (AttributeError, KeyError, TypeError, ValueError):
            self.services = []
        if len(self.services) != 2:
            raise ConfigError(f"{path}: there must be two services, [services.NAME], each with an address host:port")
        self._pool = ThreadPoolExecutor(2, "sharewood client")
        self._offer: Offer | None = None

    def predict_proba(self, rows: Rows) -> np.ndarray:
        """Return probabilities of classes 0, 1, ..., float64[n, classes].

        Rows are an array [n, d] in the order of the model's features, or columns by name. Raises DataError for rows
        that do not fit the model, and PeerFailure if a service cannot answer.
        """
        margins = self.predict_margin(rows)
        return self.offer().probabilities(margins)

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the most probable classes, int64[n], or numbers, float64[n]. Rows and errors as of `predict_proba`."""
        margins = self.predict_margin(rows)
        return self.offer().predictions(margins)

    def predict_margin(self, rows: Rows) -> np.ndarray:
        """Return margins, float64[n] or [n, classes]. Rows and errors as of `predict_proba`."""
        offer = self.offer()
        keys = offer.keys(rows)
        pieces = [keys[start : start + offer.most] for start in range(0, len(keys), offer.most)] or [keys]
        return np.concatenate([self._margins(offer, piece) for piece in pieces])

    def offer(self) -> Offer:
        """Return what both services say about their model."""
        if self._offer is None:
            told = self._both("/v1/model", [None, None])
            self._offer = Offer.agreed(told, [service.name for service in self.services])
        return self._offer

    def _margins(self, offer: Offer, keys: np.ndarray) -> np.ndarray:
        shape = offer.classes, len(keys)
        if not len(keys):
            return offer.margins([np.zeros(shape, np.uint64)] * 2)
        id = os.urandom(ID_BYTES).hex()
        bodies = [{"id": id, "half": to_text(half)} for half in divide(keys)]
        answers = self._both("/v1/predict_half", bodies)
        if any(not isinstance(answer, dict) or answer.get("model") != offer.model for answer in answers):
            self._offer = None
            raise DataError("the services have a new model: ask again")
        given = zip(answers, self.services, strict=True)
        halves = [checked_half(to_words(answer.get("half"), len(keys)), shape, one.name) for answer, one in given]
        return offer.margins(halves)

    def _both(self, path: str, bodies: Sequence[dict[str, str] | None]) -> list[Any]:
        """Ask both services at the same time. Raises DataError, PeerFailure."""
        asked = [self._pool.submit(one.ask, path, body) for one, body in zip(self.services, bodies, strict=True)]
        errors = [error for one in asked if (error := one.exception()) is not None]
        if errors:
            self._offer = None  # they may have a new model
            raise min(errors, key=lambda error: isinstance(error, _Unpaired))
        return [one.result() for one in asked]

    def close(self) -> None:
        """Close the connections to both services."""
        self._pool.shutdown()
        for service in self.services:
            service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Unpaired(PeerFailure):
    """The other half of a request has not arrived at the other service."""


class Service:
    """One service: its name, which its certificate must have, its address, and a connection that is kept."""

    def __init__(self, name: str, section: dict[str, Any], folder: Path, tls: Path | None, timeout: float) -> None:
        self.name, self._timeout, self._line = name, timeout, None
        host, _, port = section["address"].rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._headers = {"Content-Type": "application/json"}
        if "token_file" in section:
            token = read_private(folder / section["token_file"], "token").decode("ascii").strip()
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            try:
                self._tls = ssl.create_default_context(cafile=str(tls / "authority.crt"))
            except OSError as error:  # among them those of TLS
                raise ConfigError(f"{tls / 'authority.crt'} cannot be used ({error})") from None
        elif self._host not in _HERE:
            raise ConfigError(f"services.{name} is not on this machine: set tls, since two halves make a row")

    _line: http.client.HTTPConnection | None

    def __str__(self) -> str:
        return f"{self.name} at {self._host}:{self._port}"

    def check(self) -> str:
        """Return in a sentence that the service predicts for this client. Raises DataError, PeerFailure."""
        self.ask("/v1/model", None)
        self.ask("/ready", None)
        holds = "its certificate holds, and it" if self._tls else "it"
        return f"{self} answers, {holds} predicts for this client"

    def ask(self, path: str, body: dict[str, str] | None) -> Any:
        """Return the service's answer. Raises DataError if it refuses, PeerFailure if it cannot answer now."""
        kept = self._line is not None
        try:
            status, text = self._once(path, body)
            said = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            self.close()
            if kept:  # services close connections that are idle
                return self.ask(path, body)
            why = " ".join(str(error).split()) or type(error).__name__
            raise PeerFailure(f"{self}: {why}") from None
        if status == 200:
            return said
        if status == 404:
            raise PeerFailure(f"{self} does not answer clients who are no party: [serve] needs halves = true there")
        detail = said.get("detail") if isinstance(said, dict) else None
        sentence = f"{self.name}: {detail if isinstance(detail, str) else f'status {status}'}"
        raise (_Unpaired if status == UNPAIRED else PeerFailure if status >= 500 else DataError)(sentence)

    def _once(self, path: str, body: dict[str, str] | None) -> tuple[int, bytes]:
        if self._line is None:
            self._line = _Line(self.name, self._tls, self._host, self._port, timeout=self._timeout)
        content = None if body is None else json.dumps(body)
        self._line.request("GET" if body is None else "POST", path, content, self._headers)
        answer = self._line.getresponse()
        return answer.status, answer.read(_LARGEST_ANSWER)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class _Line(http.client.HTTPConnection):
    """HTTP, or HTTPS to a service whose certificate has the name of the party, at whatever address."""

    def __init__(self, name: str, tls: ssl.SSLContext | None, host: str, port: int, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._name, self._tls = name, tls

    def connect(self) -> None:
        super().connect()
        if self._tls is not None:
            self.sock: socket.socket = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def to_text(words: np.ndarray) -> str:
    """Words -> text for JSON: base64 of 8 bytes each, the lowest first."""
    return base64.b64encode(words.astype(_WORDS).tobytes()).decode()


def to_words(text: Any, columns: int) -> np.ndarray | None:
    """Invert `to_text`: uint64[n, columns]; None if the text is nothing like it."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), _WORDS).astype(np.uint64).reshape(-1, columns)
    except (TypeError, ValueError, binascii.Error):
        return None
