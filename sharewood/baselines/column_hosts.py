"""SecureBoost between several hosts: `sharewood fed secureboost --config FILE --party NAME`, one file per party.

The guest listens and every host connects, by mutual TLS with the keys of `sharewood keygen`. Each party reads only the
files of its own section, and writes only its own part of the model. See examples/secureboost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.process import leave_no_core_dump
from protocols.baselines.secureboost import Guest, GuestModel, Host, HostModel, SecureBoostConfig
from protocols.runtime.hosts import parse_address
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.codec import encode
from protocols.transport.tcp import connect, listen
from secure_tree.public.config import validated
from sharewood.baselines.files import read_file
from sharewood.baselines.report import leaks_of, say
from sharewood.job.apart import check_apart
from sharewood.job.secrets import Source
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import TableRows, read_rows, write_predictions
from sharewood.tables.toml import read_toml

_HELLO_BYTES = 1 << 16


class PartyFiles(BaseModel):
    """A party's files. `epsilon` is the largest value that a host accepts; with None, it accepts exact sums."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path | None = None
    label: str | None = None
    model: Path | None = None
    predict_data: Path | None = None
    predictions: Path | None = None
    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class ColumnHosts(BaseModel):
    """One job between a guest, which listens at `address`, and hosts. `align`: join rows on their ids.

    `passphrase` is that of this party's private key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tls: Path
    guest: str
    address: str
    hosts: tuple[str, ...] = Field(min_length=1)
    align: bool = True
    parties: dict[str, PartyFiles] = {}
    train: dict[str, Any] = {}
    passphrase: Source | None = None
    patience: float = Field(60.0, gt=0, allow_inf_nan=False)
    timeout: float = Field(600.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _distinct(self) -> ColumnHosts:
        everybody = (self.guest, *self.hosts)
        if len(set(everybody)) < len(everybody):
            raise ValueError(f"guest and hosts must have names of their own, got {', '.join(everybody)}")
        for name in self.parties:
            if name not in everybody:
                raise ValueError(f"parties.{name} is neither the guest nor a host, who are {', '.join(everybody)}")
        return self

    @classmethod
    def read(cls, path: Path) -> ColumnHosts:
        """Read and check a file. Raises ConfigError with one sentence that names the file and the error in it."""
        try:
            config = validated(cls, read_toml(path))
            SecureBoostConfig.of(**config.train)
            parse_address(config.address)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
        folder = path.absolute().parent

        def placed(section: BaseModel) -> dict[str, Path]:
            return {name: folder / value for name, value in section if isinstance(value, Path)}

        parties = {name: section.model_copy(update=placed(section)) for name, section in config.parties.items()}
        passphrase = config.passphrase.below(folder) if config.passphrase else None
        return config.model_copy(update={"parties": parties, "passphrase": passphrase, **placed(config)})

    def credentials(self, name: str) -> Credentials:
        """Load the keys of a party from the folder `tls`. Raises ConfigError."""
        return Credentials.load(self.tls, name, self.passphrase.read() if self.passphrase else None)

    def section(self, name: str) -> PartyFiles:
        """Return the section of a party. Raises ConfigError for any other name."""
        if name not in (self.guest, *self.hosts):
            raise ConfigError(f"party {name!r} is neither the guest nor a host: {', '.join((self.guest, *self.hosts))}")
        return self.parties.get(name, PartyFiles())

    def needs(self, name: str, field: str) -> Path:
        """Return a path that the command requires. Raises ConfigError."""
        path = getattr(self.section(name), field)
        if path is None:
            raise ConfigError(f"parties.{name}.{field} must be set in the configuration for this command")
        return path

    def check_paths(self, name: str) -> None:
        """Raise ConfigError if a file of the party would be written over one that it reads."""
        own = self.section(name)
        written, read = (
            {f"parties.{name}.{key}": getattr(own, key) for key in keys}
            for keys in (("model", "predictions"), ("data", "predict_data"))
        )
        check_apart(written, read)

    def hello(self, step: str) -> dict[str, Any]:
        """Return the settings that must be the same at all parties."""
        return {"step": step, "guest": self.guest, "hosts": list(self.hosts), "align": self.align}


def train(config: ColumnHosts, name: str) -> None:
    """Take a party's part in a training, and write its model part. Raises DataError, ConfigError, PeerFailure."""
    out, section, parameters = config.needs(name, "model"), config.section(name), SecureBoostConfig.of(**config.train)
    config.check_paths(name)
    label = None
    if name == config.guest:
        label = section.label
        if label is None:
            raise ConfigError(f"parties.{name}.label must be set: the guest has the labels")
    rows = read_file(config.needs(name, "data"), label, parameters.objective, only_labels=name == config.guest)
    ids = _ids(config, rows, config.needs(name, "data"))
    writable(out)
    started = time.perf_counter()
    for leak in leaks_of("secureboost", epsilon=parameters.epsilon) if name == config.guest else []:
        say(f"leaks: {leak}")
    model: GuestModel | HostModel
    if name == config.guest:
        assert rows.labels is not None, "read_file gives labels where it is asked for them"
        with _as_guest(config, "train") as channels:
            guest = Guest(channels)
            kept = guest.align(ids) if ids else np.arange(len(rows.features))
            model = guest.train(parameters, rows.features.iloc[kept], rows.labels[kept], _progress(parameters))
            model.save(out)
            _part(channels)
    else:
        with _as_host(config, name, "train") as channel:
            host = Host(channel)
            kept = host.align(ids) if ids else np.arange(len(rows.features))
            model = host.train(rows.features.iloc[kept], section.epsilon)
            model.save(out)
            _part({config.guest: channel})
    say(f"trained on {len(kept)} of {len(rows.features)} rows in {time.perf_counter() - started:.1f} s; wrote {out}")


