"""One process per role on this machine, with a TLS channel between every two roles.

A role is a function of its channels, {peer name: Channel}.  Its result or its error reaches the parent
over a pipe through the codec, never through pickle.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, NoReturn

import numpy as np

from mpc import errors
from mpc.errors import ConfigError, DataError, PeerFailure, PeerTimeout, PeerVanished, ProtocolDesync, SharewoodError
from mpc.host.process import end_with, keep_freed_memory, leave_no_core_dump
from protocols.runtime.relay import Route, relay
from protocols.runtime.settings import Link
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.codec import Buffer, Tree, decode, encode
from protocols.transport.tcp import Listener, connect

Role = Callable[[dict[str, Channel]], Tree]
# A connection: its server, its client, and SECOND if it is the second between them.
Connected = tuple[str, str, str]

SECOND = ", second channel"
_GRACE_SECONDS = 1.0
_ERRORS = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, SharewoodError)
}
_FORK = multiprocessing.get_context("fork")


class RemoteError(SharewoodError):
    """A role failed with an error that is not one of Sharewood's; the text has the remote traceback."""


class RoleKilled(PeerVanished):
    """The process of a role ended without a report."""


def run_processes(
    roles: Mapping[str, Role], *, timeout: float | None = None, second: bool = False, line: Link | None = None
) -> dict[str, Tree]:
    """Run every role in its own process; return {role name: result}.

    With `second`, every two roles have a second channel, whose name is that of the peer followed by SECOND. With
    `line`, every role is a host with a line of this shape.

    If a role fails, the others are ended and its error is raised with "party_b: ..." in front: the same
    class if it is one of mpc.errors, RemoteError otherwise, RoleKilled if its process died.  If several
    fail, the one raised is the cause, not a consequence of another failure.  Raises PeerTimeout after
    `timeout` seconds.  The processes end when this one does, even if it is killed.
    """
    credentials = make_credentials(roles)
    connections = ("", SECOND) if second else ("",)
    listening = {
        (*pair, one): socket.create_server(("127.0.0.1", 0)) for pair in combinations(roles, 2) for one in connections
    }
    processes: dict[str, ForkProcess] = {}
    reports: dict[Connection, str] = {}
    try:
        with _addresses(listening, line) as addresses:
            for name, role in roles.items():
                report, reply = _FORK.Pipe(duplex=False)
                reports[report] = name
                process = _FORK.Process(
                    target=_play,
                    args=(name, role, listening, addresses, credentials[name], reply, os.getpid(), list(reports)),
                    name=name,
                    daemon=True,
                )
                process.start()
                # The child keeps the only copy, so that the pipe closes when the child ends.
                reply.close()
                processes[name] = process
            results = _collect(processes, reports, timeout)
            for process in processes.values():
                process.join(_GRACE_SECONDS)
            return results
    finally:
        for server in listening.values():
            server.close()
        _end(processes.values())
        for report in reports:
            report.close()


@contextmanager
def _addresses(
    listening: Mapping[Connected, socket.socket], line: Link | None
) -> Iterator[dict[Connected, tuple[str, int]]]:
    """Yield the address at which the client of each connection finds its server: a relay, if lines have a shape."""
    here = {between: bound.getsockname() for between, bound in listening.items()}
    if line is None:
        yield here
        return
    routes = [Route(client, server, here[server, client, one]) for server, client, one in here]
    with relay(routes, line.round_trip / 2, line.rate) as relayed:
        yield dict(zip(here, relayed, strict=True))


def _play(
    name: str,
    role: Role,
    listening: Mapping[Connected, socket.socket],
    addresses: Mapping[Connected, tuple[str, int]],
    credentials: Credentials,
    reply: Connection,
    parent: int,
    reports: Collection[Connection],
) -> None:
    end_with(parent)
    for inherited in reports:
        inherited.close()  # while a reader is open, the writers do not notice that the parent is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leave_no_core_dump()
    keep_freed_memory()
    try:
        channels = _open_channels(name, listening, addresses, credentials)
        report = _report(role(channels))
    except BaseException as error:
        report = encode(_describe(error))
    sys.stdout.flush()
    # Report first, since the channels end with the process: a cause must arrive before its consequences.
    reply.send_bytes(b"".join(report))


