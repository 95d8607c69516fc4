"""Owners of rows or columns who are no party: where a party meets them, and what an owner contributes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from mpc.errors import ConfigError, DataError, PeerTimeout, PeerVanished
from mpc.host.encryption import FileKey
from mpc.host.frames import pd
from protocols.runtime.hosts import parse_address
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import connect, listen
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import write_json
from secure_tree.owners.columns import features_by_owner, shapes
from secure_tree.owners.contributing import MOST_EDGE_BITS, Owners, contribute, upload
from secure_tree.owners.stored import Stored
from secure_tree.public.bounds import Consent
from secure_tree.public.config import TrainConfig, validated
from secure_tree.public.context import OwnerColumns, OwnerFacts
from secure_tree.public.names import indicator
from sharewood.job.config import HostsConfig
from sharewood.job.failures import told_plainly
from sharewood.job.secrets import Source, named
from sharewood.job.sections import Strict
from sharewood.sources.copies import copied
from sharewood.sources.reference import DataSource, TableSource
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import TableRows, read_table
from sharewood.tables.toml import read_toml

log = logging.getLogger("sharewood")
Given = Mapping[str, Channel] | Owners | Stored
# The session of an owner that only checks its connection.
ONLY_CHECKS = b"only a check ..."
# Seconds to wait for the last words of a party that has ended the session.
_LAST_SECONDS = 1.0


@contextmanager
def contributed(
    config: HostsConfig, name: str, key: FileKey | None, without: Collection[str] = ()
) -> Iterator[Given | None]:
    """Yield what owners contribute to a training: their files, or lines to those who wait for it. Raises as `met`."""
    folder = config.party(name).contributed
    if config.owners is None:
        if without:
            raise ConfigError("--without needs [owners] in the configuration")
        yield None
    elif folder is None:
        if without:
            raise ConfigError(f"--without needs parties.{name}.contributed, the folder that `sharewood collect` writes")
        if config.owners.least is not None:
            raise ConfigError(f"owners.least needs parties.{name}.contributed: `train` itself waits for all owners")
        vertical = TrainConfig.of(**config.train).partition == "vertical"
        with met(config, name) as lines:
            yield lines if vertical else Owners(lines, config.owners)
    else:
        stored = Stored(folder, key, without, bounds=config.owners)
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

    With `least`, those who do not come within `patience` are left out. If the block fails, the owners are told why.
    Raises PeerTimeout, which names who did not come.
    """
    assert config.owners is not None, "the caller has asked"
    config.owners.check_day()
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
                try:
                    channel = listener.accept(*sorted(missing), patience=left, timeout=config.timeout)
                except PeerTimeout:
                    if config.owners.least is None:
                        raise
                    log.warning("goes on without %s, who did not connect", ", ".join(sorted(missing)))
                    break
                if channel.session == ONLY_CHECKS:
                    channel.close()
                    continue
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
        owners = config.owners.model_copy(update={"names": tuple(wanted), "least": None, "until": None})
        with met(config.model_copy(update={"owners": owners}), name) as lines:
            yield lines


def shown(owner: OwnerFacts) -> dict[str, Any]:
    """Return the facts of a contribution for a report."""
    return {"owner": owner.name, "id": owner.id, "rows": owner.rows}


class OwnerSection(Strict):
    """The owner of this file: its name, and its files."""

    name: str
    """The name in the owner's certificate."""
    data: TableSource
    """The table to contribute: a file, or `{ data = ..., query = ... }`."""
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
    """What the owner consents to: `least_owners`, `until`, `reveal_to`, `explore`, and parameters of trainings; with
    any other value, nothing is contributed.
    """
    passphrase: Source | None = None
    """Passphrase of the owner's private key: `file:PATH` or `env:NAME`."""
    patience: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds to wait until the parties train."""
    timeout: float = Field(default=1800.0, gt=0, allow_inf_nan=False)
    """Seconds of silence after which a party is considered lost; longer than the parties wait for other owners."""

    @model_validator(mode="after")
    def _two_parties(self) -> OwnerConfig:
        if len(self.parties) != 2 or self.owner.name in self.parties:
            raise ValueError(f"parties must name two parties besides {self.owner.name}, got {', '.join(self.parties)}")
        Consent.divided(self.terms)
        for party in self.parties.values():
            parse_address(party.address)
        return self

    def credentials(self) -> Credentials:
        """Load the owner's keys from the folder `tls`. Raises ConfigError."""
        return Credentials.load(self.tls, self.owner.name, self.passphrase.read() if self.passphrase else None)

    @property
    def columns(self) -> Columns:
        own = self.owner
        label = own.label or ("label" if self.by_rows else None)
        return Columns.read(own.columns) if own.columns else Columns.inferred(label, own.weight)

    @property
    def by_rows(self) -> bool:
        return bool(self.terms.get("partition", "horizontal") == "horizontal")

    @property
    def consent(self) -> dict[str, Any]:
        """The terms, and the cuts that the schema file declares."""
        terms = self.columns.with_cuts(self.terms)
        return {"edges": "joint", **terms} if "cuts" in terms else terms

    @staticmethod
    def describes(path: Path) -> bool:
        """Return whether a file is that of an owner. Raises ConfigError."""
        return "owner" in read_toml(path)

    @classmethod
    def read(cls, path: Path, **sources: str | None) -> OwnerConfig:
        """Read and check a file, likewise to `HostsConfig.read`. Raises ConfigError."""
        try:
            config = validated(cls, read_toml(path))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        folder = path.absolute().parent
        placed: dict[str, Any] = {name: folder / value for name, value in config.owner if isinstance(value, Path)}
        if isinstance(config.owner.data, DataSource):
            placed["data"] = config.owner.data.below(folder)
        passphrase = config.passphrase.below(folder) if config.passphrase else None
        changes = {"tls": folder / config.tls, "owner": config.owner.model_copy(update=placed)}
        return config.model_copy(update={**changes, "passphrase": passphrase, **named(sources)})


