"""Deal correlated randomness to the two parties, session after session, until interrupted.

Example: sharewood dealer --config dealer.toml
"""

from __future__ import annotations

from typing import Annotated

import typer

from mpc.errors import ConfigError
from protocols.runtime.dealer_host import run_dealer
from protocols.transport.tcp import listen
from sharewood.commands.options import Config, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.warming_up import warm_up


def dealer(
    config: Config,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Number of sessions after which the dealer exits.")
    ] = None,
    passphrase: Passphrase = None,
) -> None:
    job = HostsConfig.read(config, passphrase=passphrase)
    address = job.network.dealer
    if address is None or job.dealer is None:
        raise ConfigError('the configuration has no dealer: with offline = "pairwise" none is needed')
    with listen(address, job.credentials("dealer")) as listener:
        waits = {"patience": job.patience, "timeout": job.timeout}
        # It compiles once, instead of in every session's process.
        run_dealer(listener, job.names, sessions=sessions, memory=job.dealer.memory_bytes, prepare=warm_up, **waits)
