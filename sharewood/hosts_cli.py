"""The commands for hosts of their own; `sharewood.cli` puts them into the application."""

from __future__ import annotations

import re
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from mpc.errors import ConfigError

if TYPE_CHECKING:
    from sharewood.hosts_config import HostsConfig
    from sharewood.run_report import PartyReport

Config = Annotated[Path, typer.Option(help="TOML file of the job.")]
PartyName = Annotated[str, typer.Option(help="This host's party, by its name in the configuration.")]
Audited = Annotated[bool, typer.Option("--audit", help="Audit the computation, at both parties.")]
Passphrase = Annotated[
    str | None, typer.Option(help="Passphrase of this host's private key: file:PATH or env:NAME.", metavar="SOURCE")
]
FilesKey = Annotated[
    str | None,
    typer.Option(help="Key of this host's models, checkpoints and prepared material: file:PATH or env:NAME."),
]
Macs = Annotated[bool, typer.Option("--mac", help="Check every opened value by MACs, at both parties.")]
CheckedDealer = Annotated[
    bool, typer.Option("--check-dealer", help="Audit the dealer's material as well; implies --audit.")
]
Json = Annotated[Path | None, typer.Option(help="Also write the report to this file.")]
Shards = Annotated[
    int | None, typer.Option(help="Number of workers that the rows are divided among; equal at both parties.")
]
RayAddress = Annotated[
    str | None, typer.Option("--ray", help="Address of this party's own Ray cluster; by default a Ray on this machine.")
]

Choice = TypeVar("Choice")

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

    Give each host its own key and certificate, and authority.crt. Without --authority the authority's key is not kept.
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
    typer.echo(f"{out}: keys and certificates for {', '.join(everybody)}, valid for {days} days")


@app.command()
def init(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("."),
    address: Annotated[str, typer.Option(help="host:port where party_a listens.")] = "127.0.0.1:50011",
    dealer: Annotated[str, typer.Option(help="host:port where the dealer listens.")] = "127.0.0.1:50010",
    offline: Annotated[str, typer.Option(help="dealer; or pairwise, without a third party.")] = "dealer",
    partition: Annotated[str, typer.Option(help="horizontal: each party has rows; vertical: columns.")] = "horizontal",
) -> None:
    """Write a commented configuration for each host of a job: party_a.toml, party_b.toml, dealer.toml."""
    from protocols.runtime.hosts import Offline
    from secure_tree.config import Partition
    from sharewood.first_files import write_first_files

    maker: Offline = one_of("--offline", offline, get_args(Offline))
    divided: Partition = one_of("--partition", partition, get_args(Partition))
    files = write_first_files(out, address, dealer, maker, divided)
    typer.echo(f"wrote {', '.join(map(str, files.values()))}")
    typer.echo("next: edit them, and then")
    typer.echo(f"  sharewood keygen --out {out / 'keys'} --names {' '.join(files)}")
    for role, path in files.items():
        typer.echo(f"  sharewood check --config {path} --party {role}")


@app.command()
def check(
    config: Config,
    party: Annotated[str, typer.Option(help="This host's role: one of the parties, or dealer.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait for each other host.")] = 5.0,
) -> None:
    """Check this host before an appointment: files, schema, certificate, clock, port, and the way to the other hosts.

    Exit status: 0, 2 where something on this host is wrong, 3 where only another host is at fault.
    """
    from sharewood.checking import check
    from sharewood.hosts_config import HostsConfig

    status = 0
    for finding in check(HostsConfig.read(config), party, seconds):
        mark = "error" if finding.error else "warning" if finding.warning else "ok"
        typer.echo(f"{mark:8}{finding.what}: {finding.text}")
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
    link: Annotated[float, typer.Option(min=1e-3, help="Bandwidth between the clusters in Gbit/s, each way.")] = 10.0,
    round_trip: Annotated[
        float, typer.Option(min=0, help="Round-trip time between the clusters in milliseconds.")
    ] = 10.0,
    hour_price: Annotated[float, typer.Option(min=0, help="Price of one worker per hour.")] = 0.0,
    gigabyte_price: Annotated[float, typer.Option(min=0, help="Price per GB sent.")] = 0.0,
    disk: Annotated[
        float, typer.Option(min=1, help="MB/s of a worker's disk, for temporary files that --memory does not hold.")
    ] = 500.0,
) -> None:
    """Estimate a training: correlated randomness, rounds, bytes, time. Reads no data, and computes on made-up rows.

    --shards, --workers or --memory plan a training over clusters, from few made-up rows.
    """
    from secure_tree.storage import write_json
    from sharewood import planning
    from sharewood.calibration import calibrate
    from sharewood.cluster_plan import Cluster, plan_cluster, print_cluster_plan
    from sharewood.hosts_config import HostsConfig

    job = HostsConfig.read(config)
    shape = planning.planned(job)
    if shards or workers or memory:
        prices = hour_price, gigabyte_price
        cluster = Cluster(shards, workers, memory, link * 1e9, round_trip / 1e3, *prices, disk * 1e6)
        over_shards = plan_cluster(*shape, cluster, job.offline, job.ot)
        if json:
            write_json(json, over_shards.document())
        print_cluster_plan(over_shards)
        return
    paired = None if shape[0].comparison == "keys" else calibrate(*shape, "pairwise", job.ot)
    needed = planning.plan(*shape, calibrate(*shape), paired, job.ot)
    if json:
        write_json(json, needed.document())
    planning.print_plan(needed, job.names)


