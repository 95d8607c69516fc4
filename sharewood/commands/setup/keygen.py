"""Make keys and certificates for mutual TLS: NAME.key and NAME.crt for every name, and one authority.crt.

Give each host its own key and certificate, and authority.crt. Without --authority, the authority's key is not kept.

Example: sharewood keygen --out keys --names party_a party_b dealer --days 365
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mpc.errors import ConfigError
from protocols.transport.certificates import Authority, make_credentials
from sharewood.logs import say


def keygen(
    out: Annotated[Path, typer.Option(help="New folder for keys and certificates.")],
    names: Annotated[str, typer.Option(help="First name; the others follow it.")],
    more: Annotated[list[str] | None, typer.Argument(help="Further names.", show_default=False)] = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long the certificates are valid.")] = 365,
    authority: Annotated[
        Path | None,
        typer.Option(help="Folder of the signing authority, created if missing; keep it to renew certificates later."),
    ] = None,
) -> None:
    everybody = [names, *(more or [])]
    for name in everybody:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise ConfigError(f"a name must consist of letters, digits, dots, dashes and underscores, got {name!r}")
    if len(set(everybody)) < len(everybody):
        raise ConfigError("names must be distinct, got a duplicate")
    if (out / "authority.crt").exists():
        raise ConfigError(f"{out} already has certificates: choose another folder")
    kept = Authority.kept(authority) if authority else None
    for name, credentials in make_credentials(everybody, days, kept).items():
        credentials.save(out, name)
    say(f"{out}: keys and certificates for {', '.join(everybody)}, valid for {days} days")
