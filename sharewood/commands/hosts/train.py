"""Train with the other party, and write this party's half of the model.

Example: sharewood train --config party_a.toml --party party_a --json training.json
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Annotated

import numpy as np
import typer

from mpc.errors import DataError, PeerFailure
from mpc.host.files import alone_in, make_folder
from mpc.party import Party
from protocols.offline.pairwise.prepared import Prepared
from protocols.runtime.workers.keeper import run_apart
from secure_tree.public.config import TrainConfig
from secure_tree.public.exact import digest
from secure_tree.training.checkpoint import Checkpoints
from sharewood.commands.options import Audited, Config, FilesKey, Json, PartyName, Passphrase, RayAddress, Shards
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables, own_half, own_ray, training_tables
from sharewood.job.owners import contributed
from sharewood.job.session import bringing, on_workers
from sharewood.job.work import fit
from sharewood.record.keeping import Record
from sharewood.report.figures import InputFiles, Run
from sharewood.report.live import watching
from sharewood.report.progress import Watch
from sharewood.report.run import (
    PartyCosts,
    RoundsOfTrees,
    ShardTables,
    TrainingReport,
    TrainingTables,
    print_costs,
    write_reports,
)
from sharewood.tables.files import writable
from sharewood.tables.sharded import Sharded
from sharewood.tables.tables import TableRows
from sharewood.warming_up import warm_up


def train(
    config: Config,
    party: PartyName,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints, at both parties.")] = False,
    before: Annotated[
        Path | None,
        typer.Option("--from", help="This party's half of a model to add rounds of trees to, at both parties."),
    ] = None,
    screened: Annotated[
        Path | None,
        typer.Option(help="Train on the features that sharewood explore has named in this file, at both parties."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out an owner's contribution, at both parties; repeatable.")
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
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    job = job.audited(audit).on_cluster(party, shards, ray).continuing(party, before)
    files = {"data": job.party(party).train_data, "model": job.party(party).model}
    about = {"party": party, "other": next(name for name in job.names if name != party)}
    if job.shards:
        run_apart()
    with watching(live, about | {role: path.name for role, path in files.items() if path}) as watch:
        report = train_half(job, party, resume, json, watch, without or (), screened)
    print_costs("trained", report, started)


@bringing_tables("train_data", "test_data")
def train_half(
    config: HostsConfig,
    name: str,
    resume: bool,
    json: Path | None,
    watch: Watch | None = None,
    without: Collection[str] = (),
    screened: Path | None = None,
) -> TrainingReport:
    """Train on the party's file, write its half of the model, and return a report of costs.

    If the configuration names a folder for checkpoints, every round of trees is kept there, and `resume` continues from
    them. Prepared material is used as far as the training needs it. `watch` receives the progress of the training.
    `without`: owners whose contributions are left out. `screened`: a file of the features to train on.
    """
    with ExitStack() as stack:
        with bringing(config, name):
            stack.enter_context(own_ray(config, name))
        return _train(config, name, resume, json, watch, without, screened, stack)


def _train(
    config: HostsConfig,
    name: str,
    resume: bool,
    json: Path | None,
    watch: Watch | None,
    without: Collection[str],
    screened: Path | None,
    stack: ExitStack,
) -> TrainingReport:
    with bringing(config, name, writes={"--json": json}, reads={"--screened": screened}):
        folder = config.needs(name, "checkpoints") if resume else config.party(name).checkpoints
        key = config.file_key()
        checkpoints = Checkpoints(folder, resume, key=key) if folder else None
        if config.owners and config.party(name).contributed is None:
            config.needs(name, "owners_address")
        parameters, rows, validation = training_tables(config, name, screened)
        before = own_half(config, name, "continue_from") if config.party(name).continue_from else None
        out = config.needs(name, "model")
        for path in [out, *([json] if json else [])]:
            writable(path)
        if checkpoints:
            if not resume:
                make_folder(checkpoints.folder)
            stack.enter_context(alone_in(checkpoints.folder))
        own = config.party(name)
        tables = {field: config.table(name, field) for field in ("train_data", "test_data")}
        read = InputFiles.of(**tables)
        record = Record(config, name, "train", **tables, continue_from=own.continue_from)
        material = own.prepared
        prepared = Prepared(material, config.names.index(name), config.names, key) if material else None

    def program(party: Party) -> TrainingReport:
        # After the parties have connected: it may take longer than the other's `patience`.
        warm_up(config.offline, config.ot)
        record.begin(party)
        with contributed(config, name, key, without) as owners:
            asked, minimum = parameters.model_dump(), own.minimum_rows
            estimator = fit(party, asked, rows, validation, checkpoints, watch, minimum, before, owners)
        assert estimator.model is not None, "fit has set it"
        estimator.model.save(out, key)
        known, used = estimator.model.facts, estimator.config
        trees = RoundsOfTrees.of(estimator, checkpoints.done if checkpoints else None)
        costs = PartyCosts.of(party, name, trees=None if resume else trees.grown)
        record.end(
            party,
            used.model_dump(mode="json"),
            {
                "model": known.pairing,
                "continues": before and before.facts.pairing,
                "features": len(known.names),
                "names": digest(known.names),
                "owners": {owner: [id, count] for owner, id, count in known.owners},
                "rounds": trees.kept,
                "validation_rows": list(known.validation_rows),
                "metrics": {metric: curve[-1][1] for metric, curve in estimator.curves.items() if curve},
            },
            rows=known.layout.rows[party.rank],
        )
        return TrainingReport(
            costs=costs,
            run=Run.now(known.pairing, read, model=out),
            data=TrainingTables(
                list(known.layout.rows[:2]),
                list(known.validation_rows),
                len(known.names),
                *_weights_and_positives(rows, used),
                {owner: count for owner, _, count in known.owners} or None,
            ),
            config=used,
            rounds_of_trees=trees,
            metric=used.metric,
            curve=estimator.curve,
            curves=estimator.curves,
            division=ShardTables.of(estimator),
            record=record.report,
        )

    try:
        report = on_workers(config, name, program, prepared, doing="a model was trained")
    except (PeerFailure, DataError) as failure:
        if checkpoints is None or not checkpoints.any_kept():
            raise
        raise type(failure)(
            f"{failure}; rounds of trees are kept in {folder}: continue with --resume at both parties"
        ) from None
    from sharewood.page import training_page

    write_reports(out, training_page(name, config.names, report), report, json)
    record.settle()
    return report


def _weights_and_positives(rows: TableRows | Sharded, config: TrainConfig) -> tuple[bool | None, float | None]:
    """Return whether own rows have weights, and the share of labels that are 1; None where only workers know."""
    weighted = rows.weights is not None if isinstance(rows, TableRows) else None
    if rows.labels is None or config.objective != "binary:logistic":
        return weighted, None
    return weighted, float(np.mean(rows.labels))
