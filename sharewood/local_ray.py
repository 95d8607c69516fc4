"""Ray on this machine, for the time of a command."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from mpc.errors import ConfigError

_OBJECT_STORE = 256 << 20


@contextmanager
def local_ray() -> Iterator[None]:
    """Use the Ray that runs, or start one and stop it. Raises ConfigError where it is not installed."""
    # Its other behaviour, which it announces on every start otherwise.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ConfigError("shards need Ray, which is not installed: pip install 'sharewood[cluster]'") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=_OBJECT_STORE,
    )
    try:
        yield
    finally:
        ray.shutdown()
