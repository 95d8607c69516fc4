"""The sections of a job's TOML file: the meaning and range of each key. `sharewood.job.config` reads them.

The docstring below a key is its description in the configuration reference.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mpc.comparison.ranks import MOST_RANKS
from mpc.errors import ConfigError
from mpc.host.files import read_private
from protocols.runtime.hosts import parse_address
from protocols.runtime.loopback import is_loopback
from protocols.runtime.settings import Link
from protocols.transport.tcp import Address
from secure_tree.functions.links import Output
from secure_tree.public.bounds import Bounds
from secure_tree.public.config import Method, check_method
from sharewood.sources.reference import TableSource

_LEAST_TOKEN = 16
_TOKEN = "the token must be printable ASCII: letters, digits, punctuation"
# The name of clients that share a token, or send none.
SHARED = "shared"


class Strict(BaseModel):
    """A frozen section in which unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Dealer(Strict):
    """The dealer. Omit this section with `offline = "pairwise"`."""

    address: str
    """Where the dealer listens, as host:port."""
    memory: float | None = Field(None, gt=0, allow_inf_nan=False)
    """GB that one session may use at the dealer; by default half of the machine's memory."""

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else int(self.memory * 1e9)


class LinkSection(Strict):
    """The link between the hosts, by which protocols choose between rounds and bytes. The same at both parties."""

    round_trip: float = Field(ge=0, allow_inf_nan=False)
    """Milliseconds from one host to the other and back."""
    rate: float = Field(gt=0, allow_inf_nan=False)
    """Mbit/s in each direction."""

    @property
    def measured(self) -> Link:
        """Return the link in seconds, and bits per second."""
        return Link(self.round_trip / 1e3, self.rate * 1e6)


class Owners(Bounds):
    """Owners of rows who are no party: `train` waits for what they contribute. The same at both parties."""

    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """The names in their certificates."""
    patience: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds that the owners may take to connect."""

    @model_validator(mode="after")
    def _distinct(self) -> Owners:
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"owners.names must be distinct, got {', '.join(self.names)}")
        if self.least is not None and self.least > len(self.names):
            raise ValueError(f"owners.least must be at most the number of names, {len(self.names)}, got {self.least}")
        return self


Port = Annotated[int, Field(ge=1, le=65535)]


class PartySection(Strict):
    """A party: its address, if it is the first by name, and, in its own configuration, its files.

    By columns, the party that names a label has the labels. If `columns` names a schema file, it declares label and
    weight.
    """

    address: str | None = None
    """Where this party listens, as host:port; required only for the first party by name."""
    ray: str | None = None
    """Address of this party's own Ray cluster; by default, Ray is started on this machine."""
    ray_without_token: bool = False
    """Whether that cluster may be one without token authentication: whoever reaches it can run code in it."""
    worker_ports: tuple[Port, Port] | None = None
    """The first and the last port at which workers listen, at the first party by name; by default any free ports."""
    columns: Path | None = None
    """Schema file: the type of each column."""
    label: str | None = None
    """Column of the labels; by rows, `label` by default. By columns, only the party with the labels sets it."""
    weight: str | None = None
    """Column of the row weights."""
    align_data: TableSource | None = None
    """Table that `sharewood align` joins with the other party's table: a file, or `{ data = ..., query = ... }`, as all
    tables that a party brings.
    """
    align_on: tuple[str, ...] = ()
    """Columns that `sharewood align` joins on, in place of the id: as many at both parties, in the same order."""
    aligned: Path | None = None
    """Table that `sharewood align` writes: the rows whose ids both parties have."""
    train_data: TableSource | None = None
    """Table to train on."""
    screened: Path | None = None
    """File of the features that `sharewood explore` names, for `sharewood train --screened`."""
    ledger: Path | None = None
    """This party's ledger: what labels have told, and a record of each run; both parties keep one, or neither."""
    profile: Path | None = None
    """This party's half of the profile: written by `sharewood monitor --make-profile`, read by `sharewood monitor`."""
    protected: str | None = None
    """Column of `predict_data` whose values are the groups of `sharewood monitor`; by columns at one
    party. It is no feature, unless a schema file declares it as one.
    """
    served: Path | None = None
    """Folder in which `sharewood serve` keeps the rows that it has answered, for `sharewood monitor --served`."""
    monitored: Path | None = None
    """File of the statistics that `sharewood monitor` writes as JSON, with a page beside it."""
    owners_address: str | None = None
    """Where this party waits for the owners of `[owners]`, as host:port."""
    contributed: Path | None = None
    """Folder of the owners' contributions, which `collect` writes; without it, `train` waits for the owners."""
    minimum_rows: int = Field(default=1, ge=1)
    """Fewest rows that the other party must train on; with fewer, `train` is refused at both parties."""
    test_data: TableSource | None = None
    """Table of rows for validation, instead of `test_size`."""
    model: Path | None = None
    """This party's half of the model, `.npz` or `.json`: written by `train`, read by `predict`."""
    continue_from: Path | None = None
    """This party's half of an earlier model, to which `train` adds `n_estimators` rounds of trees, on any rows."""
    checkpoints: Path | None = None
    """Folder for the checkpoints that `train --resume` continues from."""
    prepared: Path | None = None
    """Correlated randomness that `sharewood prepare` writes and `train` uses once, without a dealer."""
    predict_data: TableSource | None = None
    """Table of the rows to predict."""
    predictions: Path | None = None
    """Table of predictions that `predict` writes."""
    reveal_to: list[str] = []
    """Parties that may see the model by `sharewood reveal`; both configurations must list them."""
    revealed: Path | None = None
    """File for the model, if it is revealed to this party."""

    @field_validator("worker_ports")
    @classmethod
    def _ascending(cls, given: tuple[int, int] | None) -> tuple[int, int] | None:
        if given and given[0] > given[1]:
            raise ValueError(f"must be the first and the last port, in this order, got {list(given)}")
        return given

    @model_validator(mode="after")
    def _named_once(self) -> PartySection:
        if self.columns and (self.label or self.weight):
            raise ValueError(
                "label and weight must be named only in the schema file `columns`, got them in this section as well"
            )
        return self


