"""The TOML file of a job between hosts: typed, checked, paths relative to the file. Examples in examples/two_hosts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mpc.errors import ConfigError
from protocols.runtime.hosts import Network, parse_address
from protocols.transport.certificates import Credentials
from secure_tree.config import TrainConfig, validated
from secure_tree.predict import Method
from sharewood.jobs import Output


class Strict(BaseModel):
    """Frozen, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Dealer(Strict):
    """Where the dealer listens."""

    address: str


class PartySection(Strict):
    """A party: its address, and in its own file what it brings and takes away."""

    address: str
    label: str = "label"
    train_data: Path | None = None
    model: Path | None = None
    checkpoints: Path | None = None
    predict_data: Path | None = None
    predictions: Path | None = None
    reveal_to: list[str] = []
    revealed: Path | None = None


class Predict(Strict):
    """How predictions are made; equal at both parties."""

    output: Output = "probability"
    method: Method = "thresholds"


class PlanShape(Strict):
    """Public sizes for `sharewood plan`, which reads no data."""

    rows: tuple[int, int]
    features: int = Field(ge=1)


class HostsConfig(Strict):
    """One job between two hosts and a dealer."""

    tls: Path
    dealer: Dealer
    parties: dict[str, PartySection]
    train: dict[str, Any] = {}
    predict: Predict = Predict()
    plan: PlanShape | None = None
    offline: Literal["dealer", "pairwise"] = "dealer"
    patience: float = Field(60.0, gt=0)
    timeout: float = Field(600.0, gt=0)

    @model_validator(mode="after")
    def _two_parties(self) -> HostsConfig:
        if len(self.parties) != 2 or "dealer" in self.parties:
            raise ValueError("parties names two parties, neither of them called dealer")
        return self

    @classmethod
    def read(cls, path: Path) -> HostsConfig:
        """Raises ConfigError with one sentence that names the file and what is wrong in it."""
        try:
            values = tomllib.loads(path.read_text())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not TOML ({error})") from None
        try:
            config = validated(cls, values)
            check_built(TrainConfig.of(**config.train))
            config.network  # noqa: B018  checks the addresses
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        if config.offline != "dealer":
            raise ConfigError(f"{path}: offline {config.offline} is not built yet: use dealer")
        return config.below(path.absolute().parent)

    def below(self, folder: Path) -> HostsConfig:
        """The same with every relative path taken from `folder`."""

        def placed(section: BaseModel) -> dict[str, Any]:
            return {name: folder / value for name, value in section if isinstance(value, Path)}

        parties = {name: party.model_copy(update=placed(party)) for name, party in self.parties.items()}
        return self.model_copy(update={"parties": parties, **placed(self)})

    @property
    def names(self) -> tuple[str, str]:
        """The parties by rank."""
        first, second = sorted(self.parties)
        return first, second

    @property
    def network(self) -> Network:
        """Who listens where."""
        meeting = parse_address(self.parties[self.names[0]].address)
        dealer = parse_address(self.dealer.address)
        return Network(self.names, meeting, dealer, "dealer", self.patience, self.timeout)

    @property
    def logistic(self) -> bool:
        return TrainConfig.of(**self.train).logistic

    def party(self, name: str) -> PartySection:
        """The section of a party. Raises ConfigError for a stranger."""
        if name not in self.parties:
            raise ConfigError(f"party {name!r} is not among the parties {', '.join(self.names)}")
        return self.parties[name]

    def needs(self, name: str, field: str) -> Path:
        """A path that a command cannot do without. Raises ConfigError."""
        path = getattr(self.party(name), field)
        if path is None:
            raise ConfigError(f"parties.{name}.{field} is needed for this, and not in the configuration")
        return path

    def credentials(self, name: str) -> Credentials:
        """The keys of a role, from the folder `tls`."""
        return Credentials.load(self.tls, name)


def check_built(config: TrainConfig) -> None:
    """Raises ConfigError for what is built in Python alone so far."""
    built = {"partition": "horizontal", "missing": "none", "num_class": None}
    for name, value in built.items():
        if getattr(config, name) != value:
            raise ConfigError(f"{name} {getattr(config, name)} is not built yet between hosts: use Python")