def predict(config: ColumnHosts, name: str) -> None:
    """Take a party's part in a prediction with the saved model; the guest writes the table of predictions."""
    data, section = config.needs(name, "predict_data"), config.section(name)
    config.check_paths(name)
    model: GuestModel | HostModel
    if name == config.guest:
        out = config.needs(name, "predictions")
        model = GuestModel.load(config.needs(name, "model"))
        if set(model.hosts) != set(config.hosts):
            raise ConfigError(f"hosts must be those of the training, {', '.join(model.hosts)}")
        rows = read_rows(data, Columns.inferred(section.label), model.names, lambda _: True)
        ids = _ids(config, rows, data)
        writable(out)
        with _as_guest(config, "predict") as channels:
            guest = Guest(channels)
            kept = guest.align(ids) if ids else np.arange(len(rows.features))
            values = guest.predict(model, rows.features.iloc[kept])
            write_predictions(out, None if rows.ids is None else rows.ids.iloc[kept], values)
            _part(channels)
        say(f"predicted {len(kept)} of {len(rows.features)} rows; wrote {out}")
        return
    model = HostModel.load(config.needs(name, "model"))
    rows = read_rows(data, Columns.inferred(), model.names, lambda _: True)
    ids = _ids(config, rows, data)
    with _as_host(config, name, "predict") as channel:
        host = Host(channel)
        kept = host.align(ids) if ids else np.arange(len(rows.features))
        host.predict(model, rows.features.iloc[kept])
        _part({config.guest: channel})
    say(f"answered for {len(kept)} of {len(rows.features)} rows")


def _ids(config: ColumnHosts, rows: TableRows, path: Path) -> list[str] | None:
    if not config.align:
        return None
    if rows.ids is None:
        raise DataError(f"{path} has no column 'id' to align the rows on: add one, or set align = false at all parties")
    return rows.ids.tolist()


def _progress(config: SecureBoostConfig) -> Any:
    def tell(number: int, _: np.ndarray) -> None:
        done = number + 1
        if done * 10 // config.n_estimators > number * 10 // config.n_estimators:
            say(f"trained {done} of {config.n_estimators} trees")

    return tell


@contextmanager
def _as_guest(config: ColumnHosts, step: str) -> Iterator[dict[str, Channel]]:
    """Open channels to all hosts by name; if the block fails, the hosts learn why."""
    leave_no_core_dump()
    credentials, until = config.credentials(config.guest), time.monotonic() + config.patience
    with ExitStack() as stack:
        channels: dict[str, Channel] = {}
        with listen(parse_address(config.address), credentials) as listener:
            while missing := [each for each in config.hosts if each not in channels]:
                left = max(0.0, until - time.monotonic())
                channel = listener.accept(*missing, patience=left, timeout=config.timeout)
                channels[channel.peer] = stack.enter_context(channel.explained())
        for channel in channels.values():
            _greet(channel, config.hello(step))
        yield {name: channels[name] for name in config.hosts}


@contextmanager
def _as_host(config: ColumnHosts, name: str, step: str) -> Iterator[Channel]:
    """Open the channel to the guest; if the block fails, the guest learns why."""
    leave_no_core_dump()
    address, credentials = parse_address(config.address), config.credentials(name)
    reached = connect(address, credentials, config.guest, patience=config.patience, timeout=config.timeout)
    with reached.explained() as channel:
        _greet(channel, config.hello(step))
        yield channel


def _greet(channel: Channel, expected: dict[str, Any]) -> None:
    """Raise ConfigError if the settings of the two differ."""
    theirs = channel.exchange_public("secureboost.hello", expected, _HELLO_BYTES)
    if type(theirs) is not dict or theirs.keys() != expected.keys():
        raise ProtocolDesync(f"{channel.peer} must begin with a hello")
    for what, value in expected.items():
        if encode(theirs[what]) != encode(value):
            raise ConfigError(f"the parties disagree on {what}: {value!r} here, {theirs[what]!r} at {channel.peer}")


def _part(channels: dict[str, Channel]) -> None:
    """Wait until the others are also done."""
    for channel in channels.values():
        channel.exchange_public("secureboost.end", None, _HELLO_BYTES)