class Predict(Strict):
    """How predictions are made and, by columns, who learns them; the same at both parties."""

    output: Output = "probability"
    """The predicted value."""
    method: Method = "thresholds"
    """`thresholds` for any rows, `bins` for rows that were trained on."""
    to: str | None = None
    """By columns, the party that learns the predictions; by default the party with the labels."""
    mac: bool = False
    """Check every opened value by MACs."""
    reasons: int = Field(default=0, ge=0, le=MOST_RANKS)
    """How many reasons `predict` writes beside each prediction: the columns that moved it most. A service gives at most
    so many, to requests that ask for them.
    """
    show: Literal["names", "numbers"] = "names"
    """Whether reasons are names only, or names with the numbers: what each added to the margin."""
    toward: Literal["higher", "lower"] = "higher"
    """Whether reasons are what raised a prediction, or what lowered it."""
    groups: dict[str, list[str]] = {}
    """Names of reasons, with the columns whose contributions each adds up; other columns are reasons by themselves."""

    @model_validator(mode="after")
    def _possible(self) -> Predict:
        if self.mac:
            check_method(self.method)
        if self.mac and self.reasons:
            raise ValueError("reasons must be 0 with mac: MACs do not check reasons")
        return self


@dataclass(frozen=True)
class Client:
    """A client of the service, and what it may ask for."""

    name: str
    token: str = field(repr=False)
    rows_per_minute: int | None = None
    rows_per_day: int | None = None


class ServeClient(Strict):
    """A client with a token of its own; the log names it."""

    token_file: Path
    """File with the token that this client sends, readable only by its owner."""
    rows_per_minute: int | None = Field(default=None, ge=1)
    """Maximum number of rows that it may ask for per minute; by default that of `[serve]`."""
    rows_per_day: int | None = Field(default=None, ge=1)
    """Maximum number of rows that it may ask for per day; by default that of `[serve]`."""


