"""The commands `sharewood dealer | align | prepare | train | predict | reveal | share` on one host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.encryption import FileKey
from mpc.host.files import alone_in, file_errors, make_folder
from mpc.party import Party
from protocols.offline.pairwise.client import prepare as make_ahead
from protocols.offline.pairwise.prepared import Prepared, preparable
from protocols.psi.alignment import align_guest, align_host, psi
from protocols.psi.shards import agree_on_shards
from protocols.runtime.dealer_host import run_dealer
from protocols.runtime.hosts import decline, run_pair, run_party
from protocols.runtime.workers.ray_cluster import ray_cluster
from protocols.runtime.workers.ray_workers import with_workers
from protocols.transport.channel import Channel
from protocols.transport.tcp import listen
from secure_tree.exchange.plain_model import PlainModel, reveal_model, share_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import read_json, write_json
from secure_tree.public.config import TrainConfig
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.training.cost import plan_training
from sharewood.cost.plan import planned
from sharewood.job.apart import Paths, check_apart
from sharewood.job.config import HostsConfig
from sharewood.job.failures import told_plainly
from sharewood.job.files import (
    check_predictions,
    own_half,
    own_ray,
    rows_to_predict,
    training_tables,
    write_predicted,
)
from sharewood.job.paths import NOTHING, check_paths
from sharewood.job.work import fit, predict
from sharewood.report.figures import Inputs, Run
from sharewood.report.progress import Watch
from sharewood.report.quality import quality_of_predictions
from sharewood.report.run import (
    PartyCosts,
    PartyReport,
    PredictionReport,
    PredictionTable,
    RoundsOfTrees,
    ShardTables,
    TrainingReport,
    TrainingTables,
    write_reports,
)
from sharewood.tables.alignment import align_in_shards, check_folder
from sharewood.tables.files import writable, write_frame
from sharewood.tables.sharded import Sharded
from sharewood.tables.tables import Rows, read_joinable
from sharewood.warm_up import warm_up

T = TypeVar("T")


def connected(
    config: HostsConfig, name: str, job: Callable[[Party], T], prepared: Prepared | None = None, *, doing: str
) -> T:
    """Run a job as party `name` of the configuration; `prepared` is that of `run_party`, `doing` of `told_plainly`."""
    config.party(name)

    def told(party: Party) -> T:
        with told_plainly(lambda: doing):
            return job(party)

    return run_party(config.network, config.names.index(name), config.credentials(name), told, prepared=prepared)


def on_workers(
    config: HostsConfig, name: str, job: Callable[[Party], T], prepared: Prepared | None = None, *, doing: str
) -> T:
    """Run a job likewise, with each party's rows divided among workers if the configuration has shards."""
    if not config.shards:
        return connected(config, name, job, prepared, doing=doing)
    network, own = config.network, config.party(name)
    # Every worker loads the keys on its own machine.
    credentials = partial(config.credentials, name)

    def divided(party: Party) -> T:
        host = network.meeting[0] if own.ray is None else None
        workers = with_workers(party, config.shards, network, host, credentials, own.worker_ports)
        with told_plainly(lambda: doing), workers:
            return job(party)

    leads = replace(network, shards=config.shards)
    return run_party(leads, config.names.index(name), config.credentials(name), divided)


@contextmanager
def bringing(
    config: HostsConfig, name: str, supplied: bool = True, writes: Paths = NOTHING, reads: Paths = NOTHING
) -> Iterator[None]:
    """If this party refuses its own files or settings in the block, notify the other party if it is already waiting.

    `writes` and `reads` are files that the command line names. Raises ConfigError, DataError.
    """
    try:
        with file_errors():
            if name in config.names:
                check_paths(config, name, writes, reads)
            yield
    except (ConfigError, DataError):
        if name in config.names:
            with suppress(ConfigError):  # of the keys
                decline(config.network, config.names.index(name), config.credentials(name), supplied)
        raise


def deal(config: HostsConfig, sessions: int | None) -> None:
    """Serve the two parties."""
    address = config.network.dealer
    if address is None or config.dealer is None:
        raise ConfigError('the configuration has no dealer: with offline = "pairwise" none is needed')
    with listen(address, config.credentials("dealer")) as listener:
        waits = {"patience": config.patience, "timeout": config.timeout}
        warm_up()  # once, instead of in every session's process
        run_dealer(listener, config.names, sessions=sessions, memory=config.dealer.memory_bytes, **waits)


