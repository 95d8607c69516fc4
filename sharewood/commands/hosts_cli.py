"""The commands of a job between hosts; `sharewood.cli` adds them to the application."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from mpc.errors import ConfigError
from mpc.host.extras import install
from sharewood.commands.options import (
    Audited,
    Config,
    FilesKey,
    Json,
    Macs,
    PartyName,
    Passphrase,
    RayAddress,
    Shards,
    one_of,
)
from sharewood.logs import in_json, say, say_document

if TYPE_CHECKING:
    from sharewood.job.config import HostsConfig
    from sharewood.report.run import PartyReport

app = typer.Typer()


@app.command()
def dealer(
    config: Config,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Number of sessions after which the dealer exits.")
    ] = None,
    passphrase: Passphrase = None,
) -> None:
    """Deal correlated randomness to the two parties, session after session, until interrupted."""
    from sharewood.commands.hosts import deal

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
    """Join this party's table with the other's on their ids, and write the common rows in the same order.

    Each party learns the common ids, and the number of the other party's ids. No dealer is needed.
    """
    from sharewood.commands.hosts import align

    job = _job(config, passphrase=passphrase)
    _with_ray(shards)
    kept, count = align(job, party, shards)
    say(f"aligned: {kept} of {count} rows have ids that the other party also has")


@app.command()
def prepare(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    """Make correlated randomness for a training with the other party in advance, without a dealer. Reads no data.

    The sizes are those of [plan]. `train` uses each party's file `prepared` once.
    """
    from sharewood.commands.hosts import prepare

    job = _job(config, passphrase=passphrase, files_key=files_key)
    made = prepare(job, party)
    say(f"prepared {made.pieces:,} of {made.requests:,} requests; the rest needs data or exchanges no messages")
    say(f"{made.traffic / 1e6:.2f} MB exchanged with the other party")
    say(f"wrote {job.needs(party, 'prepared')}, {made.size / 1e6:.2f} MB")


@app.command()
def train(
    config: Config,
    party: PartyName,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints, at both parties.")] = False,
    before: Annotated[
        Path | None,
        typer.Option("--from", help="This party's half of a model to add rounds of trees to, at both parties."),
    ] = None,
    audit: Audited = False,
    shards: Shards = None,
    ray: RayAddress = None,
    json: Json = None,
    live: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Show the training on a page at this port of 127.0.0.1.")
    ] = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Train with the other party, and write this party's half of the model."""
    from sharewood.commands.hosts import train
    from sharewood.report.live import watching

    started = monotonic()
    job = _job(config, passphrase=passphrase, files_key=files_key).audited(audit).on_cluster(party, shards, ray)
    job = job.continuing(party, before)
    files = {"data": job.party(party).train_data, "model": job.party(party).model}
    about = {"party": party, "other": next(name for name in job.names if name != party)}
    _with_ray(job.shards)
    with watching(live, about | {role: path.name for role, path in files.items() if path}) as watch:
        report = train(job, party, resume, json, watch)
    _print_costs("trained", report, started)


