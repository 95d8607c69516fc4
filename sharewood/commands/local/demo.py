"""Train and predict between two party processes, and compare with XGBoost on the pooled rows.

Example: sharewood demo --data bank_a.csv bank_b.csv --label defaulted --trees 50
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Annotated, Any, get_args

import numpy as np
import typer

from mpc.errors import ConfigError
from mpc.host.files import make_folder, write_bytes
from mpc.host.frames import pd
from mpc.meter import Stage
from mpc.party import Party
from protocols.ot.correlated import OtKind
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import FROM_DEALER, Maker, Offline
from protocols.runtime.workers.keeper import run_apart
from protocols.runtime.workers.ray_cluster import check_shards
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.model.storage import write_json
from secure_tree.owners.contributing import MOST_EDGE_BITS
from secure_tree.public.config import Partition, TrainConfig
from sharewood.commands.options import OUTPUT, one_of
from sharewood.job.apart import check_apart
from sharewood.logs import in_json, say_document
from sharewood.page import demo_page
from sharewood.report.demo import DemoCosts, DemoReport, DemoTables, LearningCurve, print_report
from sharewood.report.figures import InputFiles, Quality, Run
from sharewood.report.learning_curve import points, staged_margins
from sharewood.report.progress import Progress
from sharewood.report.quality import quality, without_metrics
from sharewood.report.reference import Reference, without_xgboost
from sharewood.report.shards import by_shard, peaks, with_workers
from sharewood.tables import demo_data
from sharewood.tables.demo_data import DemoData
from sharewood.tables.files import writable
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")

# Groups of options in the help.
TABLES, TREES, COMPUTATION = "Tables", "Trees", "Computation"
_HALVES = tuple(f"{name}.npz" for name in PARTIES)
_FIGURES, _PAGE = "result.json", "report.html"
# The files that the demo writes.
RESULTS = (*_HALVES, _FIGURES, _PAGE)


def demo(
    data: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Two tables, CSV or parquet, one per party.", rich_help_panel=TABLES),
    ] = None,
    label: Annotated[
        str, typer.Option(help="Label column of the files, if no schema file declares it.", rich_help_panel=TABLES)
    ] = "y",
    schema: Annotated[
        list[Path] | None,
        typer.Option(
            help="Schema file of both tables; repeat the option for one file per table.", rich_help_panel=TABLES
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Table to evaluate the model on.", rich_help_panel=TABLES)] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a synthetic table.", rich_help_panel=TABLES)] = None,
    features: Annotated[int | None, typer.Option(help="Features of a synthetic table.", rich_help_panel=TABLES)] = None,
    trees: Annotated[int, typer.Option(help="Number of trees.", rich_help_panel=TREES)] = 20,
    depth: Annotated[int, typer.Option(help="Depth of each tree.", rich_help_panel=TREES)] = 3,
    bins: Annotated[str, typer.Option(help='Bins per feature, or "exact".', rich_help_panel=TREES)] = "32",
    edges: Annotated[
        str,
        typer.Option(
            help="Bins by rows. private: each party's own quantiles; joint: public quantiles of all rows.",
            rich_help_panel=TREES,
        ),
    ] = "private",
    local_bins: Annotated[
        int | None,
        typer.Option(help="Bins of each party with private edges, a multiple of --bins.", rich_help_panel=TREES),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="binary:logistic, or an objective of numbers: reg:squarederror, count:poisson, ...",
            rich_help_panel=TREES,
        ),
    ] = "binary:logistic",
    test_size: Annotated[
        float, typer.Option(help="Fraction of rows held out; 0 evaluates on the training rows.", rich_help_panel=TABLES)
    ] = 0.2,
    partition: Annotated[
        str, typer.Option(help="horizontal: each party has rows; vertical: each has columns.", rich_help_panel=TABLES)
    ] = "horizontal",
    offline: Annotated[
        str,
        typer.Option(help="dealer: a third process deals; pairwise: no dealer is needed.", rich_help_panel=COMPUTATION),
    ] = "dealer",
    ot: Annotated[
        str,
        typer.Option(
            help="Oblivious transfers for pairwise: ferret, or softspoken, which does not assume LPN.",
            rich_help_panel=COMPUTATION,
        ),
    ] = "ferret",
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Audit the computation; about three times the bytes.", rich_help_panel=COMPUTATION
        ),
    ] = False,
    shards: Annotated[
        int,
        typer.Option(
            help="Number of workers per party, on its own Ray cluster; 0 for none.", rich_help_panel=COMPUTATION
        ),
    ] = 0,
    owners: Annotated[
        int,
        typer.Option(
            help="Owners of rows: two are the parties, and more contribute rows that no party knows.",
            rich_help_panel=TABLES,
        ),
    ] = 2,
    json: Annotated[Path | None, typer.Option(help="Also write the report to this file.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the report and the model halves.", rich_help_panel=OUTPUT)
    ] = Path("out/demo"),
) -> None:
    if lacking := without_metrics():
        raise ConfigError(f"the demo measures quality, and {lacking}")
    divided: Partition = one_of("--partition", partition, get_args(Partition))
    maker: Maker = one_of("--offline", offline, get_args(Maker))
    how = Offline(maker, one_of("--ot", ot, get_args(OtKind)))
    if shards:
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
    more = _owners(owners, data is not None or divided == "vertical" or edges == "private", test_size)
    parameters = _parameters(objective, trees, depth, bins, edges=edges, local_bins=local_bins, **more)
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
        chosen = demo_data.synthetic(rows or 0, features or 0, config.objective, test_size, divided, owners)
    else:
        if not logistic:
            raise ConfigError("the built-in dataset has classes: use --data, or --rows and --features, for regression")
        chosen = demo_data.built_in(test_size, divided, owners)
    origin = {"party_a": data[0], "party_b": data[1], "test": test} if data else {}
    report = run_demo(chosen, parameters, out, offline=how, audit=audit, shards=shards, files=origin)
    if json:
        write_json(json, report.document())
    if in_json():
        say_document(report.document())
    else:
        print_report(report, out)


def _owners(count: int, apart: bool, test_size: float) -> dict[str, Any]:
    """Return the parameters that more than two owners need. Raises ConfigError."""
    if count < 2:
        raise ConfigError(f"--owners must be at least 2, got {count}")
    if count == 2:
        return {}
    if apart:
        raise ConfigError("--owners above 2 needs --edges joint, rows, and the built-in or a synthetic table")
    if not test_size:
        raise ConfigError("--owners above 2 needs a --test-size above 0: nobody predicts an owner's rows")
    return {"edge_bits": MOST_EDGE_BITS}


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


def run_demo(
    data: DemoData,
    parameters: dict[str, Any],
    out: Path,
    progress: bool = True,
    offline: Offline = FROM_DEALER,
    audit: bool = False,
    shards: int = 0,
    files: Mapping[str, Path | None] = MappingProxyType({}),
) -> DemoReport:
    """Train and predict between processes; return the report, and write it to `out` as JSON and as a page.

    With `shards`, each party divides its rows among that many workers. `files` are those that the data was read from,
    by role.
    """
    read = InputFiles.of(**files)
    missing = data.missing or "none"
    config = TrainConfig.of(**parameters, partition=data.partition, missing=missing)
    if why := without_xgboost():
        log.warning("%s. The demo continues without it", why)
    make_folder(out)
    warm_up(offline.maker, offline.ot)
    estimator = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    few = data.few()

    def job(party: Party) -> dict[str, Any]:
        if party.rank or not progress:
            log.setLevel(logging.WARNING)
        began = perf_counter()
        with Progress(party, config) as shown:
            model = estimator(**config.model_dump()).fit(
                party, *data.train[party.rank], observer=shown, contributed=party.contributed
            )
        seconds = perf_counter() - began
        model.save(out / _HALVES[party.rank])
        margins = model.predict_margin(party, data.test[party.rank][0], data.method)
        costs = {
            name: {k: asdict(v) for k, v in c.items()} for name, c in (("stages", party.stages), ("parts", party.parts))
        }
        revealed = list(party.revealed)
        drawn = pd.concat([tables[party.rank][0] for tables in few.values()], ignore_index=True)
        staged = staged_margins(party, model, drawn, data.method)
        again = dict.fromkeys(party.revealed[len(revealed) :])
        revealed += [f"{what} after every step of the learning curve" for what in again]
        assert model.model is not None, "fit has set it"
        learned = {"seconds": seconds, "margins": margins, "staged": staged, "revealed": revealed}
        return {"pairing": model.model.facts.pairing, **learned, **costs}

    outcome = run_session(job, offline=offline, audit=audit, shards=shards, owners=data.owners)
    results = [outcome[name]["result"] for name in PARTIES]
    stages, parts = (
        [{name: Stage(**spent) for name, spent in r[kind].items()} for r in results] for kind in ("stages", "parts")
    )
    workers = [outcome[name].get("workers", []) for name in PARTIES]
    stages = [with_workers(own, each) for own, each in zip(stages, workers, strict=True)]
    memory = {name: peaks(outcome[name]["memory_peak_bytes"], outcome[name].get("workers", [])) for name in outcome}
    X, labels = data.pooled(data.test)
    margins = {"Sharewood": np.concatenate([r["margins"] for r in results])}
    reference = None if why else Reference.alike(config, *data.pooled(data.trained))
    if reference:
        margins["XGBoost"] = reference.margins(X)
    measures = {name: quality(labels, each, config) for name, each in margins.items()}
    report = DemoReport(
        run=Run.now(results[0]["pairing"], read),
        data=DemoTables(
            rows=[len(features) for features, _ in data.trained],
            owners=list(data.owners),
            features=X.shape[1],
            partition=data.partition,
            title=data.title,
            judged_on="training rows" if data.test is data.train else f"{len(labels)} held-out rows",
        ),
        config=config,
        quality=Quality(measures["Sharewood"], measures.get("XGBoost", {})),
        curve=_curve(data, config, [r["staged"] for r in results], reference),
        costs=DemoCosts.of(max(r["seconds"] for r in results), stages, parts, config.n_estimators, len(labels)),
        revealed=[r["revealed"] for r in results],
        memory_peak_bytes=memory,
        pid={name: outcome[name]["pid"] for name in outcome},
        generator=offline.maker,
        contributions={name: outcome[name]["result"] for name in data.owners},
        shards=shards,
        by_shard={name: by_shard(each) for name, each in zip(PARTIES, workers, strict=True)} if shards else None,
    )
    write_json(out / _FIGURES, report.document())
    write_bytes(out / _PAGE, demo_page(report, labels, margins).encode())
    return report


def _curve(data: DemoData, config: TrainConfig, staged: list[np.ndarray], reference: Reference | None) -> LearningCurve:
    """Return the learning curve, beside XGBoost's: this process has both parties' labels and predictions."""
    curve = LearningCurve(config.metric, points(config.n_estimators))
    start = [0, 0]
    for name, tables in data.few().items():
        features, labels = data.pooled(tables)
        counts = [len(x) if r.shape[1] else 0 for (x, _), r in zip(tables, staged, strict=True)]
        mine = np.concatenate([r[:, s : s + n] for r, s, n in zip(staged, start, counts, strict=True)], axis=1)
        start = [s + n for s, n in zip(start, counts, strict=True)]
        curve.rows[name] = len(labels)
        curve.sharewood[name] = [_metric(labels, m, config) for m in mine]
        if reference:
            theirs = (reference.margins(features, count) for count in curve.trees)
            curve.xgboost[name] = [_metric(labels, m, config) for m in theirs]
    return curve


def _metric(labels: np.ndarray, margins: np.ndarray, config: TrainConfig) -> float:
    value = quality(labels, margins, config)[config.metric]
    assert value is not None, "the demo's metrics are defined for one class, too"
    return value
