"""Sources of secrets, "file:PATH" or "env:NAME" as in OpenSSL. A secret is never on a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from mpc.errors import ConfigError
from mpc.host.files import read_private


@dataclass(frozen=True)
class SecretSource:
    """A file that only its owner can read, or an environment variable. It does not contain the secret itself."""

    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"

    def below(self, folder: Path) -> SecretSource:
        """Return the source with a relative path resolved against `folder`."""
        return SecretSource(self.kind, str(folder / self.place)) if self.kind == "file" else self

    def read(self) -> bytes:
        """Read the secret, without the end of the line. Raises ConfigError, which does not repeat it."""
        if self.kind == "file":
            secret = read_private(Path(self.place), "file with a secret")
        elif (value := os.environ.get(self.place)) is not None:
            secret = os.fsencode(value)
        else:
            raise ConfigError(f"{self}: the environment has no variable {self.place}")
        secret = secret.rstrip(b"\r\n")
        if not secret:
            raise ConfigError(f"{self}: empty")
        return secret

    def text(self) -> str:
        """Read the secret as ASCII. Raises ConfigError."""
        try:
            return self.read().decode("ascii")
        except UnicodeDecodeError:
            raise ConfigError(f"{self}: must be ASCII") from None


def parse_source(text: object) -> SecretSource:
    """Parse a source. Raises ValueError, which does not repeat the text: it may be the secret itself."""
    if isinstance(text, SecretSource):
        return text
    kind, _, place = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind not in ("file", "env") or not place:
        raise ValueError("must be file:PATH or env:NAME, not the secret itself")
    return SecretSource(kind, place)


Source = Annotated[SecretSource, BeforeValidator(parse_source)]


def named(options: Mapping[str, str | None]) -> dict[str, SecretSource]:
    """Return the sources given on a command line, by name. Raises ConfigError."""
    try:
        return {name: parse_source(text) for name, text in options.items() if text is not None}
    except ValueError as error:
        raise ConfigError(f"a passphrase or key of files {error}") from None
