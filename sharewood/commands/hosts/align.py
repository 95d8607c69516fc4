"""Join this party's table with the other's on their ids, and write the common rows in the same order.

Each party learns the common ids, and the number of the other party's ids, or with --pad there an upper
bound of it. No dealer is needed.

Example: sharewood align --config party_a.toml --party party_a
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

import typer

from protocols.psi.alignment import align_guest, align_host
from protocols.psi.points import sodium
from protocols.psi.shards import agree_on_shards
from protocols.runtime.hosts import run_pair
from protocols.runtime.workers.keeper import run_apart
from protocols.runtime.workers.ray_cluster import ray_cluster
from protocols.transport.channel import Channel
from sharewood.commands.options import Config, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables
from sharewood.job.session import bringing
from sharewood.logs import say
from sharewood.tables.alignment import align_in_shards, check_folder
from sharewood.tables.files import writable, write_frame
from sharewood.tables.tables import read_joinable


def align(
    config: Config,
    party: PartyName,
    shards: Annotated[
        int, typer.Option(min=0, max=4096, help="Write a folder of this many files; no process holds the whole table.")
    ] = 0,
    pad: Annotated[
        int,
        typer.Option(min=1, max=1 << 24, help="Fill up the ids to a multiple of this, to hide their exact number."),
    ] = 1,
    passphrase: Passphrase = None,
) -> None:
    job = HostsConfig.read(config, passphrase=passphrase)
    if shards:
        run_apart()
    kept, count = align_tables(job, party, shards, pad)
    say(f"aligned: {kept} of {count} rows have ids that the other party also has")


@bringing_tables("align_data", supplied=False)
def align_tables(config: HostsConfig, name: str, shards: int = 0, pad: int = 1) -> tuple[int, int]:
    """Join the party's table with the other's on the ids (protocols.psi.alignment); return the rows kept, and all rows.

    Each party writes its own rows of the common ids, in the same order; with `shards`, into a folder of that many
    files. `pad`: as of protocols.psi.alignment.
    """
    with bringing(config, name, supplied=False):
        sodium()
        columns = replace(config.columns(name), keys=config.party(name).align_on)
        source, out = config.needs(name, "align_data"), config.needs(name, "aligned")
        if shards:
            check_folder(out)
        else:
            frame, ids = read_joinable(source, columns)
            writable(out)

    def program(peer: Channel) -> tuple[int, int]:
        if shards:
            return align_in_shards(peer, rank, source, columns, shards, out, pad)
        agree_on_shards(peer, rank, 0)
        rows = align_guest({peer.peer: peer}, ids, pad) if rank == 0 else align_host(peer, ids, pad)
        write_frame(out, frame.iloc[rows])
        return len(rows), len(frame)

    rank = config.names.index(name)
    with ray_cluster() if shards else nullcontext():
        return run_pair(config.network, rank, config.credentials(name), program)
