"""The TOML file of a job between hosts: typed, checked, paths relative to the file. Examples in examples/two_hosts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mpc.encryption import FileKey
from mpc.errors import ConfigError
from protocols.ot.correlated import OtKind
from protocols.runtime.hosts import Network, Offline, parse_address
from protocols.runtime.loopback import is_loopback
from protocols.runtime.ray_cluster import MOST_SHARDS
from protocols.transport.certificates import Credentials
from protocols.transport.tcp import Address
from secure_tree.config import Method, TrainConfig, validated
from sharewood.columns import Columns
from sharewood.jobs import Output
from sharewood.secret_sources import SecretSource, Source
from sharewood.toml import read_toml

_LEAST_TOKEN = 16


class Strict(BaseModel):
    """Frozen, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Dealer(Strict):
    """Where the dealer listens, and the GB that one session may take there (None: half of the machine's memory)."""

    address: str
    memory: float | None = Field(None, gt=0, allow_inf_nan=False)

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else int(self.memory * 1e9)


class PartySection(Strict):
    """A party: where it listens, if it is the first by name, and in its own file what it brings and takes away.

    By columns, the party that names a label has the labels. A schema file `columns` names label and weight itself.
    """

    address: str | None = None
    ray: str | None = None
    columns: Path | None = None
    label: str | None = None
    weight: str | None = None
    align_data: Path | None = None
    aligned: Path | None = None
    train_data: Path | None = None
    test_data: Path | None = None
    model: Path | None = None
    checkpoints: Path | None = None
    prepared: Path | None = None
    predict_data: Path | None = None
    predictions: Path | None = None
    reveal_to: list[str] = []
    revealed: Path | None = None

    @model_validator(mode="after")
    def _named_once(self) -> PartySection:
        if self.columns and (self.label or self.weight):
            raise ValueError(
                "label and weight must be named only in the schema file `columns`, got them in this section as well"
            )
        return self


class Predict(Strict):
    """How predictions are made, and, by columns, who learns them; equal at both parties.

    `mac`: check all that is opened by MACs.
    """

    output: Output = "probability"
    method: Method = "thresholds"
    to: str | None = None
    mac: bool = False

    @model_validator(mode="after")
    def _by_thresholds(self) -> Predict:
        if self.mac and self.method != "thresholds":
            raise ValueError(f'with mac the method must be "thresholds", got {self.method!r}')
        return self


class Serve(Strict):
    """How `sharewood serve` answers this party's clients: each host has its own, but for `largest_batch` and `ahead`.

    `address`: where it listens for HTTP, with TLS if it has a `certificate` and its `key`. `token_file` holds a token
    that clients name; the environment variable SHAREWOOD_TOKEN does as well. A batch has at most `largest_batch` rows,
    a power of two. `ahead`: MB of correlated randomness that is kept ready. A request has at most `request_rows` rows
    and `request_mb` MB, at most `queue_rows` rows wait, and none longer than `answer_within` seconds.
    """

    address: str = "127.0.0.1:8080"
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    largest_batch: int = Field(default=1024, ge=1, le=1 << 16)
    ahead: float = Field(default=256.0, ge=0, le=1e6, allow_inf_nan=False)
    request_rows: int = Field(default=10_000, ge=1)
    request_mb: float = Field(default=16.0, gt=0, le=1e4, allow_inf_nan=False)
    queue_rows: int = Field(default=50_000, ge=1)
    answer_within: float = Field(default=30.0, gt=0, le=86_400, allow_inf_nan=False)

    @model_validator(mode="after")
    def _consistent(self) -> Serve:
        if self.largest_batch & (self.largest_batch - 1):
            raise ValueError(f"largest_batch must be a power of two, got {self.largest_batch}")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key must be set together, got only one")
        if self.queue_rows < self.request_rows:
            raise ValueError(f"queue_rows must be at least request_rows, {self.request_rows}, got {self.queue_rows}")
        return self

    @property
    def place(self) -> Address:
        """Where it listens. Raises ConfigError."""
        return parse_address(self.address)

    @property
    def ahead_bytes(self) -> int:
        return int(self.ahead * 1e6)

    @property
    def request_bytes(self) -> int:
        return int(self.request_mb * 1e6)

    def token(self) -> str | None:
        """The token that clients name, if any. Raises ConfigError where other hosts could ask without one."""
        token = os.environ.get("SHAREWOOD_TOKEN", "").strip()
        if self.token_file:
            try:
                token = self.token_file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"serve.token_file: {self.token_file} cannot be read ({error})") from None
        if (token or self.token_file) and len(token) < _LEAST_TOKEN:
            raise ConfigError(f"the token of serve must have at least {_LEAST_TOKEN} characters, got {len(token)}")
        if not token and not is_loopback(self.place[0]):
            raise ConfigError(
                f"serve.address must be on loopback, such as 127.0.0.1:8080, where clients name no token, got "
                f"{self.address}: set serve.token_file or SHAREWOOD_TOKEN"
            )
        return token or None