class Serve(Strict):
    """The service of this host, for this party's clients. Only `largest_batch`, `ahead` and `halves` must agree."""

    address: str = "127.0.0.1:8080"
    """Where the service listens for HTTP, as host:port."""
    certificate: Path | None = None
    """Certificate for HTTPS, together with `key`."""
    key: Path | None = None
    """Private key of `certificate`."""
    token_file: Path | None = None
    """File with the token that clients send, readable only by its owner; alternatively, set SHAREWOOD_TOKEN."""
    clients: dict[Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")], ServeClient] = Field(default_factory=dict)
    """Clients with a token of their own, by name."""
    rows_per_minute: int | None = Field(default=None, ge=1)
    """Maximum number of rows that a client may ask for per minute."""
    rows_per_day: int | None = Field(default=None, ge=1)
    """Maximum number of rows that a client may ask for per day."""
    largest_batch: int = Field(default=1024, ge=1, le=1 << 16)
    """Maximum number of rows in a batch, a power of two; the same at both parties."""
    ahead: float = Field(default=256.0, ge=0, le=1e6, allow_inf_nan=False)
    """MB of correlated randomness to keep ready; the same at both parties."""
    request_rows: int = Field(default=10_000, ge=1)
    """Maximum number of rows in a request."""
    request_mb: float = Field(default=16.0, gt=0, le=1e4, allow_inf_nan=False)
    """Maximum size of a request in MB."""
    queue_rows: int = Field(default=50_000, ge=1)
    """Maximum number of waiting rows."""
    answer_within: float = Field(default=30.0, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds after which a waiting request is refused."""

    halves: bool = False
    """Whether clients who are no party may ask, by halves of rows for both services; the same at both parties."""
    half_within: float = Field(default=5.0, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds within which the other half of such a request must reach the other service."""

    @model_validator(mode="after")
    def _consistent(self) -> Serve:
        if self.largest_batch & (self.largest_batch - 1):
            raise ValueError(f"largest_batch must be a power of two, got {self.largest_batch}")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key must be set together, got only one")
        if SHARED in self.clients:
            raise ValueError(f"clients must not be named {SHARED}, which stands for those with the token of `[serve]`")
        if self.queue_rows < self.request_rows:
            raise ValueError(f"queue_rows must be at least request_rows, {self.request_rows}, got {self.queue_rows}")
        return self

    @property
    def place(self) -> Address:
        """Return where the service listens. Raises ConfigError."""
        return parse_address(self.address)

    @property
    def ahead_bytes(self) -> int:
        return int(self.ahead * 1e6)

    @property
    def request_bytes(self) -> int:
        return int(self.request_mb * 1e6)

    def token(self) -> str | None:
        """Return the token that clients without one of their own send, if any.

        Raises ConfigError, also if other hosts could connect without any token.
        """
        if self.token_file:
            return _token(self.token_file, "serve.token_file")
        if token := os.environ.get("SHAREWOOD_TOKEN", "").strip():
            return _checked_token(token, "SHAREWOOD_TOKEN")
        if not self.clients and not is_loopback(self.place[0]):
            raise ConfigError(
                f"serve.address must be on loopback, such as 127.0.0.1:8080, if clients send no token, got "
                f"{self.address}: set serve.token_file, serve.clients or SHAREWOOD_TOKEN"
            )
        return None

    def known(self) -> list[Client]:
        """Return the clients with their tokens; one without a token if none is set. Raises ConfigError."""
        usual = {"rows_per_minute": self.rows_per_minute, "rows_per_day": self.rows_per_day}
        found = []
        for name, own in self.clients.items():
            limits = {key: getattr(own, key) or value for key, value in usual.items()}
            found.append(Client(name, _token(own.token_file, f"serve.clients.{name}.token_file"), **limits))
        if (shared := self.token()) is not None:
            found.append(Client(SHARED, shared, **usual))
        if len({client.token for client in found}) < len(found):
            raise ConfigError("serve: every client must have a token of its own, got the same token twice")
        return found or [Client(SHARED, "", **usual)]


def _token(path: Path, key: str) -> str:
    """Read the token of a client. Raises ConfigError."""
    try:
        text = read_private(path, "token").decode()
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{key}: {path}: {_TOKEN}") from None
    return _checked_token(text.strip(), f"{key}: {path}")


def _checked_token(token: str, source: str) -> str:
    """Raise ConfigError unless every client can send the token in a header, and nobody can guess it."""
    if not re.fullmatch(r"[!-~ ]+", token):
        raise ConfigError(f"{source}: {_TOKEN}")
    if len(token) < _LEAST_TOKEN:
        raise ConfigError(f"{source}: the token must have at least {_LEAST_TOKEN} characters, got {len(token)}")
    return token


Features = Annotated[int, Field(ge=0, le=100_000)] | tuple[str, ...]
Rows = Annotated[int, Field(ge=1, le=1_000_000_000)]
HeldRows = Annotated[int, Field(ge=0, le=1_000_000_000)]


class PlanShape(Strict):
    """Public sizes for `sharewood plan` and `sharewood prepare`, which read no data."""

    rows: tuple[Rows, Rows]
    """Number of rows of each party, in the order of the parties' names."""
    features: tuple[Features, Features] | None = None
    """Number or names of the features, for both parties or for each; the name of an indicator contains `=`. If a party
    has a schema file, it defines its features. By columns, the party with the labels may have none.
    """
    test_rows: tuple[HeldRows, HeldRows] | None = None
    """Number of rows for validation of each party."""
    owner_rows: tuple[Rows, ...] = ()
    """By rows, the number of rows of each owner who is no party."""
    owner_features: tuple[Features, ...] = ()
    """By columns, the number or names of the features of each owner who is no party."""
    largest_weight: float | None = Field(None, gt=0)
    """Largest row weight; without it, rows have no weights."""

    @field_validator("features", mode="before")
    @classmethod
    def _of_each(cls, given: Any) -> Any:
        each = isinstance(given, list) and not all(isinstance(part, str) for part in given)
        return given if each else (given, given)
