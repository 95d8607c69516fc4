"""Owners of rows or columns who are no party: where a party meets them, and what an owner contributes."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from mpc.errors import ConfigError, DataError
from mpc.host.encryption import FileKey
from protocols.runtime.hosts import parse_address
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import connect, listen
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import write_json
from secure_tree.owners.columns import features_by_owner
from secure_tree.owners.contributing import contribute
from secure_tree.owners.stored import Stored
from secure_tree.public.config import TrainConfig, validated
from secure_tree.public.context import OwnerFacts
from sharewood.job.config import HostsConfig
from sharewood.job.secrets import Source, named
from sharewood.job.sections import Strict
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import read_table
from sharewood.tables.toml import read_toml

log = logging.getLogger("sharewood")


@contextmanager
def contributed(
    config: HostsConfig, name: str, key: FileKey | None, without: Collection[str] = ()
) -> Iterator[Mapping[str, Channel] | Stored]:
    """Yield what owners contribute to a training: their files, or lines to those who wait for it. Raises as `met`."""
    folder = config.party(name).contributed
    if config.owners is None:
        if without:
            raise ConfigError("--without needs [owners] in the configuration")
        yield {}
    elif folder is None:
        if without:
            raise ConfigError(f"--without needs parties.{name}.contributed, the folder that `sharewood collect` writes")
        with met(config, name) as lines:
            yield lines
    else:
        stored = Stored(folder, key, without)
        if others := sorted(stored.paths.keys() - {*config.owners.names}):
            raise ConfigError(
                f"{folder} has contributions of {', '.join(others)}, whom owners.names lacks: withdraw them, or leave "
                "them out by --without"
            )
        for owner in sorted({*config.owners.names} - stored.paths.keys() - {*without}):
            log.warning("%s has no contribution of %s, which is left out", folder, owner)
        yield stored


@contextmanager
def met(config: HostsConfig, name: str) -> Iterator[Mapping[str, Channel]]:
    """Wait until every owner that the configuration names has connected to party `name`; yield a line to each.

    If the block fails, the owners are told why. Raises PeerTimeout, which names who did not come.
    """
    assert config.owners is not None, "the caller has asked"
    address = config.party(name).owners_address
    if address is None:
        raise ConfigError(f"parties.{name}.owners_address must be set: owners connect there")
    missing, until = set(config.owners.names), time.monotonic() + config.owners.patience
    with ExitStack() as stack:
        with listen(parse_address(address), config.credentials(name)) as listener:
            log.info("waits for %s at %s", ", ".join(sorted(missing)), address)
            lines: dict[str, Channel] = {}
            while missing:
                left = max(0.0, until - time.monotonic())
                channel = listener.accept(*sorted(missing), patience=left, timeout=config.timeout)
                lines[channel.peer] = stack.enter_context(channel.explained())
                missing.discard(channel.peer)
                log.info("%s has connected", channel.peer)
        yield lines


@contextmanager
def met_to_predict(config: HostsConfig, name: str, model: SharedModel) -> Iterator[Mapping[str, Channel]]:
    """Wait likewise for the owners of the columns that a model has, if any. Raises as `met`, and ConfigError."""
    if not (wanted := features_by_owner(model)):
        yield {}
    elif config.owners is None:
        raise ConfigError(f"[owners] must be in the configuration: the model has columns of {', '.join(wanted)}")
    else:
        owners = config.owners.model_copy(update={"names": tuple(wanted)})
        with met(config.model_copy(update={"owners": owners}), name) as lines:
            yield lines


def shown(owner: OwnerFacts) -> dict[str, Any]:
    """Return the facts of a contribution for a report."""
    return {"owner": owner.name, "id": owner.id, "rows": owner.rows}


class OwnerSection(Strict):
    """The owner of this file: its name, and its files."""

    name: str
    """The name in the owner's certificate."""
    data: Path
    """The table to contribute."""
    columns: Path | None = None
    """Schema file: the type of each column."""
    label: str | None = None
    """Column of the labels, if no schema file declares it; by rows, `label` by default. By columns, only an owner with
    the labels names it.
    """
    weight: str | None = None
    """Column of the row weights, likewise."""
    receipt: Path | None = None
    """File for the receipt: the id of the contribution, its rows, and what each party says that it received."""


class OwnerParty(Strict):
    """A party, as an owner sees it."""

    address: str
    """Where the party waits for owners, as host:port."""


class OwnerConfig(Strict):
    """The file of an owner who is no party."""

    tls: Path
    """Folder with the owner's certificate, its private key and `authority.crt`."""
    owner: OwnerSection
    parties: dict[str, OwnerParty]
    terms: dict[str, Any] = Field(default_factory=dict)
    """Parameters of trainings to which the owner consents; with any other value, nothing is contributed."""
    passphrase: Source | None = None
    """Passphrase of the owner's private key: `file:PATH` or `env:NAME`."""
    patience: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds to wait until the parties train."""
    timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds of silence after which a party is considered lost."""

    @model_validator(mode="after")
    def _two_parties(self) -> OwnerConfig:
        if len(self.parties) != 2 or self.owner.name in self.parties:
            raise ValueError(f"parties must name two parties besides {self.owner.name}, got {', '.join(self.parties)}")
        TrainConfig.of(**self.terms)
        for party in self.parties.values():
            parse_address(party.address)
        return self

    @classmethod
    def read(cls, path: Path, **sources: str | None) -> OwnerConfig:
        """Read and check a file, likewise to `HostsConfig.read`. Raises ConfigError."""
        try:
            config = validated(cls, read_toml(path))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        folder = path.absolute().parent
        placed = {name: folder / value for name, value in config.owner if isinstance(value, Path)}
        passphrase = config.passphrase.below(folder) if config.passphrase else None
        changes = {"tls": folder / config.tls, "owner": config.owner.model_copy(update=placed)}
        return config.model_copy(update={**changes, "passphrase": passphrase, **named(sources)})


def contribution_of(config: OwnerConfig) -> dict[str, Any]:
    """Contribute the owner's table to both parties; return the receipt, and write it if a file is named.

    Raises ConfigError, DataError, PeerFailure.
    """
    own = config.owner
    by_rows = TrainConfig.of(**config.terms).partition == "horizontal"
    label = own.label or ("label" if by_rows else None)
    columns = Columns.read(own.columns) if own.columns else Columns.inferred(label, own.weight)
    rows = read_table(own.data, columns, TrainConfig.of(missing="all").may_miss)
    if by_rows and rows.labels is None:
        raise DataError(f"{own.data}: an owner contributes labels: declare a column as label")
    if own.receipt:
        writable(own.receipt)
    credentials = Credentials.load(config.tls, own.name, config.passphrase.read() if config.passphrase else None)
    until = time.monotonic() + config.patience
    with ExitStack() as stack:
        lines = []
        for name, party in sorted(config.parties.items()):
            left = max(0.0, until - time.monotonic())
            line = connect(parse_address(party.address), credentials, name, patience=left, timeout=config.timeout)
            lines.append(stack.enter_context(line.explained()))
        given = rows.features, rows.labels, rows.weights
        receipt = {"owner": own.name, **contribute(lines, *given, config.terms, rows.ids)}
    if own.receipt:
        write_json(own.receipt, receipt)
    return receipt
