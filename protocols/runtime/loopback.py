"""Two party processes of one user on one machine, without set-up: shared certificates, and a dealer process.

The certificates are in a folder that only this user may enter, in memory if the system has such a folder; the first
party to start makes them, under a lock. The dealer serves one session and ends.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import ipaddress
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mpc.errors import ConfigError
from mpc.host.folders import memory_folder
from mpc.host.process import end_with
from protocols.runtime.dealer_host import run_dealer
from protocols.runtime.hosts import Network
from protocols.transport.certificates import Credentials, expiry, make_credentials
from protocols.transport.tcp import Address, listen

log = logging.getLogger("sharewood")
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]/]+))(?::[0-9]+)?", re.ASCII)
NOT_THIS_MACHINE = "the host must be 127.0.0.1 or localhost"

_LEAST_LEFT = dt.timedelta(hours=2)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names_this_machine(host: str) -> bool:
    """Return whether the value of an HTTP header Host names this machine's loopback.

    A page of another site may direct a browser of this machine here under its own host name (DNS rebinding).
    """
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback((found["v6"] or found["name"]).lower())


def loopback_credentials(names: Iterable[str], name: str) -> Credentials:
    """Return the credentials of `name` from those that this user's processes share for `names`. Raises ConfigError."""
    root = memory_folder()
    folder = root / "+".join(names)
    with open(root / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _fresh(folder, name):
            shutil.rmtree(folder, ignore_errors=True)
            for who, credentials in make_credentials(names).items():
                credentials.save(folder, who)
            log.warning("common.tls is not set: made certificates for this machine in %s, valid for one day", folder)
        return Credentials.load(folder, name)


def _fresh(folder: Path, name: str) -> bool:
    try:
        return expiry((folder / f"{name}.crt").read_bytes()) - dt.datetime.now(dt.UTC) > _LEAST_LEFT
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def loopback_dealer(network: Network) -> Iterator[Address]:
    """Run a dealer process for one session of the two parties; yield its address. It ends with the session or block."""
    names, waits = (network.dealer_name, *network.parties), (network.patience, network.timeout)
    command = [sys.executable, "-m", "protocols.runtime.loopback", str(os.getpid()), *map(str, waits), *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None, "the process was started with a pipe"
        port = process.stdout.readline().strip()
        if not port:
            raise ConfigError("the dealer process did not start")
        log.warning("common.dealer is not set: started a dealer process on this machine (pid %d)", process.pid)
        yield "127.0.0.1", int(port)
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def main() -> None:
    """Listen on a free port, print it, and serve one session."""
    parent, patience, timeout, name, first, second = sys.argv[1:]
    end_with(int(parent))
    with listen(("127.0.0.1", 0), loopback_credentials((first, second, name), name)) as listener:
        print(listener.address[1], flush=True)
        until = float(patience)
        run_dealer(listener, (first, second), sessions=1, patience=until, timeout=float(timeout), idle=until)


if __name__ == "__main__":
    main()
