"""The `sharewood` command."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer

from mpc.errors import ConfigError, SharewoodError
from mpc.host.files import shown_path
from mpc.host.process import leave_no_core_dump
from protocols.runtime.removed import refuse_removed
from sharewood import __version__
from sharewood.baselines import cli as fed_cli
from sharewood.commands import hosts_cli, purge, schema_cli, setup_cli, tuning_cli
from sharewood.commands.options import one_of
from sharewood.logs import LogFormat, LogLevel, complain, in_json, log_to_stderr, say_document

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.add_typer(setup_cli.app)
app.add_typer(schema_cli.app)
app.add_typer(hosts_cli.app)
app.add_typer(tuning_cli.app)
app.add_typer(purge.app)
app.add_typer(fed_cli.app, name="fed")


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


@app.command()
def demo(
    data: Annotated[tuple[Path, Path] | None, typer.Option(help="Two tables, CSV or parquet, one per party.")] = None,
    label: Annotated[str, typer.Option(help="Label column of the files, if no schema file declares it.")] = "y",
    schema: Annotated[
        list[Path] | None, typer.Option(help="Schema file of both tables; repeat the option for one file per table.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Table to evaluate the model on.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a synthetic table.")] = None,
    features: Annotated[int | None, typer.Option(help="Features of a synthetic table.")] = None,
    trees: Annotated[int, typer.Option(help="Number of trees.")] = 20,
    depth: Annotated[int, typer.Option(help="Depth of each tree.")] = 3,
    bins: Annotated[str, typer.Option(help='Bins per feature, or "exact".')] = "32",
    edges: Annotated[
        str,
        typer.Option(help="Bins by rows. private: each party's own quantiles; joint: public quantiles of all rows."),
    ] = "private",
    local_bins: Annotated[
        int | None, typer.Option(help="Bins of each party with private edges, a multiple of --bins.")
    ] = None,
    objective: Annotated[
        str, typer.Option(help="binary:logistic, reg:squarederror or count:poisson.")
    ] = "binary:logistic",
    test_size: Annotated[
        float, typer.Option(help="Fraction of rows held out; 0 evaluates on the training rows.")
    ] = 0.2,
    partition: Annotated[
        str, typer.Option(help="horizontal: each party has rows; vertical: each has columns.")
    ] = "horizontal",
    offline: Annotated[
        str, typer.Option(help="dealer: a third process deals; pairwise: no dealer is needed.")
    ] = "dealer",
    ot: Annotated[
        str, typer.Option(help="Oblivious transfers for pairwise: ferret, or softspoken, which does not assume LPN.")
    ] = "ferret",
    audit: Annotated[bool, typer.Option("--audit", help="Audit the computation; about three times the bytes.")] = False,
    shards: Annotated[int, typer.Option(help="Number of workers per party, on its own Ray cluster; 0 for none.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Also write the report to this file.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and the model halves.")] = Path("out/demo"),
) -> None:
    """Train and predict between two party processes, and compare with XGBoost on the pooled rows."""
    from protocols.ot.correlated import OtKind
    from protocols.runtime.hosts import Offline
    from secure_tree.model.storage import write_json
    from secure_tree.public.config import Partition, TrainConfig
    from sharewood.commands.demo import RESULTS, run_demo
    from sharewood.job.apart import check_apart
    from sharewood.report.demo import print_report
    from sharewood.tables import demo_data
    from sharewood.tables.files import writable

    divided: Partition = one_of("--partition", partition, get_args(Partition))
    generator: Offline = one_of("--offline", offline, get_args(Offline))
    transfers: OtKind = one_of("--ot", ot, get_args(OtKind))
    if shards:
        from protocols.runtime.workers.keeper import run_apart
        from protocols.runtime.workers.ray_cluster import check_shards

        check_shards("--shards", shards)
        run_apart()
    if not 0 <= test_size < 1:
        raise ConfigError(f"--test-size must be at least 0 and below 1, got {test_size:g}")
    sources = {"the first file": data and data[0], "the second file": data and data[1], "--test": test}
    sources |= {f"schema file {number}": path for number, path in enumerate(schema or (), 1)}
    check_apart({"--json": json, **{f"{file} of --out": out / file for file in RESULTS}}, sources)
    if json:
        writable(json)
    if objective.startswith("multi:"):
        raise ConfigError("the demo trains on two classes, numbers or counts: use sharewood train for several classes")
    parameters = _parameters(objective, trees, depth, bins, edges=edges, local_bins=local_bins)
    config = TrainConfig.of(**parameters)
    logistic = config.logistic
    if data and (rows or features):
        raise ConfigError("--data reads files, --rows and --features make a synthetic table: use one or the other")
    if (test or schema) and not data:
        raise ConfigError(f"--{'test' if test else 'schema'} needs --data")
    if test and divided == "vertical":
        raise ConfigError("--test must be used with data by rows: by columns, --test-size holds out rows")
    if data:
        files = demo_data.Files(data, label, tuple(schema or ()), test)
        read = demo_data.from_columns if divided == "vertical" else demo_data.from_files
        chosen = read(files, test_size, config)
    elif rows or features:
        if (rows or 0) < 2 or (features or 0) < 1:
            raise ConfigError(
                f"a synthetic table needs at least 2 --rows and 1 --features, got {rows or 0} and {features or 0}"
            )
        chosen = demo_data.synthetic(rows or 0, features or 0, config.objective, test_size, divided)
    else:
        if not logistic:
            raise ConfigError("the built-in dataset has classes: use --data, or --rows and --features, for regression")
        chosen = demo_data.built_in(test_size, divided)
    origin = {"party_a": data[0], "party_b": data[1], "test": test} if data else {}
    how: dict[str, Any] = {"offline": generator, "ot": transfers, "audit": audit, "shards": shards}
    report = run_demo(chosen, parameters, out, **how, files=origin)
    if json:
        write_json(json, report.document())
    if in_json():
        say_document(report.document())
    else:
        print_report(report, out)


def _parameters(objective: str, trees: int, depth: int, bins: str, **more: Any) -> dict[str, Any]:
    if bins != "exact" and not bins.isdecimal():
        raise ConfigError(f'--bins must be a number or "exact", got {bins!r}')
    return {
        "objective": objective,
        "n_estimators": trees,
        "max_depth": depth,
        "max_bin": bins if bins == "exact" else int(bins),
        "learning_rate": 0.3,
        "min_child_weight": 1.0,
        "min_split_loss": 0.0,
        **more,
    }


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
