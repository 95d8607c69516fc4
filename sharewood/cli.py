"""The `sharewood` command: it collects the commands of `sharewood/commands`, and ends with a sentence."""

from __future__ import annotations

import ast
import errno
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from mpc.errors import SharewoodError
from mpc.host.files import shown_path
from mpc.host.process import leave_no_core_dump
from protocols.runtime.removed import refuse_removed
from sharewood import __version__
from sharewood.logs import LogFormat, LogLevel, complain, log_to_stderr

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# The files of commands, in the order of the help.
_FILES = (
    *("commands/local/[!_]*.py", "commands/setup/[!_]*.py", "commands/before/[!_]*.py", "commands/hosts/[!_]*.py"),
    "commands/owners/[!_]*.py",
    "baselines/fed.py",
)


class Command(TyperCommand):
    """A command in a file, which is imported when the command runs: help lists the commands without their imports."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.stem, help=_docstring(file))
        self._module = ".".join(file.relative_to(Path(__file__).parents[1]).with_suffix("").parts)
        self.rich_help_panel = (_docstring(file.with_name("__init__.py")) or "").partition(":")[0]

    def loaded(self) -> Any:
        """Import the file, whose function of the command's name has the options, or whose `app` has commands."""
        module = import_module(self._module)
        if hasattr(module, "app"):
            return typer.main.get_command(module.app)
        app = typer.Typer(add_completion=False)
        app.command(self.name, help=self.help)(getattr(module, str(self.name)))
        return typer.main.get_command(app)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        return self.loaded().make_context(*arguments, **more)


class _Commands(TyperGroup):
    """The commands of every folder, and those that are added."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {**{str(each.name): each for each in _commands()}, **self.commands}


def _commands() -> Iterator[Command]:
    for files in _FILES:
        for file in sorted(Path(__file__).parent.glob(files)):
            yield Command(file)


def _docstring(file: Path) -> str | None:
    return ast.get_docstring(ast.parse(file.read_bytes()))


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sharewood {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    log_level: Annotated[LogLevel, typer.Option(help="Lowest severity to log.")] = LogLevel.info,
    log_format: Annotated[LogFormat, typer.Option(help="text, or json with one object per line.")] = LogFormat.text,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train and serve gradient-boosted trees on the joint data of two organisations that may not pool it."""
    log_to_stderr(log_level, log_format)


def main() -> None:
    """Run the command; a SharewoodError becomes one sentence and its exit status.

    If standard output cannot be written, the status is 2, as of any other output. Results are written to files before
    anything is printed about them, so they are complete.
    """
    leave_no_core_dump()
    try:
        refuse_removed(word[2:].replace("-", "_") for word in sys.argv[1:] if word.startswith("--"))
        try:
            app(standalone_mode=True)
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except SharewoodError as error:
        _end(str(error), error.exit_status)
    except (MemoryError, SystemError) as error:  # numba raises the second where memory for compiled code ends
        _end(f"this machine has too little memory ({error or 'out of memory'})", 2)
    except OSError as error:
        if error.filename is not None and error.strerror:
            _end(f"{shown_path(error.filename)}: {error.strerror}", 2)
        if error.errno not in _FULL:
            raise
        _end(f"no space is left for compiled code or output ({error.strerror}); files named as written are complete", 2)
    except KeyboardInterrupt:
        _end("interrupted", 130)


def _end(text: str, status: int) -> NoReturn:
    """End with a sentence, whatever the state of the two standard streams."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(nowhere, sys.stdout.fileno())  # the interpreter writes at its end what is left
    try:
        if sys.stderr:
            complain(text)
    except OSError:
        os.dup2(nowhere, sys.stderr.fileno())
    sys.exit(status)
