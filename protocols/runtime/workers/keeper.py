"""A command that uses Ray, in a process of its own: it always ends with a sentence, and leaves no process behind.

If Ray's own processes die, Ray's library ends the process that uses it at once, in its own words. So the command runs
in the last of three processes, each the parent of the next:

guard     the process that was started: passes signals on, and ends as the keeper does
keeper    becomes the parent of processes that the command leaves behind, and kills them; kills the command if the guard
          is killed
command   everything else; of what it writes to its standard error, only Python's words are shown

Linux only: elsewhere the command goes on in the process that was started.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from mpc.host.process import adopt_orphans, end_with, signal_at_end_of

_PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_GUARD_GONE = signal.SIGUSR1
# The exit status, as for a lost host.
_LOST = 3
_SENTENCE = (
    "sharewood: Ray has died on this machine, and the command with it: run it again at both parties, with --resume "
    "if rounds of trees are kept\n"
)


def run_apart() -> None:
    """Go on in another process; this one ends as that one does. Call it before threads are started."""
    if not sys.platform.startswith("linux"):
        return
    sys.stdout.flush()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, _GUARD_GONE, signal.SIGCHLD})
    guard = os.getpid()
    if child := os.fork():
        _guard(child)
    signal_at_end_of(guard, _GUARD_GONE)
    adopt_orphans()
    os.setpgid(0, 0)  # a signal of the terminal reaches the command once, from the guard
    told, tell = os.pipe()
    keeper = os.getpid()
    if child := os.fork():
        os.close(tell)
        _keep(child, told)
    end_with(keeper)
    signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    os.close(told)
    atexit.register(os.write, tell, b".")  # the first to be registered, so that it runs last
    _hide_words_of_libraries()


def _guard(keeper: int) -> NoReturn:
    while True:
        number = signal.sigwait({*_PASSED_ON, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            os.kill(keeper, number)
        elif (found := os.waitpid(keeper, os.WNOHANG))[0]:
            _end(found[1])


def _keep(command: int, told: int) -> NoReturn:
    """Wait for the command, passing on signals; then kill what it has left behind, and end as it has."""
    passed_on, status = None, None
    while status is None:
        number = signal.sigwait({*_PASSED_ON, _GUARD_GONE, signal.SIGCHLD})
        if number == _GUARD_GONE:
            os.kill(command, signal.SIGKILL)
        elif number != signal.SIGCHLD:
            passed_on = number
            os.kill(command, number)
        else:
            status = _reaped(command)
    _kill_children()
    if passed_on in (signal.SIGTERM, signal.SIGHUP) and status:
        _end(int(passed_on))  # as it ends without Ray, which replaces the handling of SIGTERM
    if os.read(told, 1) or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        _end(status)
    if passed_on == signal.SIGINT:
        _say("sharewood: interrupted\n")
        os._exit(128 + signal.SIGINT)
    _say(_SENTENCE)
    os._exit(_LOST)


def _reaped(command: int) -> int | None:
    """Reap the children that have ended; return the status of the command if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                found = ended[1]
    return found


def _kill_children() -> None:
    """Kill all children, and theirs, which become children of this process."""
    while True:
        for child in _children(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def _end(status: int) -> NoReturn:
    """End this process as a child of status `status` has."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode())


def _hide_words_of_libraries() -> None:
    """Write Python's words to the present standard error, and those of libraries in other languages nowhere."""
    before, own = sys.stderr, os.dup(2)
    sys.stderr = open(own, "w", buffering=1, encoding=before.encoding, errors=before.errors)  # noqa: SIM115
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is before:
            handler.setStream(sys.stderr)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
