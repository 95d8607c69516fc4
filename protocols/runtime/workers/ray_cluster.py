"""Ray for the length of a command: the party's own cluster, or one on this machine.

Ray's ports listen on all interfaces, and whoever may use them can run code. A cluster that is started here therefore
requires a random token, which only the environment of its processes has; a cluster that is used must require one, too,
unless it is `trusted`. Everything that a cluster started here writes lies in a folder that only its user can enter.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpc.errors import ConfigError, PeerFailure
from mpc.host.extras import install

MOST_SHARDS = 4096
_OBJECT_STORE = 256 << 20
_ATTEMPTS = 4
_ANSWERING = 10.0
_KNOCKING = 60.0
_TOKEN = "RAY_AUTH_TOKEN"
# The longest name of a socket, and by how much those of Ray are longer than the folder that has Ray's folder.
_LONGEST_SOCKET, _SOCKETS = 107, 80
# A stranger connects without a token; exit status 0: it may.
_STRANGER = """
import sys
from ray._raylet import GcsClient
try:
    GcsClient(address=sys.argv[1])
except Exception:
    sys.exit(1)
"""


def check_shards(name: str, count: int) -> None:
    """Raise ConfigError if the number of shards is out of range, or Ray is not installed."""
    if not 0 < count <= MOST_SHARDS:
        raise ConfigError(f"{name} must be a number from 1 to {MOST_SHARDS}, got {count}")
    check_ray()


def check_ray() -> None:
    """Raise ConfigError if Ray is not installed."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise ConfigError(f"shards need Ray, which is not installed: {install('cluster')}") from None


@contextmanager
def ray_cluster(address: str | None = None, workers: int | None = None, trusted: bool = False) -> Iterator[None]:
    """Use Ray for the length of the block. Raises ConfigError, and PeerFailure if Ray fails in the block.

    If this process is already connected to Ray, use that. Otherwise connect to the cluster at `address`, or, without
    one, start Ray on this machine with one CPU for each of `workers`, and end that connection or Ray after the block.
    If `trusted`, the cluster at `address` need not require a token.
    """
    # Choose the new behaviour, so that Ray does not warn about it on every start.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A Ray that is started here reports its use to nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    check_ray()
    import ray

    if ray.is_initialized():
        yield
        return
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with _of_party(address, trusted) if address else _own(workers) as how:
        for left in reversed(range(_ATTEMPTS)):
            try:
                ray.init(**how, **quiet)
                break
            except Exception as error:  # Ray raises its own errors and many others
                ray.shutdown()
                if left and address is None:
                    continue  # on a busy machine, Ray gives up after half a minute
                where = f"at {address}" if address else "on this machine"
                raise ConfigError(f"cannot use Ray {where}: {' '.join(str(error).split())[:300]}") from error
        try:
            if address is None:
                del os.environ[_TOKEN]  # Ray's processes have it, and no other that this one starts needs it
            elif not trusted:
                _check_closed(address, ray.get_runtime_context().gcs_address)
            yield
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                raise  # an error of the program
            raise PeerFailure(f"Ray has failed: {' '.join(str(error).split())[:300]}") from error
        finally:
            ray.shutdown()


@contextmanager
def _own(workers: int | None) -> Iterator[dict[str, Any]]:
    """Yield arguments of `ray.init` that start Ray on this machine in the block, with a folder and a token of its own.

    The address "local" keeps Ray from following the file of another Ray, which a killed one leaves behind.
    """
    base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    base = base if len(base) + _SOCKETS < _LONGEST_SOCKET else "/tmp"
    with (
        tempfile.TemporaryDirectory(prefix="ray_", dir=base, ignore_cleanup_errors=True) as folder,
        _token_required({_TOKEN: secrets.token_hex(32)}),
    ):
        yield {
            "address": "local",
            "num_cpus": workers,
            "object_store_memory": _OBJECT_STORE,
            "include_dashboard": False,
            # Ray opens its folder to all users; this one is inside a folder of mode 0700.
            "_temp_dir": str(Path(folder) / "r"),
        }


@contextmanager
def _of_party(address: str, trusted: bool) -> Iterator[dict[str, Any]]:
    """Use the party's cluster in the block, with the party's token. Raises ConfigError if there is none."""
    _check_answering(address)
    if trusted:
        yield {"address": address}
        return
    with _token_required({}):
        from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # it is compiled

        if not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True):
            raise ConfigError(
                f"Ray at {address} must be used with its token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, "
                "or keep it in ~/.ray/auth_token"
            )
        yield {"address": address}


@contextmanager
def _token_required(more: Mapping[str, str]) -> Iterator[None]:
    """Make Ray, and the processes that it starts, require a token in the block, with `more` in the environment."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # they are compiled

    def choose(mode: str) -> None:
        # Ray reads the environment when it is imported, and the token when it is first needed.
        Config.initialize(json.dumps({"AUTH_MODE": mode}))
        AuthenticationTokenLoader.instance().reset_cache()

    given = {"RAY_AUTH_MODE": "token", **more}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    choose("token")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        choose(os.environ.get("RAY_AUTH_MODE", "disabled"))


def _check_closed(address: str, gcs: str) -> None:
    """Raise ConfigError if a stranger who knows only the address of a cluster may use it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", _STRANGER, gcs]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_KNOCKING)
    except subprocess.TimeoutExpired:
        return  # a stranger is not let in
    if done.returncode == 0:
        raise ConfigError(
            f"Ray at {address} must require a token, because whoever reaches it without one can run code as this user: "
            "start it with RAY_AUTH_MODE=token, or set ray_without_token = true for this party if only you can reach it"
        )


def _check_answering(address: str) -> None:
    """Raise ConfigError if nothing answers at HOST:PORT, where Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return  # another form of Ray address, such as auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERING).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray answers at {address} ({error}): start it there, or correct the address") from error
