"""The commands that prepare a job: keys, configurations, checks, plans; `sharewood.cli` adds them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, get_args

import typer

from mpc.errors import ConfigError
from sharewood.commands.options import Config, Json, one_of
from sharewood.logs import in_json, say, say_document

app = typer.Typer()


@app.command()
def keygen(
    out: Annotated[Path, typer.Option(help="New folder for keys and certificates.")],
    names: Annotated[str, typer.Option(help="First name; the others follow it.")],
    more: Annotated[list[str] | None, typer.Argument(help="Further names.", show_default=False)] = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long the certificates are valid.")] = 365,
    authority: Annotated[
        Path | None,
        typer.Option(help="Folder of the signing authority, created if missing; keep it to renew certificates later."),
    ] = None,
) -> None:
    """Make keys and certificates for mutual TLS: NAME.key and NAME.crt for every name, and one authority.crt.

    Give each host its own key and certificate, and authority.crt. Without --authority, the authority's key is not kept.
    """
    from protocols.transport.certificates import Authority, make_credentials

    everybody = [names, *(more or [])]
    for name in everybody:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise ConfigError(f"a name must consist of letters, digits, dots, dashes and underscores, got {name!r}")
    if len(set(everybody)) < len(everybody):
        raise ConfigError("names must be distinct, got a duplicate")
    if (out / "authority.crt").exists():
        raise ConfigError(f"{out} already has certificates: choose another folder")
    kept = Authority.kept(authority) if authority else None
    for name, credentials in make_credentials(everybody, days, kept).items():
        credentials.save(out, name)
    say(f"{out}: keys and certificates for {', '.join(everybody)}, valid for {days} days")


@app.command()
def init(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("."),
    address: Annotated[str, typer.Option(help="host:port where party_a listens.")] = "127.0.0.1:50011",
    dealer: Annotated[str, typer.Option(help="host:port where the dealer listens.")] = "127.0.0.1:50010",
    offline: Annotated[str, typer.Option(help="dealer, or pairwise, which needs no third party.")] = "dealer",
    partition: Annotated[str, typer.Option(help="horizontal: each party has rows; vertical: columns.")] = "horizontal",
) -> None:
    """Write a commented configuration for each host of a job: party_a.toml, party_b.toml, dealer.toml."""
    from protocols.runtime.hosts import Offline
    from secure_tree.public.config import Partition
    from sharewood.commands.init import write_first_files

    maker: Offline = one_of("--offline", offline, get_args(Offline))
    divided: Partition = one_of("--partition", partition, get_args(Partition))
    files = write_first_files(out, address, dealer, maker, divided)
    say(f"wrote {', '.join(map(str, files.values()))}")
    say("next: edit them, and then run")
    say(f"  sharewood keygen --out {out / 'keys'} --names {' '.join(files)}")
    for role, path in files.items():
        say(f"  sharewood check --config {path} --party {role}")


@app.command()
def check(
    config: Config,
    party: Annotated[str, typer.Option(help="This host's role: one of the parties, or dealer.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait for each other host.")] = 5.0,
) -> None:
    """Check this host before a job: files, schema, certificate, clock, port, and connections to the other hosts.

    The exit status is 0, or 2 if this host is at fault, or 3 if only another host is.
    """
    from sharewood.commands.check import check
    from sharewood.job.config import HostsConfig

    status = 0
    for finding in check(HostsConfig.read(config), party, seconds):
        mark = "error" if finding.error else "warning" if finding.warning else "ok"
        if in_json():
            say_document({"check": finding.what, "outcome": mark, "text": finding.text})
        else:
            say(f"{mark:8}{finding.what}: {finding.text}")
        if finding.error:
            status = min(filter(None, (status, finding.error.exit_status)))
    raise typer.Exit(status)


@app.command()
def plan(
    config: Config,
    json: Json = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Number of shards per party to plan for.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of workers per party to plan for; each holds one shard at a time."),
    ] = None,
    memory: Annotated[
        float | None, typer.Option(min=0.1, help="Memory per worker in GiB; prints how many shards are needed.")
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            min=1e-3, help="Bandwidth between the hosts in Mbit/s, each way: by default 100, between clusters 10000."
        ),
    ] = None,
    round_trip: Annotated[
        float | None,
        typer.Option(
            min=0, help="Round-trip time between the hosts in milliseconds: by default 40, between clusters 10."
        ),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Also print seconds by phase, and bytes by kind.")] = False,
    hour_price: Annotated[float, typer.Option(min=0, help="Price of one worker per hour.")] = 0.0,
    gigabyte_price: Annotated[float, typer.Option(min=0, help="Price per GB sent.")] = 0.0,
    disk: Annotated[
        float, typer.Option(min=1, help="MB/s of a worker's disk, for temporary files beyond --memory.")
    ] = 500.0,
) -> None:
    """Estimate a training: correlated randomness, rounds, bytes, time. Reads no data, and computes on generated rows.

    With --shards, --workers or --memory, plan a training over clusters, from a few generated rows.
    """
    from secure_tree.model.storage import write_json
    from sharewood.cost import plan as planning
    from sharewood.cost.calibration import calibrate
    from sharewood.cost.cluster import Cluster, plan_cluster, print_cluster_plan
    from sharewood.job.config import HostsConfig

    job = HostsConfig.read(config)
    shape = planning.planned(job)
    if shards or workers or memory:
        prices = hour_price, gigabyte_price
        cluster = Cluster(
            shards, workers, memory, *_network(link, round_trip, (10e-3, 10e9))[::-1], *prices, disk * 1e6
        )
        over_shards = plan_cluster(*shape, cluster, job.offline, job.ot)
        if json:
            write_json(json, over_shards.document())
        print_cluster_plan(over_shards)
        return
    paired = calibrate(*shape, "pairwise", job.ot)
    networks = planning.NETWORKS
    if link is not None or round_trip is not None:
        networks = {planning.OWN_LINK: _network(link, round_trip, networks["WAN"])}
    needed = planning.plan(*shape, calibrate(*shape), paired, job.ot, networks)
    if json:
        write_json(json, needed.document())
    planning.print_plan(needed, job.names, networks, details)


def _network(link: float | None, round_trip: float | None, usual: tuple[float, float]) -> tuple[float, float]:
    """Return the round trip in seconds and the rate in bits per second."""
    return usual[0] if round_trip is None else round_trip / 1e3, usual[1] if link is None else link * 1e6
