"""Run commands as separate processes on loopback, and write the files of a job between two hosts."""

import contextlib
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from protocols.testing.two_parties import run_both
from sharewood import cli
from sharewood.commands.setup.keygen import keygen
from sharewood.job import session
from sharewood.job.config import HostsConfig
from tests.ports import free_port

EXAMPLES = Path(__file__).parents[3] / "examples" / "two_hosts"
COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]
ROLES = "party_a", "party_b", "dealer"
# Seconds that a command may take on a busy machine.
LONGEST = 400


def start(*arguments, cwd, env=None):
    """Start a command whose files are open to all users, unless it chooses their mode."""
    pipe, command = subprocess.PIPE, [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, umask=0)


def open_to_all(folder):
    """Return the files and folders that every user can write: under umask 0, those whose mode nobody chose."""
    found = []
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            found += [str(path)] if not path.is_symlink() and path.stat().st_mode & stat.S_IWOTH else []
    return found


def sharewood(*arguments, cwd):
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=LONGEST)
    return process.returncode, out, err


def both_end(command, *arguments, cwd):
    """Run a command at both parties at once; return exit status, output and errors of each."""
    work = [
        start(command, "--config", f"{name}.toml", "--party", name, *[a.format(name) for a in arguments], cwd=cwd)
        for name in ROLES[:2]
    ]
    said = [process.communicate(timeout=LONGEST) for process in work]
    return [(process.returncode, *texts) for process, texts in zip(work, said, strict=True)]


def both(command, *arguments, cwd):
    """Return the outputs of a command that succeeds at both parties."""
    ends = both_end(command, *arguments, cwd=cwd)
    assert [status for status, _, _ in ends] == [0, 0], ends
    return [out for _, out, _ in ends]


def in_threads(monkeypatch, folder, command, *arguments):
    """Run the work of a command at both parties, in threads of this process instead of processes over TLS."""
    parties = {}
    monkeypatch.setattr(session, "run_party", lambda network, rank, credentials, job, **_: job(parties[ROLES[rank]]))
    monkeypatch.setattr(HostsConfig, "credentials", lambda *_: None)
    monkeypatch.setattr(session, "decline", lambda *_: None)  # nobody waits

    def at(party):
        name = ROLES[party.rank]
        parties[name] = party
        return command(HostsConfig.read(folder / f"{name}.toml"), name, *arguments)

    return run_both(at)[0]


def complaint(monkeypatch, capsys, *arguments):
    """Return the one sentence of a command that ends in this process with status 2."""
    monkeypatch.setattr(sys, "argv", ["sharewood", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.count("\n") == 1
    return said


@contextlib.contextmanager
def dealing(sessions, cwd):
    """Run a dealer for a number of sessions, which must not fail."""
    dealer = start("dealer", "--config", "dealer.toml", "--sessions", sessions, cwd=cwd)
    try:
        yield
        _, log = dealer.communicate(timeout=30)
    finally:
        dealer.kill()
        dealer.wait()
    assert dealer.returncode == 0, log


def write_job(folder, sections, others=(), **tables):
    """Write keys, also of `others`, and a file for each role: `sections` of the parties by name, and further tables in
    both files.
    """
    keygen(folder / "keys", ROLES[0], [*ROLES[1:], *others])
    addresses = [f"127.0.0.1:{free_port()}" for _ in ROLES]
    for role in ROLES:
        lines = ['tls = "keys"', "[dealer]", f'address = "{addresses[2]}"']
        for name, address in zip(ROLES[:2], addresses, strict=False):
            lines += [f"[parties.{name}]", f'address = "{address}"']
            lines += _lines(sections[name] if name == role else {})
        for table, values in tables.items():
            lines += [f"[{table}]", *_lines(values)]
        (folder / f"{role}.toml").write_text("\n".join(lines) + "\n")


def write_owner(folder, file, ports, owner, terms=None, **top):
    """Write the file of an owner, FILE.toml: its section, with `file` as its name and receipt if it has no others."""
    section = {"name": file, "data": f"{owner.get('name', file)}.csv", "receipt": f"{file}.json", **owner}
    lines = [*_lines({"tls": "keys", **top}), "[owner]", *_lines(section)]
    for party, port in zip(ROLES[:2], ports, strict=True):
        lines += [f"[parties.{party}]", f'address = "127.0.0.1:{port}"']
    (folder / f"{file}.toml").write_text("\n".join([*lines, "[terms]", *_lines(terms or {})]) + "\n")


def ends_of(work):
    """Return exit status, output and errors of commands by name."""
    said = {name: process.communicate(timeout=120) for name, process in work.items()}
    return {name: (process.returncode, *said[name]) for name, process in work.items()}


def example(folder, files, **changes):
    """Write the documented example of each role in `files` as NAME.toml, changed for loopback, and keys."""
    keygen(folder / "keys", ROLES[0], list(ROLES[1:]))
    ports = {f"192.0.2.{host}:{port}": free_port() for host, port in ((30, 50010), (10, 50011), (20, 50012))}
    for role, file in files.items():
        text = (EXAMPLES / file).read_text()
        for address, port in ports.items():
            assert address in text
            text = text.replace(address, f"127.0.0.1:{port}")
        for name, value in changes.items():
            text = re.sub(rf"(?m)^{name} = \S+", f"{name} = {value}", text)
        (folder / f"{role}.toml").write_text(text)


def _lines(values):
    # JSON's strings, numbers, booleans and lists are also TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]
