"""Ray for the length of a command: the party's own cluster, or one on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpc.errors import ConfigError
from mpc.extras import install

MOST_SHARDS = 4096
_OBJECT_STORE = 256 << 20
_ATTEMPTS = 4
_ANSWERING = 10.0


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
def ray_cluster(address: str | None = None, workers: int | None = None) -> Iterator[None]:
    """Use Ray for the length of the block. Raises ConfigError.

    If this process is already connected to Ray, use that. Otherwise connect to the cluster at `address`, or, without
    one, start Ray on this machine with one CPU for each of `workers`, and end that connection or Ray after the block.
    """
    # Choose the new behaviour, so that Ray does not warn about it on every start.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    check_ray()
    import ray

    if ray.is_initialized():
        yield
        return
    if address:
        _check_answering(address)
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    own: dict[str, Any] = {"num_cpus": workers, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    for left in reversed(range(_ATTEMPTS)):
        try:
            ray.init(address=address or "local", **({} if address else own), **quiet)
            break
        except Exception as error:  # Ray raises its own errors and many others
            ray.shutdown()
            if left and address is None:
                continue  # on a busy machine, Ray gives up after half a minute
            where = f"at {address}" if address else "on this machine"
            raise ConfigError(f"cannot use Ray {where}: {' '.join(str(error).split())[:300]}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_answering(address: str) -> None:
    """Raise ConfigError if nothing answers at HOST:PORT, where Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return  # another form of Ray address, such as auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERING).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray answers at {address} ({error}): start it there, or correct the address") from error
