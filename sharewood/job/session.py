"""Connect a party between hosts in Python, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mpc.errors import ConfigError
from mpc.operators import session
from mpc.party import Party
from protocols.runtime.hosts import joined
from sharewood.job.config import HostsConfig


@contextmanager
def connect(config: str | Path, party: str | None = None) -> Iterator[Party]:
    """Connect this host's party with the other party for the length of a block.

        with connect("party_a.toml") as party:
            model = SecureXGBClassifier().fit(party, X, y)

    The other party runs the same block at the same time. If the block raises, the other party learns that this one has
    failed. Operators on shares, such as `x * y`, work inside the block. Raises ConfigError, DataError, PeerFailure.

    Parameters
    ----------
    config : str or Path
        The TOML file of the commands. Only its addresses, `tls`, and settings for correlated randomness are used; the
        block brings its own tables and parameters.
    party : str, optional
        The party that this host is; by default the one that the file is named after, as in `party_a.toml`.
    """
    path = Path(config)
    job = HostsConfig.read(path)
    name = path.stem if party is None else party
    if party is None and name not in job.names:
        raise ConfigError(
            f"connect({str(config)!r}) needs a party, {' or '.join(job.names)}: the file is not named after one"
        )
    job.party(name)
    with joined(job.network, job.names.index(name), job.credentials(name)) as connected, session(connected):
        yield connected