def align(config: HostsConfig, name: str, shards: int = 0) -> tuple[int, int]:
    """Join the party's table with the other's on the ids (protocols.psi.alignment); return the rows kept, and all rows.

    Each party writes its own rows of the common ids, in the same order; with `shards`, into a folder of that many
    files.
    """
    with bringing(config, name, supplied=False):
        psi()
        columns = config.columns(name)
        source, out = config.needs(name, "align_data"), config.needs(name, "aligned")
        if shards:
            check_folder(out)
        else:
            frame, ids = read_joinable(source, columns)
            writable(out)

    def program(peer: Channel) -> tuple[int, int]:
        if shards:
            return align_in_shards(peer, rank, source, columns, shards, out)
        agree_on_shards(peer, rank, 0)
        rows = align_guest({peer.peer: peer}, ids) if rank == 0 else align_host(peer, ids)
        write_frame(out, frame.iloc[rows])
        return len(rows), len(frame)

    rank = config.names.index(name)
    with ray_cluster() if shards else nullcontext():
        return run_pair(config.network, rank, config.credentials(name), program)


@dataclass(frozen=True)
class Preparation:
    """What was prepared: the number of requests, out of those of the plan; bytes of the file, and sent and received."""

    pieces: int
    requests: int
    size: int
    traffic: int


def prepare(config: HostsConfig, name: str) -> Preparation:
    """Make correlated randomness for a training of the sizes in `[plan]` with the other party, in a file."""
    with bringing(config, name, supplied=False):
        if config.offline != "pairwise":
            raise ConfigError(
                'prepare must be used with offline = "pairwise": with a dealer there is nothing to prepare'
            )
        out = config.needs(name, "prepared")
        asked = [(demand.kinds, demand.times) for demand in plan_training(*planned(config), dealer=False)]
        plan, key = preparable(asked), config.file_key()
        writable(out)
    rank = config.names.index(name)

    def program(peer: Channel) -> Preparation:
        with make_ahead(rank, peer, config.names, plan, out, config.ot, key) as made:
            requests = sum(len(kinds) * times for kinds, times in asked)
            return Preparation(made.count, requests, made.size, peer.wire_sent + peer.wire_received)

    return run_pair(config.network, rank, config.credentials(name), program)


def train(
    config: HostsConfig, name: str, resume: bool, json: Path | None, watch: Watch | None = None
) -> TrainingReport:
    """Train on the party's file, write its half of the model, and return a report of costs.

    If the configuration names a folder for checkpoints, every round of trees is kept there, and `resume` continues from
    them. Prepared material is used as far as the training needs it. `watch` receives the progress of the training.
    """
    with ExitStack() as stack:
        with bringing(config, name):
            stack.enter_context(own_ray(config, name))
        return _train(config, name, resume, json, watch, stack)


