"""Check this host before a job: files, schema, certificate, clock, port, and connections to the other hosts.

For a client who is no party: its tokens, both services, the model that they have, and a table.

The exit status is 0, or 2 if this host is at fault, or 3 if only another host is.

Example: sharewood check --config party_a.toml --party party_a
"""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mpc.errors import ConfigError, PeerFailure, PeerTimeout, SharewoodError
from protocols.runtime.hosts import parse_address
from protocols.transport.certificates import Credentials, expires_soon, expiry, subject_names
from protocols.transport.tcp import Address, address_text, connect, listen
from protocols.transport.tls import NO_SESSION, why_refused
from sharewood.client import Client
from sharewood.commands.options import Config
from sharewood.job.config import HostsConfig
from sharewood.job.files import own_half, own_ray, rows_to_predict, training_tables, with_tables
from sharewood.job.owners import ONLY_CHECKS, OwnerConfig, shown_upload
from sharewood.logs import in_json, say, say_document
from sharewood.serving.asking import ClientConfig
from sharewood.tables.files import writable

# What the host that is checked is told.
CHECKED = "it only checked this host"
_OUTPUTS = "aligned", "model", "predictions", "revealed"


@dataclass(frozen=True)
class Finding:
    """The result of one check: passed, an error, or passed with a `warning` that needs attention."""

    what: str
    text: str
    error: SharewoodError | None = None
    warning: bool = False


def check(
    config: Config,
    party: Annotated[
        str | None,
        typer.Option(
            help="This host's role: one of the parties, or dealer; none for the file of an owner or a client."
        ),
    ] = None,
    rows: Annotated[Path | None, typer.Option(help="Table that a client wants predicted.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait for each other host.")] = 5.0,
) -> None:
    status = 0
    if rows and not ClientConfig.describes(config):
        raise ConfigError(f"--rows needs the file of a client, which {config} is not")
    if ClientConfig.describes(config):
        found = of_client(config, rows, seconds)
    elif OwnerConfig.describes(config):
        found = of_owner(OwnerConfig.read(config), seconds)
    elif party is None:
        raise ConfigError("--party must be set: this host's role, one of the parties or dealer")
    else:
        found = findings(HostsConfig.read(config), party, seconds)
    for finding in found:
        mark = "error" if finding.error else "warning" if finding.warning else "ok"
        if in_json():
            say_document({"check": finding.what, "outcome": mark, "text": finding.text})
        else:
            say(f"{mark:8}{finding.what}: {finding.text}")
        if finding.error:
            status = min(filter(None, (status, finding.error.exit_status)))
    raise typer.Exit(status)


def findings(config: HostsConfig, name: str, seconds: float) -> Iterator[Finding]:
    """Check what a host of the role `name` needs, and yield the findings; wait at most `seconds` per host."""
    if name != "dealer":
        config.party(name)
    yield from _certificate(config.tls, name, lambda: config.credentials(name))
    if name != "dealer":
        yield from _files(config, name)
    network = config.network
    listening = {config.names[0]: network.meeting, "dealer": network.dealer}
    if own := listening.get(name):
        yield _found("port", lambda: _can_listen(config, name, own))
    if name == config.names[1]:
        first = config.names[0]
        yield _found(first, lambda: _reached(config.credentials(name), first, network.meeting, seconds))
    dealer = network.dealer
    if name != "dealer" and dealer and config.offline == "dealer":
        yield _found("dealer", lambda: _reached(config.credentials(name), "dealer", dealer, seconds))


def of_owner(config: OwnerConfig, seconds: float) -> Iterator[Finding]:
    """Check what an owner who is no party needs; a party that waits for owners goes on waiting."""
    yield from _certificate(config.tls, config.owner.name, config.credentials)
    yield _found("data", lambda: shown_upload(config))
    if receipt := config.owner.receipt:
        yield _found("receipt", partial(_can_be_written, receipt))
    for name, party in sorted(config.parties.items()):
        address = parse_address(party.address)

        def reached(name: str = name, address: Address = address) -> str:
            return _reached(config.credentials(), name, address, seconds, ONLY_CHECKS)

        yield _found(name, reached)


