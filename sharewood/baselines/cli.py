"""`sharewood fed secureboost|virtual-samples|fedxgbllr`; `sharewood.cli` adds them to the application."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from mpc.host.files import make_folder
from sharewood.commands.options import one_of

if TYPE_CHECKING:
    from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
    from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
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
Objective = Annotated[str, typer.Option(help="binary:logistic, reg:squarederror or count:poisson.")]
Trees = Annotated[int, typer.Option(help="Number of trees.")]
Depth = Annotated[int, typer.Option(help="Depth of each tree.")]
Json = Annotated[Path | None, typer.Option(help="Also write the report to this file.")]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Run one of three published systems, each of which protects less than Sharewood's own training: see "
    "docs/. All parties run on this machine, on CSV files or on scikit-learn's breast cancer set.",
)


@app.command()
def fedxgbllr(
    data: First = None,
    more: More = None,
    label: Label = "y",
    test: Test = None,
    test_size: TestSize = 0.25,
    clients: Clients = 2,
    divided: Divided = "equal",
    objective: Objective = "binary:logistic",
    trees: Annotated[int, typer.Option(help="Total number of trees of all clients.")] = 500,
    depth: Depth = 8,
    eta: Annotated[float, typer.Option(help="Learning rate of the trees.")] = 0.1,
    reg_alpha: Annotated[float, typer.Option(help="L1 penalty of a leaf's weight.")] = 0.0,
    min_split_loss: Annotated[float, typer.Option(help="Least gain of a split.")] = 0.0,
    subsample: Annotated[float, typer.Option(help="Fraction of the rows that each tree is grown on.")] = 1.0,
    architecture: Annotated[str, typer.Option(help="interpretable, standard or fcnn.")] = "interpretable",
    channels: Annotated[int, typer.Option(help="Channels of the convolution.")] = 64,
    start: Annotated[str, typer.Option(help="Initial weights: mean (of the clients' margins) or kaiming.")] = "mean",
    rounds: Annotated[int, typer.Option(help="Rounds of the network's training.")] = 10,
    local_epochs: Annotated[int, typer.Option(help="Passes over a client's rows per round.")] = 2,
    local_batches: Annotated[int | None, typer.Option(help="Batches per round, instead of --local-epochs.")] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.001,
    betas: Annotated[tuple[float, float], typer.Option(help="Decay rates of Adam's two moments.")] = (0.5, 0.999),
    validation_share: Annotated[
        float, typer.Option(help="Fraction of a client's rows held out to choose the round; 0 keeps the last round.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of trees, network and batches.")] = 0,
    secure: Secure = False,
    processes: Processes = False,
    json: Json = None,
    out: Out = Path("out/fedxgbllr"),
) -> None:
    """Run FedXGBllr: every client's trees, then one small network over all of them. One file per client."""
    _installed("flwr", "federated")
    from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig

    config = FedXGBllrConfig.of(
        objective=objective,
        total_trees=trees,
        max_depth=depth,
        eta=eta,
        reg_alpha=reg_alpha,
        min_split_loss=min_split_loss,
        subsample=subsample,
        architecture=architecture,
        channels=channels,
        start=start,
        rounds=rounds,
        local_epochs=local_epochs,
        local_batches=local_batches,
        batch_size=batch_size,
        learning_rate=learning_rate,
        betas=betas,
        validation_share=validation_share,
        seed=seed,
    )
    files = _files(data, more, test)
    config.trees_per_client(len(files) or clients)
    _by_rows(config, files, label, test, test_size, clients, divided, secure, processes, json, out)


