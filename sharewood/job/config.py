"""The TOML file of a job between hosts, typed and checked; paths are relative to it. See examples/two_hosts."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator, model_validator

from mpc.errors import ConfigError
from mpc.host.encryption import FileKey
from mpc.host.files import same_file
from protocols.ot.correlated import OtKind
from protocols.runtime.hosts import Network, parse_address
from protocols.runtime.removed import refuse_removed
from protocols.runtime.settings import Maker, Offline, check_together, price_of
from protocols.runtime.workers.ray_cluster import MOST_SHARDS
from protocols.transport.certificates import Credentials, expires_soon, expiry
from secure_tree.explore.config import ExploreConfig
from secure_tree.monitor.config import MonitorConfig
from secure_tree.public.config import TrainConfig, validated
from sharewood.job.secrets import SecretSource, Source, named
from sharewood.job.sections import Dealer, LinkSection, Owners, PartySection, PlanShape, Predict, Serve, Strict
from sharewood.sources.reference import DataSource
from sharewood.tables.columns import Columns
from sharewood.tables.toml import read_toml

# The keys of a party's section that name what commands write.
WRITTEN = (
    *("aligned", "contributed", "screened", "ledger", "model", "checkpoints", "prepared", "predictions", "revealed"),
    *("profile", "served", "monitored"),
)


log = logging.getLogger("sharewood")


@cache
def _warn_of_expiry(path: Path, certificate: bytes) -> None:
    if expires_soon(certificate):
        log.warning("%s is valid until %s only: renew it", path, f"{expiry(certificate):%Y-%m-%d}")


class HostsConfig(Strict):
    """One job between two hosts, with a dealer, or without one by `offline = "pairwise"`."""

    tls: Path
    """Folder with this host's certificate, its private key and `authority.crt`."""
    dealer: Dealer | None = None
    link: LinkSection | None = None
    parties: dict[str, PartySection]
    owners: Owners | None = None
    train: dict[str, Any] = Field(default_factory=dict)
    """Parameters of training."""
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """Values of parameters that `sharewood grid` combines; the same at both parties."""
    explore: ExploreConfig | None = None
    monitor: MonitorConfig | None = None
    """What `sharewood monitor` reveals: `docs/monitoring.md`; the same at both parties."""
    predict: Predict = Predict()
    plan: PlanShape | None = None
    serve: Serve = Field(default_factory=Serve)
    offline: Maker = "dealer"
    """Who makes correlated randomness: a dealer, or the two parties."""
    ot: OtKind = "ferret"
    """Oblivious transfers without a dealer; `softspoken` sends more bytes and does not assume LPN."""
    audit: bool = False
    """Audit the computation, at both parties."""
    passphrase: Source | None = None
    """Passphrase of this host's private key: `file:PATH` or `env:NAME`."""
    files_key: Source | None = None
    """Key of this host's models, checkpoints and prepared material: `file:PATH` or `env:NAME`."""
    patience: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds to wait for another host to connect."""
    timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds of silence after which a host is considered lost."""
    shards: int = Field(default=0, ge=0, le=MOST_SHARDS)
    """Number of workers per party that the rows are divided among; 0: one process per party."""

    @field_validator("train")
    @classmethod
    def _trains(cls, given: dict[str, Any]) -> dict[str, Any]:
        try:
            TrainConfig.of(**given)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return given

    @model_validator(mode="before")
    @classmethod
    def _one_partition(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Explore what is trained on, and name a party by its name."""
        train, parties, given = (values.get(key) for key in ("train", "parties", "explore"))
        if not isinstance(given, dict):
            return values
        given = dict(given)
        if isinstance(train, dict) and "partition" in train:
            given.setdefault("partition", train["partition"])
        if isinstance(parties, dict) and given.get("to") in parties:
            given["to"] = sorted(parties).index(given["to"])
        return {**values, "explore": given}

    @model_validator(mode="after")
    def _two_parties(self) -> HostsConfig:
        if len(self.parties) != 2 or "dealer" in self.parties:
            raise ValueError(
                f"parties must name two parties, neither of them called dealer, got {', '.join(self.parties) or 'none'}"
            )
        if self.offline == "dealer" and self.dealer is None:
            raise ValueError('dealer.address must be set, or offline = "pairwise", which needs no dealer')
        for name, party in self.parties.items():
            prepared = f"parties.{name}.prepared" if party.prepared else ""
            check_together(self.how, self.shards, self.audit, prepared=prepared)
        check_together(self.how, 0, mac=self.predict.mac)
        if self.parties[self.names[0]].address is None:
            raise ValueError(f"parties.{self.names[0]}.address must be set: the first party by name listens there")
        if self.owners and (taken := {*self.parties, "dealer"} & {*self.owners.names}):
            raise ValueError(f"owners.names must not name a party or the dealer, got {', '.join(sorted(taken))}")
        if self.predict.to is not None and self.predict.to not in self.parties:
            raise ValueError(f"predict.to must name a party, {' or '.join(self.names)}, got {self.predict.to!r}")
        return self

    @classmethod
    def read(cls, path: Path, **sources: str | None) -> HostsConfig:
        """Read and check a file; `sources` of secrets that a command line names replace those of the file.

        Raises ConfigError with one sentence that names the file and the error in it.
        """
        values = read_toml(path)
        try:
            refuse_removed(values)
            config = validated(cls, values)
            config.network, config.serve.place  # noqa: B018  checks the addresses
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        placed = config.below(path.absolute().parent)
        for name, section in placed.parties.items():
            for key in WRITTEN:
                if (written := getattr(section, key)) and same_file(written, path):
                    raise ConfigError(f"{path}: parties.{name}.{key} must not be the configuration itself")
        return placed.model_copy(update=named(sources))

    def audited(self, audit: bool) -> HostsConfig:
        """Return the configuration, with an audit if the command line requests one. Raises ConfigError."""
        return validated(HostsConfig, {**dict(self), "audit": True}) if audit else self

    def with_macs(self, mac: bool) -> HostsConfig:
        """Return the configuration with MACs if the command line or the file requests them. Raises ConfigError."""
        predict = self.predict.model_copy(update={"mac": self.predict.mac or mac})
        check_together(self.how, self.shards, self.audit, predict.mac)
        return validated(HostsConfig, {**dict(self), "predict": dict(predict)})

    def with_reasons(self, count: int | None) -> HostsConfig:
        """Return the configuration with reasons if the command line or the file requests them. Raises ConfigError."""
        asked = (
            self
            if count is None
            else validated(HostsConfig, {**dict(self), "predict": {**dict(self.predict), "reasons": count}})
        )
        if asked.predict.reasons and asked.shards:
            raise ConfigError("reasons need one process at each party: leave out shards")
        return asked

    def below(self, folder: Path) -> HostsConfig:
        """Return the configuration with every relative path resolved against `folder`."""

        def placed(section: BaseModel) -> dict[str, Any]:
            paths = {name: folder / value for name, value in section if isinstance(value, Path)}
            moved = SecretSource | DataSource
            return paths | {name: value.below(folder) for name, value in section if isinstance(value, moved)}

        parties = {name: party.model_copy(update=placed(party)) for name, party in self.parties.items()}
        clients = {name: client.model_copy(update=placed(client)) for name, client in self.serve.clients.items()}
        serve = self.serve.model_copy(update={**placed(self.serve), "clients": clients})
        return self.model_copy(update={"parties": parties, "serve": serve, **placed(self)})

    @property
    def exploring(self) -> ExploreConfig:
        """Return the section explore, by default that of the partition to train on."""
        return self.explore or ExploreConfig.of(partition=TrainConfig.of(**self.train).partition)

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of the parties by rank."""
        first, second = sorted(self.parties)
        return first, second

    @property
    def how(self) -> Offline:
        """Return who makes correlated randomness, and how."""
        return Offline(self.offline, self.ot)

    @property
    def round_price(self) -> int:
        """What a round is worth on the link between the hosts."""
        return price_of(self.link.measured if self.link else None)

    @property
    def network(self) -> Network:
        """Return the addresses of all hosts, and how they connect."""
        meeting, *_ = [parse_address(p.address) for _, p in sorted(self.parties.items()) if p.address is not None]
        dealer = parse_address(self.dealer.address) if self.dealer else None
        return Network(
            self.names,
            meeting,
            dealer,
            patience=self.patience,
            timeout=self.timeout,
            offline=self.how,
            audit=self.audit,
            ledger=any(party.ledger for party in self.parties.values()),
            link=self.link.measured if self.link else None,
        )

    def on_cluster(self, name: str, shards: int | None, ray: str | None) -> HostsConfig:
        """Return the configuration with another number of shards or Ray address, if given. Raises ConfigError."""
        given: dict[str, Any] = {}
        if shards is not None:
            given["shards"] = shards
        if ray is not None:
            given["parties"] = {**self.parties, name: self.party(name).model_copy(update={"ray": ray})}
        if not given:
            return self
        changed = validated(HostsConfig, {**dict(self), **given})
        if ray is not None and not changed.shards:
            raise ConfigError("--ray must be used with shards: add --shards N, or leave out --ray")
        return changed

    def continuing(self, name: str, before: Path | None) -> HostsConfig:
        """Return the configuration with the model to continue that the command line names, if any."""
        if before is None:
            return self
        section = self.party(name).model_copy(update={"continue_from": before})
        return self.model_copy(update={"parties": {**self.parties, name: section}})

    def columns(self, name: str) -> Columns:
        """Return the columns of a party's tables; by rows, the label is the column `label` by default.

        A protected column is no feature, unless a schema file declares it as one.
        """
        party = self.party(name)
        if party.columns:
            found = Columns.read(party.columns)
        else:
            by_rows = TrainConfig.of(**self.train).partition == "horizontal"
            found = Columns.inferred(party.label or ("label" if by_rows else None), party.weight)
        return found.ignoring(party.protected) if party.protected else found

    def party(self, name: str) -> PartySection:
        """Return the section of a party. Raises ConfigError for any other name."""
        if name not in self.parties:
            raise ConfigError(f"party {name!r} is not one of the parties {', '.join(self.names)}")
        return self.parties[name]

    def needs(self, name: str, field: str) -> Path:
        """Return a path that the command requires. Raises ConfigError."""
        path = getattr(self.party(name), field)
        if path is None:
            other = self.names[self.names[0] == name]
            hint = f", and is set for {other}" if getattr(self.parties[other], field) else ""
            raise ConfigError(f"parties.{name}.{field} must be set in the configuration for this command{hint}")
        return path

    def table(self, name: str, field: str) -> Path | None:
        """Return the file of a table, if there is one, within work that `sharewood.job.files.bringing_tables` wraps."""
        path: Path | DataSource | None = getattr(self.party(name), field)
        assert not isinstance(path, DataSource), f"{field} has been copied"
        return path

    def credentials(self, name: str) -> Credentials:
        """Load the keys of a role from the folder `tls`; log a warning, once, if the certificate expires soon."""
        found = Credentials.load(self.tls, name, self.passphrase.read() if self.passphrase else None)
        _warn_of_expiry(self.tls / f"{name}.crt", found.certificate)
        return found

    def file_key(self) -> FileKey | None:
        """Return the key of this host's files, or None if they are not encrypted. Raises ConfigError."""
        return FileKey.parse(self.files_key.text(), str(self.files_key)) if self.files_key else None