@app.command()
def predict(
    config: Config,
    party: PartyName,
    audit: Audited = False,
    mac: Macs = False,
    shards: Shards = None,
    ray: RayAddress = None,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Predict this party's rows with the other party, and write a table of predictions."""
    from sharewood.commands.hosts import predict_rows

    started = monotonic()
    job = (
        _job(config, passphrase=passphrase, files_key=files_key)
        .audited(audit)
        .on_cluster(party, shards, ray)
        .with_macs(mac)
    )
    _with_ray(job.shards)
    _print_costs("predicted", predict_rows(job, party, json), started)


@app.command()
def report(
    reports: Annotated[list[Path], typer.Argument(help="Reports in JSON, written by --json.")],
    page: Annotated[Path | None, typer.Option(help="Also write the comparison as a page to this file.")] = None,
) -> None:
    """Compare runs by their reports: differences of configuration, quality and cost."""
    from sharewood.report.compare import compare

    compare(reports, page)


@app.command()
def serve(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    """Serve predictions over HTTP together with the other party's service, until SIGTERM or SIGINT."""
    try:
        from sharewood.serving import http
        from sharewood.serving.service import Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "prometheus_client"):
            raise
        raise ConfigError(f"sharewood serve needs {error.name}: {install('serve')}") from None
    http.run(Service(_job(config, passphrase=passphrase, files_key=files_key), party))


@app.command()
def reveal(
    config: Config,
    party: PartyName,
    to: Annotated[str, typer.Option(help="Party that sees the model.")],
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Reveal the model to one party, if both configurations name it in reveal_to."""
    from sharewood.commands.hosts import reveal

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
    """Show how much each feature matters to the model. Both parties must request the same kind, and both see it."""
    from secure_tree.prediction.importance import KINDS
    from sharewood.commands.importance import importance
    from sharewood.job.config import HostsConfig

    asked = one_of("--kind", kind, KINDS)
    started = monotonic()
    report = importance(HostsConfig.read(config), party, asked, out, json)
    if in_json():
        say_document({"kind": kind, "importance": report.importance})
    else:
        width = max(map(len, report.importance))
        for name, value in report.importance.items():
            say(f"{name:{width}}  {value:.6g}")
    _print_costs("revealed", report, started)


@app.command()
def export(
    model: Annotated[Path, typer.Option(help="A revealed model.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    format: Annotated[str, typer.Option(help="xgboost: JSON that xgboost.Booster loads.")] = "xgboost",
    files_key: FilesKey = None,
) -> None:
    """Write a revealed model in another format."""
    from mpc.host.encryption import FileKey
    from sharewood.commands.hosts import export
    from sharewood.job.secrets import named

    if format != "xgboost":
        raise ConfigError(f"--format must be xgboost, got {format!r}")
    source = named({"files_key": files_key}).get("files_key")
    export(model, out, FileKey.parse(source.text(), str(source)) if source else None)
    say(f"wrote {out}")


@app.command()
def share(
    config: Config,
    party: PartyName,
    model: Annotated[Path | None, typer.Option(help="The XGBoost model in JSON, at the party that has it.")] = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    """Turn one party's plain XGBoost model into shares, for `sharewood predict`."""
    from sharewood.commands.hosts import share

    started = monotonic()
    _print_costs("shared", share(_job(config, passphrase=passphrase, files_key=files_key), party, model), started)


def _job(config: Path, **sources: str | None) -> HostsConfig:
    """Read the configuration, with sources of secrets replaced by those of the command line. Raises ConfigError."""
    from sharewood.job.config import HostsConfig
    from sharewood.job.secrets import named

    return HostsConfig.read(config).model_copy(update=named(sources))


def _with_ray(shards: int) -> None:
    """Go on in another process if the command uses Ray, which may end that process at any time."""
    if shards:
        from protocols.runtime.workers.keeper import run_apart

        run_apart()


def _print_costs(what: str, report: PartyReport, started: float) -> None:
    """Print the seconds since `started` and of each stage, traffic, what this party learned, and the written files."""
    from sharewood.report.figures import merge_texts

    stages = report.costs.stages
    rounds, sent = sum(stage.rounds for stage in stages.values()), sum(stage.bytes for stage in stages.values())
    parts = ", ".join(f"{name.replace('_', ' ')} {stage.seconds:.1f} s" for name, stage in stages.items())
    say(f"{what} in {monotonic() - started:.1f} s, including start-up and waiting ({parts})")
    say(f"{rounds:.0f} rounds, {sent / 1e6:.2f} MB exchanged with the other party")
    learned = "; ".join(merge_texts(report.costs.revealed)) or "nothing"
    say(f"this party learned, besides row counts, feature names and parameters: {learned}")
    if report.written:
        say(f"wrote {' and '.join(report.written)}")
