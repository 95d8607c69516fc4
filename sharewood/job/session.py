"""Connect a party between hosts: for a command's work, or in Python for the length of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from mpc.errors import ConfigError, DataError
from mpc.host.files import file_errors
from mpc.operators import session
from mpc.party import Party
from protocols.offline.pairwise.prepared import Prepared
from protocols.runtime.hosts import decline, joined, run_party
from protocols.runtime.workers.ray_workers import with_workers
from sharewood.job.apart import Paths
from sharewood.job.config import HostsConfig
from sharewood.job.failures import told_plainly
from sharewood.job.paths import NOTHING, check_paths

T = TypeVar("T")


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
        The TOML file of the commands. Only its addresses, `tls`, `[link]`, and settings for correlated randomness are
        used; the block brings its own tables and parameters.
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


def connected(
    config: HostsConfig, name: str, job: Callable[[Party], T], prepared: Prepared | None = None, *, doing: str
) -> T:
    """Run a job as party `name` of the configuration; `prepared` is that of `run_party`, `doing` of `told_plainly`."""
    config.party(name)

    def told(party: Party) -> T:
        with told_plainly(lambda: doing):
            return job(party)

    return run_party(config.network, config.names.index(name), config.credentials(name), told, prepared=prepared)


def on_workers(
    config: HostsConfig, name: str, job: Callable[[Party], T], prepared: Prepared | None = None, *, doing: str
) -> T:
    """Run a job likewise, with each party's rows divided among workers if the configuration has shards."""
    if not config.shards:
        return connected(config, name, job, prepared, doing=doing)
    network, own = config.network, config.party(name)
    # Every worker loads the keys on its own machine.
    credentials = partial(config.credentials, name)

    def divided(party: Party) -> T:
        host = network.meeting[0] if own.ray is None else None
        workers = with_workers(party, config.shards, network, host, credentials, own.worker_ports)
        with told_plainly(lambda: doing), workers:
            return job(party)

    leads = replace(network, shards=config.shards)
    return run_party(leads, config.names.index(name), config.credentials(name), divided)


@contextmanager
def bringing(
    config: HostsConfig, name: str, supplied: bool = True, writes: Paths = NOTHING, reads: Paths = NOTHING
) -> Iterator[None]:
    """If this party refuses its own files or settings in the block, notify the other party if it is already waiting.

    `writes` and `reads` are files that the command line names. Raises ConfigError, DataError.
    """
    try:
        with file_errors():
            if name in config.names:
                check_paths(config, name, writes, reads)
            yield
    except (ConfigError, DataError):
        if name in config.names:
            with suppress(ConfigError):  # of the keys
                decline(config.network, config.names.index(name), config.credentials(name), supplied)
        raise
