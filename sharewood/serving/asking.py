"""The file of a client who is no party, and a table of predictions that only the client sees."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mpc.errors import ConfigError
from protocols.runtime.hosts import parse_address
from secure_tree.public.config import validated
from secure_tree.public.names import covers
from sharewood.client import Client
from sharewood.job.apart import check_apart
from sharewood.job.sections import Strict
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import read_rows, write_predictions
from sharewood.tables.toml import read_toml


class ClientService(Strict):
    """A party's service, as a client sees it."""

    address: str
    """Where the service listens, as host:port."""
    token_file: Path | None = None
    """File with the token for this service, readable only by its owner."""


class ClientConfig(Strict):
    """The file of a client who is no party."""

    tls: Path | None = None
    """Folder with `authority.crt`, which signed the services' certificates; without it, both are on this machine."""
    columns: Path | None = None
    """Schema file: the type of each column of `sharewood query --rows`."""
    services: dict[str, ClientService]
    timeout: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds to wait for an answer."""

    @classmethod
    def read(cls, path: Path) -> ClientConfig:
        """Read and check a file. Raises ConfigError."""
        try:
            config = validated(cls, read_toml(path))
            for service in config.services.values():
                parse_address(service.address)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        return config


def ask_services(path: Path, rows: Path, out: Path) -> int:
    """Get predictions of a table from the services of a client's file, and write them; return the number of rows.

    Raises ConfigError, DataError, PeerFailure.
    """
    config = ClientConfig.read(path)
    schema = path.absolute().parent / config.columns if config.columns else None
    check_apart({"--out": out}, {"--config": path, "--rows": rows, "columns": schema})
    columns = Columns.read(schema) if schema else Columns.inferred()
    writable(out)
    with Client(path) as client:
        offer = client.offer()
        optional = [offer.names[f] for f in offer.missing]
        table = read_rows(rows, columns, offer.names, lambda name: any(covers(name, one) for one in optional))
        if offer.logistic:
            values = client.predict_proba(table.features)
            values = values if offer.classes > 1 else values[:, 1]
        else:
            values = client.predict(table.features)
    write_predictions(out, table.ids, values)
    return len(values)
