"""The file of a client who is no party, and a table of predictions that only the client sees."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mpc.errors import ConfigError
from protocols.runtime.hosts import parse_address
from secure_tree.prediction.client import Offer
from secure_tree.public.config import validated
from secure_tree.public.names import covers
from sharewood.client import Client
from sharewood.job.apart import check_apart
from sharewood.job.sections import Strict
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import TableRows, read_rows, write_predictions
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
    timeout: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds to wait for an answer."""

    @staticmethod
    def describes(path: Path) -> bool:
        """Return whether a file is that of a client. Raises ConfigError."""
        return "services" in read_toml(path)

    @classmethod
    def read(cls, path: Path) -> ClientConfig:
        """Read and check a file; paths in it are relative to its folder. Raises ConfigError."""
        try:
            config = validated(cls, read_toml(path))
            for service in config.services.values():
                parse_address(service.address)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        folder = path.absolute().parent
        return config.model_copy(update={name: folder / at for name, at in config if isinstance(at, Path)})

    def table(self, rows: Path, offer: Offer) -> TableRows:
        """Read a table of rows for a model. Raises ConfigError, DataError."""
        offer.check_named()
        columns = Columns.read(self.columns) if self.columns else Columns.inferred()
        optional = [offer.names[f] for f in offer.missing]
        return read_rows(rows, columns, offer.names, lambda name: any(covers(name, one) for one in optional))


def ask_services(path: Path, rows: Path, out: Path) -> int:
    """Get predictions of a table from the services of a client's file, and write them; return the number of rows.

    Raises ConfigError, DataError, PeerFailure.
    """
    config = ClientConfig.read(path)
    check_apart({"--out": out}, {"--config": path, "--rows": rows, "columns": config.columns})
    writable(out)
    with Client(path) as client:
        offer = client.offer()
        table = config.table(rows, offer)
        if offer.logistic:
            values = client.predict_proba(table.features)
            values = values if offer.classes > 1 else values[:, 1]
        else:
            values = client.predict(table.features)
    write_predictions(out, table.ids, values)
    return len(values)