def of_client(path: Path, rows: Path | None, seconds: float) -> Iterator[Finding]:
    """Check what a client who is no party needs, without rows or predictions being sent."""
    config = ClientConfig.read(path)
    try:
        client = Client(path, seconds)
    except ConfigError as error:  # among them those of tokens
        yield Finding("client", str(error), error)
        return
    with client:
        if config.tls:
            authority = config.tls / "authority.crt"
            text = f"{authority}, which signed the services' certificates, is valid until "
            certificate = authority.read_bytes()
            yield Finding("authority", f"{text}{expiry(certificate):%Y-%m-%d}", warning=expires_soon(certificate))
        answers = [_found(service.name, service.check) for service in client.services]
        yield from answers
        if any(finding.error for finding in answers):
            return
        model = _found("model", lambda: f"both serve {client.offer().model}, with {len(client.offer().names)} features")
        yield model
        if rows and not model.error:
            yield _found("rows", lambda: f"{rows} has {len(config.table(rows, client.offer()).features)} rows that fit")


def _found(what: str, work: Callable[[], str]) -> Finding:
    try:
        return Finding(what, work())
    except SharewoodError as error:
        return Finding(what, str(error), error)


def _certificate(tls: Path, name: str, load: Callable[[], Credentials]) -> Iterator[Finding]:
    try:
        credentials = load()
        _handshake_with_itself(credentials, name)
    except ConfigError as error:
        yield Finding("certificate", str(error), error)
        return
    now, until = dt.datetime.now(dt.UTC), expiry(credentials.certificate)
    text = f"{tls / name}.crt is for {name}, signed by authority.crt, valid until {until:%Y-%m-%d}"
    yield Finding("certificate", text, warning=expires_soon(credentials.certificate))
    yield Finding("clock", f"{now:%Y-%m-%d %H:%M} UTC, within the certificate's dates")


def _handshake_with_itself(credentials: Credentials, name: str) -> None:
    """Run a TLS handshake with this certificate in memory. Raises ConfigError if other hosts would refuse it."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = credentials.context(server=False).wrap_bio(to_client, to_server)
    server = credentials.context(server=True).wrap_bio(to_server, to_client, server_side=True)
    try:
        for end in (client, server, client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLError as error:
        raise ConfigError(
            f"the certificate of {name} does not hold against authority.crt: {why_refused(error)}"
        ) from None
    names = subject_names(server.getpeercert(binary_form=True) or b"")
    if name not in names:
        raise ConfigError(
            f"the certificate must name {name} in its subjectAltName, got {', '.join(names) or 'no name'}"
        )


def _files(config: HostsConfig, name: str) -> Iterator[Finding]:
    party = config.party(name)
    if party.train_data:
        yield _found("train_data", lambda: _training(config, name))
    if party.predict_data and party.model and party.model.exists():
        yield _found("predict_data", lambda: _prediction(config, name))
    for output in _OUTPUTS:
        if path := getattr(party, output):
            yield _found(output, partial(_can_be_written, path))


def _training(config: HostsConfig, name: str) -> str:
    with own_ray(config, name), with_tables(config, name, "train_data", "test_data") as here:
        _, rows, validation = training_tables(here, name)
    held = f", and {len(validation.features)} rows for validation" if validation else ""
    counts = f"{len(rows.features)} rows, {rows.columns} feature columns{held}"
    return f"{config.party(name).train_data} has {counts}"


def _prediction(config: HostsConfig, name: str) -> str:
    with own_ray(config, name), with_tables(config, name, "predict_data") as here:
        rows = rows_to_predict(here, name, own_half(config, name))
    return f"{config.party(name).predict_data} has {len(rows.features)} rows with the features of the model"


def _can_be_written(path: Path) -> str:
    writable(path)
    return f"{path} can be written"


def _can_listen(config: HostsConfig, name: str, address: Address) -> str:
    with listen(address, config.credentials(name)):
        return f"this host can listen at {address_text(address)}"


def _reached(credentials: Credentials, peer: str, address: Address, seconds: float, session: bytes = NO_SESSION) -> str:
    """Open a TLS connection and close it at once; a host that refuses the port is up, but has not started yet."""
    where = f"{peer} at {address_text(address)}"
    try:
        with connect(address, credentials, peer, patience=seconds, once=True, session=session) as channel:
            channel.end(CHECKED)
            return f"{where} listens, and its certificate holds"
    except PeerTimeout as failure:
        if isinstance(failure.__cause__, ConnectionRefusedError):
            return f"the host of {where} answers, and nothing listens there yet"
        if isinstance(failure.__cause__, OSError):
            reason = failure.__cause__.strerror or failure.__cause__
            raise PeerFailure(f"{where} cannot be reached within {seconds:g} s: {reason}") from None
        raise
