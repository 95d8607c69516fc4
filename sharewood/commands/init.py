"""The command `sharewood init`: write a commented configuration for each host of a job."""

from __future__ import annotations

from pathlib import Path

from mpc.errors import ConfigError
from mpc.host.files import make_folder, write_bytes
from protocols.runtime.hosts import Offline, parse_address
from protocols.runtime.local import DEALER, PARTIES
from secure_tree.public.config import Partition


def write_first_files(
    folder: Path, address: str, dealer: str, offline: Offline, partition: Partition
) -> dict[str, Path]:
    """Write a file for each role, and return them by role. Raises ConfigError, also if one exists, DataError."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    for each in (address, dealer):
        parse_address(each)
    roles = [*PARTIES, *([DEALER] if offline == "dealer" else [])]
    files = {role: folder / f"{role}.toml" for role in roles}
    for path in files.values():
        if path.exists():
            raise ConfigError(f"{path} exists: choose another folder")
    environment = Environment(
        loader=PackageLoader("sharewood.commands"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template("party.toml.jinja")
    facts = {"names": PARTIES, "address": address, "dealer": dealer, "offline": offline, "partition": partition}
    make_folder(folder)
    for role, path in files.items():
        write_bytes(path, template.render(role=role, **facts).encode())
    return files
