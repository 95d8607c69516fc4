"""Predict this party's rows with the other party, and write a table of predictions.

Example: sharewood predict --config party_a.toml --party party_a --reasons 4
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from mpc.errors import ConfigError
from mpc.party import Party
from protocols.runtime.workers.keeper import run_apart
from secure_tree.owners.columns import features_by_owner
from sharewood.commands.options import (
    Audited,
    Config,
    FilesKey,
    Json,
    Macs,
    PartyName,
    Passphrase,
    RayAddress,
    Reasons,
    Shards,
)
from sharewood.job import work
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables, check_predictions, own_half, own_ray, rows_to_predict, write_predicted
from sharewood.job.owners import met_to_predict
from sharewood.job.session import bringing, on_workers
from sharewood.record.keeping import Record
from sharewood.report.figures import InputFiles, Run
from sharewood.report.quality import quality_of_predictions, without_metrics
from sharewood.report.run import PartyCosts, PredictionReport, PredictionTable, print_costs, write_reports
from sharewood.tables.files import writable
from sharewood.tables.tables import TableRows
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")


def predict(
    config: Config,
    party: PartyName,
    audit: Audited = False,
    mac: Macs = False,
    reasons: Reasons = None,
    shards: Shards = None,
    ray: RayAddress = None,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    job = job.audited(audit).on_cluster(party, shards, ray).with_macs(mac).with_reasons(reasons)
    if job.shards:
        run_apart()
    print_costs("predicted", predict_rows(job, party, json), started)


@bringing_tables("predict_data")
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
        if receiver is not None and receiver > 1:
            raise ConfigError("predict.to must name the party that learns the predictions: an owner had the labels")
        if features_by_owner(model):
            config.needs(name, "owners_address")
        rows = rows_to_predict(config, name, model)
        out = check_predictions(config, name) if receiver in (None, own) else None
        if json:
            writable(json)
        files = {"predict_data": config.needs(name, "predict_data"), "model": config.party(name).model}
        read, record = InputFiles.of(**files), Record(config, name, "predict", **files)
        output, mac = config.predict.output if model.config.logistic else "margin", config.predict.mac

    def program(party: Party) -> tuple[np.ndarray, list[Any], PartyCosts]:
        warm_up(config.offline, config.ot)
        record.begin(party)
        learns, asked, found = receiver if layout.vertical else None, config.predict, list[Any]()
        with met_to_predict(config, name, model) as lines:
            values = work.predict(party, model, rows, output, asked.method, learns, mac, lines, asked.reasons)
        if asked.reasons and isinstance(rows, TableRows):
            said = asked.reasons, asked.toward, asked.groups, asked.show, asked.method
            found = work.explain(party, model, rows, *said, learns)
        costs = PartyCosts.of(party, name, rows=len(rows.features))
        of_reasons = asked.model_dump(include={"reasons", "toward", "groups", "show"}) if asked.reasons else {}
        stated = {"output": output, "method": asked.method, "to": asked.to, "mac": mac, **of_reasons}
        record.end(party, stated, {"model": model.facts.pairing}, rows=len(rows.features))
        return values, found, costs

    values, reasons, costs = on_workers(config, name, program, doing="rows were predicted")
    # The workers have ended by now, and their CPUs are free for writing.
    labels = write_predicted(config, name, model, rows, values, output, reasons) if out else None
    report = PredictionReport(
        costs=costs,
        run=Run.now(model.facts.pairing, read, predictions=out),
        data=PredictionTable(len(rows.features), len(model.facts.names)),
        config=model.config,
        predict=config.predict.model_dump(),
        record=record.report,
    )
    page = None
    if out:
        from sharewood.page import prediction_page

        lacking = without_metrics()
        if labels is not None and lacking:
            log.warning("The predictions are not compared with the labels: %s.", lacking)
        elif labels is not None:
            report.quality = quality_of_predictions(labels, values, output, model.config)
        page = prediction_page(name, report, values, labels, model.config.logistic and not model.config.num_class)
    write_reports(out, page, report, json)
    record.settle()
    return report
