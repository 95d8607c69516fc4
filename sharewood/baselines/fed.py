"""Run one of three published systems, each of which protects less than Sharewood's own training: see docs/. \
All parties run on this machine, on CSV files or on scikit-learn's breast cancer set.

Example: sharewood fed secureboost --data guest.csv host.csv --trees 20
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from mpc.host.files import make_folder
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.secureboost.config import SecureBoostConfig
from sharewood.commands.options import Json, fields_as_options, one_of

if TYPE_CHECKING:
    from sharewood.baselines.report import FedReport

First = Annotated[list[Path] | None, typer.Option("--data", help="CSV files, one per client or party.")]
More = Annotated[list[Path] | None, typer.Argument(help="Further CSV files.", show_default=False)]
Label = Annotated[str, typer.Option(help="Label column.")]
Test = Annotated[Path | None, typer.Option(help="CSV file to evaluate the model on.")]
TestSize = Annotated[float, typer.Option(help="Fraction of rows held out; 0 evaluates on the training rows.")]
Clients = Annotated[int, typer.Option(min=1, help="Number of clients for the built-in set.")]
Divided = Annotated[
    str,
    typer.Option(
        help="Division of the built-in set: equal, along the first principal component, or by labels, unevenly: "
        "equal, component or labels."
    ),
]
Secure = Annotated[bool, typer.Option("--secure", help="Use secure sums, with one more process as helper.")]
Processes = Annotated[
    bool, typer.Option("--processes", help="Run a superlink and supernodes instead of the simulation.")
]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]

# The options of SecureBoost; its other parameters are set in the file of a job between hosts.
_SECUREBOOST = "objective", "n_estimators", "max_depth", "max_bin", "encryption", "key_bits", "guest_only", "epsilon"

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
@fields_as_options(FedXGBllrConfig)
def fedxgbllr(
    *,
    data: First = None,
    more: More = None,
    label: Label = "y",
    test: Test = None,
    test_size: TestSize = 0.25,
    clients: Clients = 2,
    divided: Divided = "equal",
    config: FedXGBllrConfig,
    secure: Secure = False,
    processes: Processes = False,
    json: Json = None,
    out: Out = Path("out/fedxgbllr"),
) -> None:
    """Run FedXGBllr: every client's trees, then one small network over all of them. One file per client."""
    _installed("flwr", "federated")
    files = _files(data, more, test)
    config.trees_per_client(len(files) or clients)
    _by_rows(config, files, label, test, test_size, clients, divided, secure, processes, json, out)


@app.command()
@fields_as_options(VirtualSamplesConfig)
def virtual_samples(
    *,
    data: First = None,
    more: More = None,
    label: Label = "y",
    test: Test = None,
    test_size: TestSize = 0.2,
    clients: Clients = 3,
    divided: Divided = "equal",
    config: VirtualSamplesConfig,
    update_share: Annotated[
        float,
        typer.Option(help="With an update: fraction of each client's rows that the base model is trained without."),
    ] = 0.2,
    secure: Secure = False,
    processes: Processes = False,
    json: Json = None,
    out: Out = Path("out/virtual-samples"),
) -> None:
    """Run federated XGBoost on clusters of rows, with a sparse update if it has trees. One file per client."""
    _installed("flwr", "federated")
    if not 0 < update_share < 1:
        raise ConfigError(f"--update-share must be between 0 and 1, got {update_share:g}")
    files, share = _files(data, more, test), update_share if config.update_estimators else 0.0
    _by_rows(config, files, label, test, test_size, clients, divided, secure, processes, json, out, share)