@app.command()
def virtual_samples(
    data: First = None,
    more: More = None,
    label: Label = "y",
    test: Test = None,
    test_size: TestSize = 0.2,
    clients: Clients = 3,
    objective: Objective = "binary:logistic",
    divided: Divided = "equal",
    clusters: Annotated[
        int, typer.Option(help="Clusters per feature; at most the rows of the smallest client are used.")
    ] = 10,
    min_group: Annotated[int, typer.Option(help="Minimum number of rows behind a sum that a client sends.")] = 5,
    trees: Trees = 50,
    depth: Depth = 4,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of the trees.")] = 0.1,
    reg_lambda: Annotated[float, typer.Option(help="L2 penalty of a leaf's weight.")] = 1.0,
    min_split_loss: Annotated[float, typer.Option(help="Least gain of a split.")] = 0.0,
    min_child_weight: Annotated[float, typer.Option(help="Minimum sum of hessians of each side of a split.")] = 1.0,
    update_trees: Annotated[
        int, typer.Option(help="Maximum number of trees in the sparse update; 0 trains on all rows, without an update.")
    ] = 0,
    update_share: Annotated[
        float,
        typer.Option(help="With an update: fraction of each client's rows that the base model is trained without."),
    ] = 0.2,
    rechoose: Annotated[
        bool,
        typer.Option(
            "--rechoose/--choose-once",
            help="Choose misclassified rows again for each tree of the update, or only once.",
        ),
    ] = True,
    update_boundaries: Annotated[
        str, typer.Option(help="Clusters of new rows: base (those of all rows) or new.")
    ] = "base",
    update_check: Annotated[
        float,
        typer.Option(help="Fraction of new rows that decides how many trees of the update are kept; 0 keeps all."),
    ] = 0.2,
    secure: Secure = False,
    processes: Processes = False,
    json: Json = None,
    out: Out = Path("out/virtual-samples"),
) -> None:
    """Run federated XGBoost on clusters of rows, with a sparse update if it has trees. One file per client."""
    _installed("flwr", "federated")
    from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig

    config = VirtualSamplesConfig.of(
        objective=objective,
        clusters=clusters,
        min_group=min_group,
        n_estimators=trees,
        max_depth=depth,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        min_split_loss=min_split_loss,
        min_child_weight=min_child_weight,
        update_estimators=update_trees,
        rechoose=rechoose,
        update_boundaries=update_boundaries,
        update_check=update_check,
    )
    if not 0 < update_share < 1:
        raise ConfigError(f"--update-share must be between 0 and 1, got {update_share:g}")
    files, share = _files(data, more, test), update_share if update_trees else 0.0
    _by_rows(config, files, label, test, test_size, clients, divided, secure, processes, json, out, share)


@app.command()
def secureboost(
    data: First = None,
    more: More = None,
    label: Label = "y",
    test_size: TestSize = 0.2,
    parties: Annotated[int, typer.Option(min=2, help="Number of parties, guest and hosts, for the built-in set.")] = 2,
    objective: Annotated[
        str, typer.Option(help="binary:logistic, multi:softprob, reg:squarederror or count:poisson.")
    ] = "binary:logistic",
    trees: Trees = 20,
    depth: Depth = 3,
    bins: Annotated[int, typer.Option(help="Bins per column, 2 to 126.")] = 32,
    encryption: Annotated[str, typer.Option(help="paillier, or ou (Okamoto-Uchiyama), which is faster.")] = "paillier",
    key_bits: Annotated[int, typer.Option(help="Key size in bits.")] = 2048,
    guest_only: Annotated[
        str, typer.Option(help="Splits that only the guest may own: none, root or first_tree; only none is lossless.")
    ] = "none",
    epsilon: Annotated[
        float | None, typer.Option(help="Differential privacy of the hosts' sums by noise; without it, sums are exact.")
    ] = None,
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
    _installed("private_set_intersection", "secureboost")
    from protocols.baselines.secureboost import SecureBoostConfig
    from sharewood.baselines import by_columns, column_hosts

    if config_file or party or predict:
        if not (config_file and party) or data or more:
            raise ConfigError("--config and --party go together, and without --data; --predict needs both")
        job = column_hosts.ColumnHosts.read(config_file)
        return column_hosts.predict(job, party) if predict else column_hosts.train(job, party)
    config = SecureBoostConfig.of(
        objective=objective,
        n_estimators=trees,
        max_depth=depth,
        max_bin=bins,
        encryption=encryption,
        key_bits=key_bits,
        guest_only=guest_only,
        epsilon=epsilon,
    )
    files = _files(data, more, None)
    _checked(test_size, json, out, files)
    if len(files) == 1:
        raise ConfigError("--data must name the guest's file and one file per host, got one file")
    if not files and objective != "binary:logistic":
        raise ConfigError("the built-in dataset has classes: use --data for other objectives")
    chosen = by_columns.from_files(files, label, objective) if files else by_columns.built_in(parties)
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