def _train(
    config: HostsConfig, name: str, resume: bool, json: Path | None, watch: Watch | None, stack: ExitStack
) -> TrainingReport:
    with bringing(config, name, writes={"--json": json}):
        folder = config.needs(name, "checkpoints") if resume else config.party(name).checkpoints
        key = config.file_key()
        checkpoints = Checkpoints(folder, resume, key=key) if folder else None
        parameters, rows, validation = training_tables(config, name)
        before = own_half(config, name, "continue_from") if config.party(name).continue_from else None
        out = config.needs(name, "model")
        for path in [out, *([json] if json else [])]:
            writable(path)
        if checkpoints:
            if not resume:
                make_folder(checkpoints.folder)
            stack.enter_context(alone_in(checkpoints.folder))
        own = config.party(name)
        read = Inputs.of(train_data=own.train_data, test_data=own.test_data)
        material = own.prepared
        prepared = Prepared(material, config.names.index(name), config.names, key) if material else None

    def program(party: Party) -> TrainingReport:
        # After the parties have connected: it may take longer than the other's `patience`.
        warm_up(config.offline, config.ot)
        estimator = fit(party, parameters.model_dump(), rows, validation, checkpoints, watch, own.minimum_rows, before)
        assert estimator.model is not None, "fit has set it"
        estimator.model.save(out, key)
        known, used = estimator.model.facts, estimator.config
        trees = RoundsOfTrees.of(estimator, checkpoints.done if checkpoints else None)
        return TrainingReport(
            costs=PartyCosts.of(party, name, trees=None if resume else trees.grown),
            run=Run.now(known.pairing, read, model=out),
            data=TrainingTables(
                list(known.layout.rows),
                list(known.validation_rows),
                len(known.names),
                *_weights_and_positives(rows, used),
            ),
            config=used,
            rounds_of_trees=trees,
            metric=used.metric,
            curve=estimator.curve,
            curves=estimator.curves,
            division=ShardTables.of(estimator),
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
    return report


def _weights_and_positives(rows: Rows | Sharded, config: TrainConfig) -> tuple[bool | None, float | None]:
    """Return whether own rows have weights, and the share of labels that are 1; None where only workers know."""
    weighted = rows.weights is not None if isinstance(rows, Rows) else None
    if rows.labels is None or config.objective != "binary:logistic":
        return weighted, None
    return weighted, float(np.mean(rows.labels))


def predict_rows(config: HostsConfig, name: str, json: Path | None) -> PredictionReport:
    """Predict the party's file with its half of the model, write what it learns as a table, and return a report."""
    with ExitStack() as stack:
        with bringing(config, name):
            stack.enter_context(own_ray(config, name))
        return _predict(config, name, json)


def _predict(config: HostsConfig, name: str, json: Path | None) -> PredictionReport:
    with bringing(config, name, writes={"--json": json}):
        model, own = own_half(config, name), config.names.index(name)
        layout, to = model.facts.layout, config.predict.to
        if to is not None and not layout.vertical:
            raise ConfigError(
                "predict.to must be used with data by columns: by rows, each party learns those of its own rows"
            )
        receiver = model.facts.label_holder if to is None else config.names.index(to)
        rows = rows_to_predict(config, name, model)
        out = check_predictions(config, name) if receiver in (None, own) else None
        if json:
            writable(json)
        read = Inputs.of(predict_data=config.needs(name, "predict_data"), model=config.party(name).model)
        output, mac = config.predict.output if model.config.logistic else "margin", config.predict.mac

    def program(party: Party) -> tuple[np.ndarray, PartyCosts]:
        warm_up(config.offline, config.ot)
        values = predict(party, model, rows, output, config.predict.method, receiver if layout.vertical else None, mac)
        return values, PartyCosts.of(party, name, rows=len(rows.features))

    values, costs = on_workers(config, name, program, doing="rows were predicted")
    # The workers have ended by now, and their CPUs are free for writing.
    labels = write_predicted(config, name, model, rows, values, output) if out else None
    report = PredictionReport(
        costs=costs,
        run=Run.now(model.facts.pairing, read, predictions=out),
        data=PredictionTable(len(rows.features), len(model.facts.names)),
        config=model.config,
        predict=config.predict.model_dump(),
    )
    page = None
    if out:
        from sharewood.page import prediction_page

        if labels is not None:
            report.quality = quality_of_predictions(labels, values, output, model.config)
        page = prediction_page(name, report, values, labels, model.config.logistic and not model.config.num_class)
    write_reports(out, page, report, json)
    return report


def reveal(config: HostsConfig, name: str, to: str) -> PartyReport:
    """Reveal the model to the party `to`, if both configurations consent; `to` writes it to its file `revealed`."""
    with bringing(config, name):
        config.party(to)
        if to not in config.party(name).reveal_to:
            raise ConfigError(f"parties.{name}.reveal_to does not list {to}: this party has not consented")
        key = config.file_key()
        model = SharedModel.load(config.needs(name, "model"), key)
        out = config.needs(name, "revealed") if to == name else None
        if out:
            writable(out)

    def program(party: Party) -> PartyReport:
        plain = reveal_model(party, model, config.names.index(to))
        if plain is not None and out is not None:
            plain.save(out, key)
        return PartyReport(PartyCosts.of(party, name))

    report = connected(config, name, program, doing="the model was revealed")
    write_reports(out, None, report, None)
    return report


def share(config: HostsConfig, name: str, source: Path | None) -> PartyReport:
    """Turn one party's XGBoost model (`source`; None at the other party) into a half at each party, for `predict`.

    `missing` in `[train]` names the features that may be missing in rows to predict.
    """
    with bringing(config, name, reads={"--model": source}):
        out, key = config.needs(name, "model"), config.file_key()
        writable(out)
        plain = from_xgboost(read_json(source, "model of XGBoost in JSON"), str(source)) if source else None

    def program(party: Party) -> PartyReport:
        share_model(party, plain, TrainConfig.of(**config.train).missing).save(out, key)
        return PartyReport(PartyCosts.of(party, name))

    report = connected(config, name, program, doing="the model was shared")
    if plain is None:
        report.costs.revealed = ["the model's objective, feature names, classes, number and largest depth of trees"]
    write_reports(out, None, report, None)
    return report


def export(model: Path, out: Path, key: FileKey | None = None) -> None:
    """Write a revealed model as XGBoost's JSON."""
    check_apart({"--out": out}, {"--model": model})
    document = to_xgboost(PlainModel.load(model, key))
    writable(out)
    write_json(out, document)
