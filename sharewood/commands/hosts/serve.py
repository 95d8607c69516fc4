"""Serve predictions over HTTP together with the other party's service, until SIGTERM or SIGINT.

Example: sharewood serve --config party_a.toml --party party_a
"""

from __future__ import annotations

from mpc.errors import ConfigError
from mpc.host.extras import install
from sharewood.commands.options import Config, FilesKey, PartyName, Passphrase
from sharewood.job.config import HostsConfig


def serve(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    try:
        from sharewood.serving import http
        from sharewood.serving.service import Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "prometheus_client"):
            raise
        raise ConfigError(f"sharewood serve needs {error.name}: {install('serve')}") from None
    http.run(Service(HostsConfig.read(config, passphrase=passphrase, files_key=files_key), party))