def _report(result: Any) -> list[Buffer]:
    """A result, encoded. Raises DataError where it has anything but plain values."""
    try:
        return encode({"result": _plain(result)})
    except (TypeError, ValueError) as error:
        raise DataError(
            f"a job must return numbers, text, arrays, or lists and dicts of these, and {error}: save it to a file"
        ) from None


def _plain(result: Any) -> Tree:
    """Replace numpy's numbers by Python's: results often have some."""
    if isinstance(result, np.generic):
        return result.item()
    if type(result) in (list, tuple):
        return type(result)(map(_plain, result))
    return {name: _plain(value) for name, value in result.items()} if type(result) is dict else result


def _open_channels(
    name: str,
    listening: Mapping[Connected, socket.socket],
    addresses: Mapping[Connected, tuple[str, int]],
    credentials: Credentials,
) -> dict[str, Channel]:
    """Open the channels of a role. All roles take the pairs in the same order, so that there is no deadlock."""
    channels = {}
    for between, bound in listening.items():
        server, client, one = between
        if name == server:
            channels[client + one] = Listener(bound, credentials.context(server=True)).accept(client)
        elif name == client:
            channels[server + one] = connect(addresses[between], credentials, server)
    return channels


def _describe(error: BaseException) -> Tree:
    known = next((kind.__name__ for kind in type(error).__mro__ if kind in _ERRORS.values()), None)
    text = "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()
    message = str(error).encode(errors="backslashreplace").decode()
    kind = known or type(error).__name__
    return {"error": kind, "known": known is not None, "message": message, "trace": text}


def _collect(
    processes: Mapping[str, ForkProcess], reports: Mapping[Connection, str], timeout: float | None
) -> dict[str, Tree]:
    deadline = None if timeout is None else time.monotonic() + timeout
    results: dict[str, Tree] = {}
    failures: list[SharewoodError] = []
    pending = dict(reports)
    while pending:
        arrived = wait(pending, None if deadline is None else max(deadline - time.monotonic(), 0))
        if not arrived:
            break
        for report in [report for report in pending if report in arrived]:
            name = pending.pop(report)
            try:
                results[name] = _receive(name, report, processes[name])
            except SharewoodError as failure:
                failures.append(failure)
        if failures:
            if min(map(_rank, failures)) == 0:
                break
            # The peer has failed, but its report, or the end of its process, may still be on the way.
            deadline = min(deadline or float("inf"), time.monotonic() + _GRACE_SECONDS)
    if failures:
        raise min(failures, key=_rank)
    if pending:
        raise PeerTimeout(f"no result from {', '.join(pending.values())} within {timeout:g} s")
    return {name: results[name] for name in processes}


def _rank(failure: SharewoodError) -> int:
    """Return 0 for a cause; higher, the more likely it is the consequence of another failure."""
    if isinstance(failure, RoleKilled) or not isinstance(failure, PeerFailure):
        return 0
    return 1 if isinstance(failure, ProtocolDesync) else 2


def _receive(name: str, report: Connection, process: ForkProcess) -> Tree:
    try:
        outcome = decode(bytearray(report.recv_bytes()))
    except (EOFError, OSError):
        _raise_killed(name, process)
    if "result" in outcome:
        return outcome["result"]
    if not outcome["known"]:
        raise RemoteError(f"{name}: {outcome['error']}: {outcome['message']}\n\n{outcome['trace']}")
    failure = _ERRORS[outcome["error"]](f"{name}: {outcome['message']}")
    # These two say what to do; where in the job they were raised would only hide it.
    if not isinstance(failure, ConfigError | DataError):
        failure.add_note(f"Traceback of {name}:\n{outcome['trace']}")
    raise failure


def _raise_killed(name: str, process: ForkProcess) -> NoReturn:
    process.join(_GRACE_SECONDS)
    status = process.exitcode or 0
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    raise RoleKilled(f"{name}: {how}")


def _end(processes: Collection[ForkProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_GRACE_SECONDS)
        process.kill()
        process.join()
        process.close()
