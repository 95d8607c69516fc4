"""Write a commented configuration for each host of a job: party_a.toml, party_b.toml, dealer.toml.

Example: sharewood init --partition vertical --out job
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer
from jinja2 import Environment, PackageLoader, StrictUndefined

from mpc.errors import ConfigError
from mpc.host.files import make_folder, write_bytes
from protocols.runtime.hosts import parse_address
from protocols.runtime.local import DEALER, PARTIES
from protocols.runtime.settings import Maker
from secure_tree.public.config import Partition
from sharewood.commands.options import one_of
from sharewood.logs import say


def init(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("."),
    address: Annotated[str, typer.Option(help="host:port where party_a listens.")] = "127.0.0.1:50011",
    dealer: Annotated[str, typer.Option(help="host:port where the dealer listens.")] = "127.0.0.1:50010",
    offline: Annotated[str, typer.Option(help="dealer, or pairwise, which needs no third party.")] = "dealer",
    partition: Annotated[str, typer.Option(help="horizontal: each party has rows; vertical: columns.")] = "horizontal",
) -> None:
    maker: Maker = one_of("--offline", offline, get_args(Maker))
    divided: Partition = one_of("--partition", partition, get_args(Partition))
    files = write_first_files(out, address, dealer, maker, divided)
    say(f"wrote {', '.join(map(str, files.values()))}")
    say("next: edit them, and then run")
    say(f"  sharewood keygen --out {out / 'keys'} --names {' '.join(files)}")
    for role, path in files.items():
        say(f"  sharewood check --config {path} --party {role}")


def write_first_files(folder: Path, address: str, dealer: str, offline: Maker, partition: Partition) -> dict[str, Path]:
    """Write a file for each role, and return them by role. Raises ConfigError, also if one exists, DataError."""
    for each in (address, dealer):
        parse_address(each)
    roles = [*PARTIES, *([DEALER] if offline == "dealer" else [])]
    files = {role: folder / f"{role}.toml" for role in roles}
    for path in files.values():
        if path.exists():
            raise ConfigError(f"{path} exists: choose another folder")
    environment = Environment(
        loader=PackageLoader("sharewood.commands.setup"),
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
