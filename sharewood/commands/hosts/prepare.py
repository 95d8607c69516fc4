"""Make correlated randomness for a training with the other party in advance, without a dealer. Reads no data.

The sizes are those of [plan]. `train` uses each party's file `prepared` once.

Example: sharewood prepare --config party_a.toml --party party_a
"""

from __future__ import annotations

from dataclasses import dataclass

from mpc.errors import ConfigError
from protocols.offline.pairwise.client import prepare as make_prepared
from protocols.offline.pairwise.prepared import preparable
from protocols.runtime.hosts import run_pair
from protocols.transport.channel import Channel
from secure_tree.training.cost import plan_training
from sharewood.commands.options import Config, FilesKey, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.session import bringing
from sharewood.job.sizes import planned
from sharewood.logs import say
from sharewood.tables.files import writable


def prepare(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    made = prepare_training(job, party)
    say(f"prepared {made.pieces:,} of {made.requests:,} requests; the rest needs data or exchanges no messages")
    say(f"{made.traffic / 1e6:.2f} MB exchanged with the other party")
    say(f"wrote {job.needs(party, 'prepared')}, {made.size / 1e6:.2f} MB")


@dataclass(frozen=True)
class Preparation:
    """What was prepared: the number of requests, out of those of the plan; bytes of the file, and sent and received."""

    pieces: int
    requests: int
    size: int
    traffic: int


def prepare_training(config: HostsConfig, name: str) -> Preparation:
    """Make correlated randomness for a training of the sizes in `[plan]` with the other party, in a file."""
    with bringing(config, name, supplied=False):
        if config.offline != "pairwise":
            raise ConfigError(
                'prepare must be used with offline = "pairwise": with a dealer there is nothing to prepare'
            )
        out = config.needs(name, "prepared")
        asked = [(demand.requests, demand.times) for demand in plan_training(*planned(config), dealer=False)]
        plan, key = preparable(asked), config.file_key()
        writable(out)
    rank = config.names.index(name)

    def program(peer: Channel) -> Preparation:
        with make_prepared(rank, peer, config.names, plan, out, config.ot, key) as made:
            requests = sum(len(each) * times for each, times in asked)
            return Preparation(made.count, requests, made.size, peer.wire_sent + peer.wire_received)

    return run_pair(config.network, rank, config.credentials(name), program)