@app.command()
def dealer(
    config: Config,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Number of sessions after which the dealer exits.")
    ] = None,
    passphrase: Passphrase = None,
) -> None:
    """Deal correlated randomness to the two parties, session after session, until interrupted."""
    from sharewood.hosts import deal

    deal(_job(config, passphrase=passphrase), sessions)


@app.command()
def align(
    config: Config,
    party: PartyName,
    shards: Annotated[
        int, typer.Option(min=0, max=4096, help="Write a folder of this many files; no process holds the whole table.")
    ] = 0,
    passphrase: Passphrase = None,
) -> None:
    """Join this party's table with the other's on their ids; writes the rows that both have, in one order.

    Each party learns the ids that both have and how many the other has; needs no dealer.
    """
    from sharewood.hosts import align

    kept, count = align(_job(config, passphrase=passphrase), party, shards)
    typer.echo(f"aligned: {kept} of {count} rows have ids that the other party has, too")


@app.command()
def prepare(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    """Make correlated randomness with the other party ahead of a training, without a dealer; reads no data.

    The sizes are those of [plan]. Each party's file `prepared` is used by `train`, once.
    """
    from sharewood.hosts import prepare

    job = _job(config, passphrase=passphrase, files_key=files_key)
    made = prepare(job, party)
    typer.echo(f"prepared {made.pieces:,} of {made.requests:,} requests; the rest needs data or exchanges no messages")
    typer.echo(f"{made.traffic / 1e6:.2f} MB exchanged with the other party")
    typer.echo(f"wrote {job.needs(party, 'prepared')}, {made.size / 1e6:.2f} MB")


@app.command()
def train(
    config: Config,
    party: PartyName,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints, at both parties.")] = False,
    audit: Audited = False,
    check_dealer: CheckedDealer = False,
    shards: Shards = None,
    ray: RayAddress = None,
    json: Json = None,
    live: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Show the training on a page at this port of 127.0.0.1.")
    ] = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Train with the other party; writes this party's half of the model."""
    from sharewood.hosts import train
    from sharewood.live import watching

    started = monotonic()
    job = (
        _job(config, passphrase=passphrase, files_key=files_key)
        .audited(audit, check_dealer)
        .on_cluster(party, shards, ray)
    )
    with watching(live) as watch:
        report = train(job, party, resume, json, watch)
    _print_costs("trained", report, started)


@app.command()
def predict(
    config: Config,
    party: PartyName,
    audit: Audited = False,
    check_dealer: CheckedDealer = False,
    mac: Macs = False,
    shards: Shards = None,
    ray: RayAddress = None,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Predict this party's rows with the other party; writes a CSV."""
    from sharewood.hosts import predict_rows

    started = monotonic()
    job = (
        _job(config, passphrase=passphrase, files_key=files_key)
        .audited(audit, check_dealer)
        .on_cluster(party, shards, ray)
        .with_macs(mac)
    )
    _print_costs("predicted", predict_rows(job, party, json), started)


@app.command()
def report(
    reports: Annotated[list[Path], typer.Argument(help="Reports in JSON, written by --json.")],
    page: Annotated[Path | None, typer.Option(help="Also write the comparison to this file, as a page.")] = None,
) -> None:
    """Compare runs by their reports: what differs in their configurations, their quality and what they cost."""
    from sharewood.compare import compare

    compare(reports, page)


@app.command()
def serve(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    """Answer predictions over HTTP with the other party's service, until SIGTERM or SIGINT."""
    try:
        from sharewood.serving import http
        from sharewood.serving.service import Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "prometheus_client"):
            raise
        raise ConfigError(f"sharewood serve needs {error.name}: pip install 'sharewood[serve]'") from None
    http.run(Service(_job(config, passphrase=passphrase, files_key=files_key), party))


@app.command()
def reveal(
    config: Config,
    party: PartyName,
    to: Annotated[str, typer.Option(help="Party that sees the model.")],
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Open the model to one party; only if both configurations name it in reveal_to."""
    from sharewood.hosts import reveal

    started = monotonic()
    _print_costs("revealed", reveal(_job(config, passphrase=passphrase, files_key=files_key), party, to), started)


@app.command()
def importance(
    config: Config,
    party: PartyName,
    kind: Annotated[str, typer.Option(help="weight, gain, total_gain, cover or total_cover, as in XGBoost.")] = "gain",
    out: Annotated[Path | None, typer.Option(help="Also write a table, CSV or parquet.")] = None,
    json: Json = None,
) -> None:
    """Show how much each feature matters to the model; revealed to both parties, where both ask for the same kind."""
    from secure_tree.importance import KINDS
    from sharewood.hosts_config import HostsConfig
    from sharewood.importance import importance

    asked = one_of("--kind", kind, KINDS)
    started = monotonic()
    report = importance(HostsConfig.read(config), party, asked, out, json)
    width = max(map(len, report.importance))
    for name, value in report.importance.items():
        typer.echo(f"{name:{width}}  {value:.6g}")
    _print_costs("revealed", report, started)


@app.command()
def export(
    model: Annotated[Path, typer.Option(help="A revealed model.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    format: Annotated[str, typer.Option(help="xgboost: JSON that xgboost.Booster loads.")] = "xgboost",
    files_key: FilesKey = None,
) -> None:
    """Write a revealed model in another format."""
    from mpc.encryption import FileKey
    from sharewood.hosts import export
    from sharewood.secret_sources import named

    if format != "xgboost":
        raise ConfigError(f"--format must be xgboost, got {format!r}")
    source = named({"files_key": files_key}).get("files_key")
    export(model, out, FileKey.parse(source.text(), str(source)) if source else None)
    typer.echo(f"wrote {out}")


@app.command()
def share(
    config: Config,
    party: PartyName,
    model: Annotated[Path | None, typer.Option(help="The XGBoost model in JSON, at the party that has it.")] = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Turn one party's plain XGBoost model into shares, for predict."""
    from sharewood.hosts import share

    started = monotonic()
    _print_costs("shared", share(_job(config, passphrase=passphrase, files_key=files_key), party, model), started)


def _job(config: Path, **sources: str | None) -> HostsConfig:
    """The configuration, where the command line names no source of a secret instead. Raises ConfigError."""
    from sharewood.hosts_config import HostsConfig
    from sharewood.secret_sources import named

    return HostsConfig.read(config).model_copy(update=named(sources))


def one_of(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    """Raises ConfigError."""
    found = next((choice for choice in choices if choice == value), None)
    if found is None:
        raise ConfigError(f"{option} must be {' or '.join(map(str, choices))}, got {value!r}")
    return found


def _print_costs(what: str, report: PartyReport, started: float) -> None:
    """Seconds since `started`, and of its stages; traffic; what this party learned; what was written."""
    stages = report.costs.stages
    rounds, sent = sum(stage.rounds for stage in stages.values()), sum(stage.bytes for stage in stages.values())
    parts = ", ".join(f"{name.replace('_', ' ')} {stage.seconds:.1f} s" for name, stage in stages.items())
    typer.echo(f"{what} in {monotonic() - started:.1f} s, including start-up and waiting ({parts})")
    typer.echo(f"{rounds:.0f} rounds, {sent / 1e6:.2f} MB exchanged with the other party")
    learned = "; ".join(report.costs.revealed) or "nothing"
    typer.echo(f"this party learned, besides row counts, feature names and parameters: {learned}")
    if report.written:
        typer.echo(f"wrote {' and '.join(report.written)}")