Features = Annotated[int, Field(ge=1, le=100_000)] | Annotated[tuple[str, ...], Field(min_length=1)]
Rows = Annotated[int, Field(ge=1, le=1_000_000_000)]
HeldRows = Annotated[int, Field(ge=0, le=1_000_000_000)]


class PlanShape(Strict):
    """Public sizes for `sharewood plan` and `sharewood prepare`, which read no data.

    `features`: a number, or names, of which indicators have a = in them; of both parties alike, or of each. A schema
    file gives those of its party, and by rows of both.
    """

    rows: tuple[Rows, Rows]
    features: tuple[Features, Features] | None = None
    test_rows: tuple[HeldRows, HeldRows] | None = None
    largest_weight: float | None = Field(None, gt=0)

    @field_validator("features", mode="before")
    @classmethod
    def _of_each(cls, given: Any) -> Any:
        each = isinstance(given, list) and not all(isinstance(part, str) for part in given)
        return given if each else (given, given)


def _check_generator(offline: Offline, check_dealer: bool) -> None:
    """Raises ConfigError for the check of a dealer where there is none."""
    if check_dealer and offline != "dealer":
        raise ConfigError('check_dealer needs a dealer: with offline = "pairwise" use audit')


class HostsConfig(Strict):
    """One job between two hosts, with a dealer or, `offline = "pairwise"`, without one.

    `passphrase` of this host's private key; `files_key`: of its models, checkpoints and prepared material.
    """

    tls: Path
    dealer: Dealer | None = None
    parties: dict[str, PartySection]
    train: dict[str, Any] = {}
    predict: Predict = Predict()
    plan: PlanShape | None = None
    serve: Serve = Field(default_factory=Serve)
    offline: Offline = "dealer"
    ot: OtKind = "ferret"
    audit: bool = False
    check_dealer: bool = False
    passphrase: Source | None = None
    files_key: Source | None = None
    patience: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    shards: int = Field(default=0, ge=0, le=MOST_SHARDS)

    @model_validator(mode="after")
    def _two_parties(self) -> HostsConfig:
        if len(self.parties) != 2 or "dealer" in self.parties:
            raise ValueError(
                f"parties must name two parties, neither of them called dealer, got {', '.join(self.parties) or 'none'}"
            )
        if self.offline == "dealer" and self.dealer is None:
            raise ValueError('dealer.address must be set, or offline = "pairwise", which needs no dealer')
        _check_generator(self.offline, self.check_dealer)
        for name, party in self.parties.items():
            if party.prepared and self.offline == "dealer":
                raise ValueError(
                    f'parties.{name}.prepared must be used with offline = "pairwise": with a dealer, leave it out'
                )
            if party.prepared and self.shards:
                raise ValueError(
                    f"parties.{name}.prepared must be used with one process at each party: leave out shards"
                )
        if self.checked and self.shards:
            raise ValueError("an audit must be used with one process at each party: leave out shards")
        if self.predict.mac and self.offline != "dealer":
            raise ValueError('predict.mac needs a dealer: offline must be "dealer", got "pairwise"')
        if self.parties[self.names[0]].address is None:
            raise ValueError(f"parties.{self.names[0]}.address must be set: the first party by name listens there")
        if self.predict.to is not None and self.predict.to not in self.parties:
            raise ValueError(f"predict.to must name a party, {' or '.join(self.names)}, got {self.predict.to!r}")
        return self

    @classmethod
    def read(cls, path: Path) -> HostsConfig:
        """Raises ConfigError with one sentence that names the file and what is wrong in it."""
        values = read_toml(path)
        try:
            config = validated(cls, values)
            TrainConfig.of(**config.train)
            config.network, config.serve.place  # noqa: B018  checks the addresses
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        return config.below(path.absolute().parent)

    @property
    def checked(self) -> bool:
        """Whether the parties audit: what is computed, and with it what a dealer deals."""
        return self.audit or self.check_dealer

    def audited(self, audit: bool, check_dealer: bool) -> HostsConfig:
        """The same with what the command line asks for, too. Raises ConfigError."""
        _check_generator(self.offline, check_dealer)
        more = {"audit": self.audit or audit, "check_dealer": self.check_dealer or check_dealer}
        return self.model_copy(update=more)

    def with_macs(self, mac: bool) -> HostsConfig:
        """The same with MACs where the command line, or the file, asks for them; checked. Raises ConfigError."""
        predict = self.predict.model_copy(update={"mac": self.predict.mac or mac})
        if predict.mac and self.checked:
            raise ConfigError("a prediction must use mac or audit, not both")
        if predict.mac and self.shards:
            raise ConfigError("predict.mac must be used with one process at each party: leave out shards")
        return validated(HostsConfig, {**dict(self), "predict": dict(predict)})

    def below(self, folder: Path) -> HostsConfig:
        """The same with every relative path taken from `folder`."""

        def placed(section: BaseModel) -> dict[str, Any]:
            paths = {name: folder / value for name, value in section if isinstance(value, Path)}
            return paths | {name: value.below(folder) for name, value in section if isinstance(value, SecretSource)}

        parties = {name: party.model_copy(update=placed(party)) for name, party in self.parties.items()}
        serve = self.serve.model_copy(update=placed(self.serve))
        return self.model_copy(update={"parties": parties, "serve": serve, **placed(self)})

    @property
    def names(self) -> tuple[str, str]:
        """The parties by rank."""
        first, second = sorted(self.parties)
        return first, second

    @property
    def network(self) -> Network:
        """Who listens where."""
        meeting, *_ = [parse_address(p.address) for _, p in sorted(self.parties.items()) if p.address is not None]
        dealer = parse_address(self.dealer.address) if self.dealer else None
        return Network(
            self.names,
            meeting,
            dealer,
            patience=self.patience,
            timeout=self.timeout,
            offline=self.offline,
            ot=self.ot,
            audit=self.checked,
            check_dealer=self.check_dealer,
        )

    def on_cluster(self, name: str, shards: int | None, ray: str | None) -> HostsConfig:
        """The same with another number of shards, or another Ray of a party, where given. Raises ConfigError."""
        given: dict[str, Any] = {}
        if shards is not None:
            given["shards"] = shards
        if ray is not None:
            given["parties"] = {**self.parties, name: self.party(name).model_copy(update={"ray": ray})}
        if not given:
            return self
        return validated(HostsConfig, {**dict(self), **given})

    def columns(self, name: str) -> Columns:
        """What the columns of a party's tables are; by rows its label is called `label` by default."""
        party = self.party(name)
        if party.columns:
            return Columns.read(party.columns)
        by_rows = TrainConfig.of(**self.train).partition == "horizontal"
        return Columns.inferred(party.label or ("label" if by_rows else None), party.weight)

    def party(self, name: str) -> PartySection:
        """The section of a party. Raises ConfigError for a stranger."""
        if name not in self.parties:
            raise ConfigError(f"party {name!r} is not one of the parties {', '.join(self.names)}")
        return self.parties[name]

    def needs(self, name: str, field: str) -> Path:
        """A path that a command cannot do without. Raises ConfigError."""
        path = getattr(self.party(name), field)
        if path is None:
            raise ConfigError(f"parties.{name}.{field} must be set in the configuration for this command")
        return path

    def credentials(self, name: str) -> Credentials:
        """The keys of a role, from the folder `tls`."""
        return Credentials.load(self.tls, name, self.passphrase.read() if self.passphrase else None)

    def file_key(self) -> FileKey | None:
        """The key of this host's files, None where they are not encrypted. Raises ConfigError."""
        return FileKey.parse(self.files_key.text(), str(self.files_key)) if self.files_key else None