@app.command()
@fields_as_options(SecureBoostConfig, _SECUREBOOST)
def secureboost(
    *,
    data: First = None,
    more: More = None,
    label: Label = "y",
    test_size: TestSize = 0.2,
    parties: Annotated[int, typer.Option(min=2, help="Number of parties, guest and hosts, for the built-in set.")] = 2,
    config: SecureBoostConfig,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="TOML file of a job between several hosts, instead of --data.")
    ] = None,
    party: Annotated[str | None, typer.Option(help="This host's party in --config.")] = None,
    predict: Annotated[bool, typer.Option("--predict", help="With --config: predict with the saved model.")] = False,
    json: Json = None,
    out: Out = Path("out/secureboost"),
) -> None:
    """Run SecureBoost on columns of a guest, which has the labels, and hosts. The guest's file, then one per host.

    A column `id` in all files aligns their rows privately. With --config and --party, this host is one party over
    mutual TLS, with files and parameters from the TOML file: see docs/secureboost.md.
    """
    _installed("nacl", "secureboost")
    from sharewood.baselines import by_columns, column_hosts

    if config_file or party or predict:
        if not (config_file and party) or data or more:
            raise ConfigError("--config and --party go together, and without --data; --predict needs both")
        job = column_hosts.ColumnHosts.read(config_file)
        return column_hosts.predict(job, party) if predict else column_hosts.train(job, party)
    files = _files(data, more, None)
    _checked(test_size, json, out, files)
    if len(files) == 1:
        raise ConfigError("--data must name the guest's file and one file per host, got one file")
    if not files and config.objective != "binary:logistic":
        raise ConfigError("the built-in dataset has classes: use --data for other objectives")
    chosen = by_columns.from_files(files, label, config.objective) if files else by_columns.built_in(parties)
    _finish(by_columns.run(config, chosen, test_size, out), json)


def _by_rows(
    config: FedXGBllrConfig | VirtualSamplesConfig,
    files: Sequence[Path],
    label: str,
    test: Path | None,
    test_size: float,
    clients: int,
    divided: str,
    secure: bool,
    processes: bool,
    json: Path | None,
    out: Path,
    update_share: float = 0.0,
) -> None:
    from sharewood.baselines import by_rows
    from sharewood.baselines.division import DIVISIONS

    _checked(test_size, json, out, [*files, *([test] if test else [])])
    division = one_of("--divided", divided, DIVISIONS)
    if files and division != "equal":
        raise ConfigError("--divided divides the built-in set: with --data, every file is a client")
    if not files and config.objective != "binary:logistic":
        raise ConfigError("the built-in dataset has classes: use --data for regression")
    if files:
        chosen = by_rows.from_files(files, label, test, test_size, config.objective)
    else:
        chosen = by_rows.built_in(clients, test_size, division)
    if secure and len(chosen.training) < 2:
        raise ConfigError(f"--secure needs two clients or more, got {len(chosen.training)}")
    _finish(by_rows.run(config, chosen, secure, processes, out, update_share), json)


def _files(data: list[Path] | None, more: list[Path] | None, test: Path | None) -> list[Path]:
    """Return the files of `--data A B`, or of `--data A --data B`."""
    files = [*(data or []), *(more or [])]
    if test and not files:
        raise ConfigError("--test needs --data")
    return files


def _checked(test_size: float, json: Path | None, out: Path, read: Sequence[Path]) -> None:
    from sharewood.job.apart import check_apart

    check_apart({"--json": json, "--out": out}, {f"file {number}": path for number, path in enumerate(read, 1)})
    if not 0 <= test_size < 1:
        raise ConfigError(f"--test-size must be at least 0 and below 1, got {test_size:g}")
    if json and not json.absolute().parent.is_dir():
        raise ConfigError(f"--json {json}: there is no such directory")
    try:
        make_folder(out)
    except DataError as error:
        raise ConfigError(f"--out {error}") from None


def _installed(module: str, extra: str) -> None:
    from sharewood.report.reference import check_xgboost

    if find_spec(module) is None:
        raise ConfigError(f"{module} is not installed: {install(extra)}")
    check_xgboost()


def _finish(report: FedReport, json: Path | None) -> None:
    from secure_tree.model.storage import write_json
    from sharewood.baselines.report import print_report
    from sharewood.logs import in_json, say_document

    if json:
        write_json(json, report.document())
    if in_json():
        say_document(report.document())
    else:
        print_report(report)
