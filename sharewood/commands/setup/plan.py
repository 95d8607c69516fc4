"""Estimate a training: correlated randomness, rounds, bytes, time. Reads no data, and computes on generated rows.

With --shards, --workers or --memory, plan a training over clusters, from a few generated rows. For the file of an
owner, print what it sends; this reads its table.

Example: sharewood plan --config party_a.toml --round-trip 20 --link 100
"""

from __future__ import annotations

from typing import Annotated

import typer

from protocols.runtime.settings import Offline
from secure_tree.model.storage import write_json
from sharewood.commands.options import OUTPUT, Config, Json
from sharewood.cost import plan as planning
from sharewood.cost.calibration import calibrate
from sharewood.cost.cluster import Cluster, plan_cluster, print_cluster_plan
from sharewood.cost.parts import planned_exploration, planned_monitoring, planned_reasons
from sharewood.cost.plan_tables import print_plan
from sharewood.job.config import HostsConfig
from sharewood.job.owners import OwnerConfig, shown_upload
from sharewood.job.sizes import planned
from sharewood.logs import say

# Groups of options in the help.
LINK, CLUSTERS = "Link", "Clusters"


def plan(
    config: Config,
    json: Json = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Number of shards per party to plan for.", rich_help_panel=CLUSTERS)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of workers per party to plan for; each holds one shard at a time.",
            rich_help_panel=CLUSTERS,
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Memory per worker in GiB; prints how many shards are needed.", rich_help_panel=CLUSTERS
        ),
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            min=1e-3,
            help="Bandwidth between the hosts in Mbit/s, each way: by default 100, between clusters 10000.",
            rich_help_panel=LINK,
        ),
    ] = None,
    round_trip: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Round-trip time between the hosts in milliseconds: by default 40, between clusters 10.",
            rich_help_panel=LINK,
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also print seconds by phase, and bytes by kind.", rich_help_panel=OUTPUT)
    ] = False,
    hour_price: Annotated[
        float, typer.Option(min=0, help="Price of one worker per hour.", rich_help_panel=CLUSTERS)
    ] = 0.0,
    gigabyte_price: Annotated[float, typer.Option(min=0, help="Price per GB sent.", rich_help_panel=CLUSTERS)] = 0.0,
    disk: Annotated[
        float,
        typer.Option(
            min=1, help="MB/s of a worker's disk, for temporary files beyond --memory.", rich_help_panel=CLUSTERS
        ),
    ] = 500.0,
) -> None:
    if OwnerConfig.describes(config):
        say(shown_upload(OwnerConfig.read(config)))
        return
    job = HostsConfig.read(config)
    shape = planned(job)
    if shards or workers or memory:
        prices = hour_price, gigabyte_price
        cluster = Cluster(
            shards, workers, memory, *_network(link, round_trip, (10e-3, 10e9))[::-1], *prices, disk * 1e6
        )
        over_shards = plan_cluster(*shape, cluster, job.how)
        if json:
            write_json(json, over_shards.document())
        print_cluster_plan(over_shards)
        return
    paired = calibrate(*shape, Offline("pairwise", job.ot))
    networks = planning.NETWORKS
    if link is not None or round_trip is not None or job.link:
        usual = (job.link.measured.round_trip, job.link.measured.rate) if job.link else networks["WAN"]
        networks = {planning.OWN_LINK: _network(link, round_trip, usual)}
    needed = planning.plan(*shape, calibrate(*shape), paired, job.ot, networks)
    parts = {"explore": planned_exploration(job.explore, shape[1], job.ot)} if job.explore else {}
    if job.monitor:
        parts["monitor"] = planned_monitoring(job.monitor, *shape, job.ot)
    if job.predict.reasons:
        table, rows = planned_reasons(*shape, job.predict.reasons, job.predict.method, job.ot)
        parts |= {"reasons_table": table, "reasons": rows}
    if json:
        write_json(json, needed.document() | {name: part.document() for name, part in parts.items()})
    print_plan(needed, job.names, networks, details)
    for part in parts.values():
        say(str(part))


def _network(link: float | None, round_trip: float | None, usual: tuple[float, float]) -> tuple[float, float]:
    """Return the round trip in seconds and the rate in bits per second."""
    return usual[0] if round_trip is None else round_trip / 1e3, usual[1] if link is None else link * 1e6