@contextmanager
def _reasons(lines: Sequence[Channel]) -> Iterator[None]:
    """If a party ends the session while this owner sends, give the reason, which has not been read then."""
    try:
        yield
    except PeerVanished as failure:
        for line in lines if not failure.explained else ():
            line.timeout = _LAST_SECONDS
            told = line.last_words("the end")
            if isinstance(told, PeerVanished) and told.explained:
                raise told from None
        raise


def table_of(config: OwnerConfig) -> TableRows:
    """Read the owner's table. Raises ConfigError, DataError."""
    own = config.owner
    if isinstance(own.data, DataSource):
        own.data.check_ordered("owner.data")
    with copied({"data": own.data}) as files:
        rows = read_table(files["data"], config.columns, TrainConfig.of(missing="all").may_miss)
    if config.by_rows and rows.labels is None:
        raise DataError(f"{own.data}: an owner contributes labels: declare a column as label")
    return rows


def shown_upload(config: OwnerConfig) -> str:
    """Return what the owner contributes, and what it sends, if its terms have the parties' parameters."""
    rows = table_of(config)
    _, parameters = Consent.divided(config.consent)
    assumed = TrainConfig.of(**{"edges": "joint", "edge_bits": MOST_EDGE_BITS, **parameters})
    missing = {} if assumed.missing == "all" or not rows.missing else {"missing": rows.missing}
    assumed = assumed.model_copy(update=missing)
    names = list[str]()
    for name, kind in rows.features.dtypes.items():
        categories = kind.categories if isinstance(kind, pd.CategoricalDtype) else None
        names += [str(name)] if categories is None else [indicator(str(name), each) for each in categories]
    weight, labelled = None if rows.weights is None else 0, rows.labels is not None
    size = upload(assumed, len(rows.features), names, weight is not None)
    if not config.by_rows:
        owner = OwnerColumns("", "", len(rows.features), None, weight, tuple(names), labelled, False)
        size = sum(map(math.prod, shapes(assumed, owner).values())) // 8
    _, second = sorted(config.parties)
    return (
        f"{config.owner.data} has {len(rows.features)} rows and {len(names)} features: contributing sends "
        f"{size / 1e6:.1f} MB to {second}, once, with max_bin {assumed.max_bin} and edge_bits {assumed.edge_bits}"
    )


def contribution_of(config: OwnerConfig) -> dict[str, Any]:
    """Contribute the owner's table to both parties; return the receipt, and write it if a file is named.

    Raises ConfigError, DataError, PeerFailure.
    """
    own, rows = config.owner, table_of(config)
    if own.receipt:
        writable(own.receipt)
    credentials = config.credentials()
    until = time.monotonic() + config.patience
    with told_plainly(lambda: "rows were contributed"), ExitStack() as stack:
        lines = list[Channel]()
        for name, party in sorted(config.parties.items()):
            left = max(0.0, until - time.monotonic())
            line = connect(parse_address(party.address), credentials, name, patience=left, timeout=config.timeout)
            lines.append(stack.enter_context(line.explained()))
        stack.enter_context(_reasons(lines))
        given = rows.features, rows.labels, rows.weights
        receipt = {"owner": own.name, **contribute(lines, *given, config.consent, rows.ids)}
    if own.receipt:
        write_json(own.receipt, receipt)
    return receipt
