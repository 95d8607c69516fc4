"""A party between hosts in Python: what the commands do, as a block of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mpc.errors import ConfigError
from mpc.party import Party
from mpc.session import session
from protocols.runtime.hosts import joined
from sharewood.hosts_config import HostsConfig


@contextmanager
def connect(config: str | Path, party: str | None = None) -> Iterator[Party]:
    """This host's party, connected with the other one for the length of a block.

        with connect("party_a.toml") as party:
            model = SecureXGBClassifier().fit(party, X, y)

    Parameters
    ----------
    config : str or Path
        The TOML file that the commands take. Of it, only the addresses, `tls`, and how correlated randomness is made
        are used: the block has its tables and parameters from elsewhere.
    party : str, optional
        Which party this host is. By default the one that the file is named after, as in `party_a.toml`.

    The other party runs the same block at the same time. Where the block raises, the other party learns that this one
    has failed. Operators on shares, `x * y`, work inside. Raises ConfigError, DataError, PeerFailure.
    """
    path = Path(config)
    job = HostsConfig.read(path)
    name = path.stem if party is None else party
    if party is None and name not in job.names:
        raise ConfigError(
            f"connect({str(config)!r}) needs a party, {' or '.join(job.names)}: the file has no such name"
        )
    job.party(name)
    with joined(job.network, job.names.index(name), job.credentials(name)) as connected, session(connected):
        yield connected
