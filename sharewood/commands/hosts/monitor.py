"""Reveal how a model does on the rows of predict_data, as the section monitor asks: drift, calibration, fairness.

Both learn rounded statistics, or an alarm bit for each. A ledger at each keeps count, and refuses rows that were
monitored within the period.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.model.shared_model import SharedModel
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.monitor import Monitored
from secure_tree.monitor.monitor import monitor as monitor_rows
from secure_tree.monitor.profile import Profile, make_profile
from sharewood.commands.options import Config, FilesKey, Json, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.files import own_half
from sharewood.job.session import bringing, connected
from sharewood.job.work import JobFacts, agree, check_ids
from sharewood.logs import in_json, say, say_document
from sharewood.record.keeping import Record
from sharewood.report.figures import InputFiles, Run
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.tables.columns import Columns
from sharewood.tables.files import Place, read_cells, writable
from sharewood.tables.tables import TableRows, good_labels, ids_of, known_labels, read_frame, read_rows
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")

Labels = Annotated[Path | None, typer.Option(help="Table of ids and labels of the rows, if predict_data has none.")]
Making = Annotated[bool, typer.Option("--make-profile", help="Write the profile of train_data instead, at both.")]


@dataclass
class MonitoringReport(PartyReport):
    """A report with the revealed statistics; None where too few rows have one. `ledger`: the number of the line."""

    run: Run
    config: MonitorConfig
    statistics: dict[str, Any]
    alarms: list[str]
    rows: list[int]
    resolution: float
    bits: dict[str, int]
    ledger: int | None


@dataclass(frozen=True)
class _Rows:
    """What a party brings."""

    table: TableRows
    labels: np.ndarray | None
    groups: pd.Series | None


def monitor(
    config: Config,
    party: PartyName,
    labels: Labels = None,
    make_profile: Making = False,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    if make_profile:
        say(f"{profile_party(job, party)} is written")
        return
    report = monitor_party(job, party, labels, json)
    if in_json():
        say_document({"statistics": report.statistics, "alarms": report.alarms})
    else:
        for name, value in report.statistics.items():
            say(f"{name}: {value}")
    print_costs("monitored", report, started)


def profile_party(config: HostsConfig, name: str) -> Path:
    """Count the rows of `train_data` with the other party, and write this party's half of the profile."""
    with bringing(config, name):
        model, own = _model(config, name), config.party(name)
        out, asked = config.needs(name, "profile"), config.monitor or MonitorConfig.of()
        rows = _rows(config, name, model, config.needs(name, "train_data"), None)
        writable(out)

    def program(party: Party) -> Profile:
        warm_up(config.offline, config.ot)
        _agree(party, model, rows.table, True)
        return make_profile(party, model, rows.table.features, rows.labels, span=asked.span, method=asked.method)

    connected(config, name, program, doing="the profile was counted").save(out, config.file_key())
    assert own.profile is not None, "needed"
    return own.profile


def monitor_party(config: HostsConfig, name: str, labels: Path | None, json: Path | None) -> MonitoringReport:
    """Monitor the rows of `predict_data` with the other party; write the statistics and a page."""
    with bringing(config, name, writes={"--json": json}, reads={"--labels": labels}):
        model, own = _model(config, name), config.party(name)
        asked, key = config.monitor or MonitorConfig.of(), config.file_key()
        data = config.needs(name, "predict_data")
        rows = _rows(config, name, model, data, labels)
        profile = Profile.load(own.profile, key) if own.profile else None
        for path in [p for p in (own.monitored, json) if p]:
            writable(path)
        if own.ledger and not rows.table.has_ids:
            raise DataError(f"{data}: must have ids, by which the ledger recognises rows")
        read = InputFiles.of(predict_data=data, model=own.model)
        files = {"predict_data": data, "labels": labels, "model": own.model, "profile": own.profile}
        record = Record(config, name, "monitor", **files)

    def program(party: Party) -> tuple[Monitored, PartyCosts]:
        warm_up(config.offline, config.ot)
        record.begin(party)
        _agree(party, model, rows.table, False)
        found = monitor_rows(
            party,
            model,
            rows.table.features,
            rows.labels,
            group=rows.groups,
            profile=profile,
            ids=rows.table.ids if own.ledger else None,
            ledger=own.ledger,
            key=key,
            **asked.model_dump(),
        )
        costs = PartyCosts.of(party, name, rows=len(rows.table.features))
        entries = [] if found.ledger is None else [found.ledger]
        results = {"model": model.facts.pairing, "monitoring": found.run, "bits": _bits(found)}
        record.end(party, asked.model_dump(mode="json"), results, rows=len(rows.table.features), entries=entries)
        return found, costs

    found, costs = connected(config, name, program, doing="rows were monitored")
    if own.monitored:
        found.save(own.monitored)
    report = MonitoringReport(
        costs,
        run=Run.now(found.run, read, monitored=own.monitored),
        config=asked,
        statistics=found.document(),
        alarms=list(found.alarms),
        rows=list(found.rows),
        resolution=found.resolution,
        bits=_bits(found),
        ledger=found.ledger,
        record=record.report,
    )
    from sharewood.page.monitoring import monitoring_page

    write_reports(own.monitored, monitoring_page(found, name, config.names), report, json)
    record.settle()
    return report


def _bits(found: Monitored) -> dict[str, int]:
    return {str(part): bits for part, bits in found.bits.items()}


def _model(config: HostsConfig, name: str) -> SharedModel:
    if config.shards or config.audit:
        raise ConfigError("monitor must run without shards and without audit: leave them out of the configuration")
    return own_half(config, name)


def _agree(party: Party, model: SharedModel, rows: TableRows, profile: bool) -> None:
    theirs = agree(party, JobFacts.of(job="monitor", same={"profile": profile}, ids=rows.has_ids))
    if model.config.partition == "vertical":
        check_ids(party, theirs, rows)


def _rows(config: HostsConfig, name: str, model: SharedModel, data: Path, later: Path | None) -> _Rows:
    """Read rows with features of the model, their labels if there are any, and their groups. Raises DataError."""
    columns, protected = config.columns(name), config.party(name).protected
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    table = read_rows(data, columns, names, model.config.may_miss)
    groups = None
    if protected and data == config.party(name).predict_data:
        frame = read_frame(data, columns)
        if protected not in frame:
            raise DataError(f"{data}: has no column {protected!r}, which parties.{name}.protected names")
        groups = frame[protected]
    labels = known_labels(data, columns, names, 2) if later is None else _labels(later, columns, table)
    return _Rows(table, labels, groups)


def _labels(path: Path, columns: Columns, table: TableRows) -> np.ndarray:
    """Read labels of rows by their ids, in any order. Raises DataError."""
    key, label = columns.named("id"), columns.named("label")
    if table.ids is None or key is None or label is None:
        raise DataError(f"{path}: labels are joined by id: the rows must have ids, and the configuration a label")
    frame = read_cells(path, {key})
    ids = ids_of(Place(path), frame, columns)
    if ids is None or label not in frame:
        raise DataError(f"{path} must have the columns {key!r} and {label!r}, got {', '.join(map(str, frame))}")
    if ids.duplicated().any():
        raise DataError(f"{path}: id {ids[ids.duplicated()].iloc[0]!r} appears twice")
    found = pd.Series(frame[label].to_numpy(), index=ids).reindex(table.ids)
    if found.isna().any():
        raise DataError(f"{path} has no label of row {found.index[int(found.isna().to_numpy().argmax())]!r}")
    labels = good_labels(found, 2)
    if labels is None:
        raise DataError(f"{path}: column {label!r}: labels must be 0 or 1")
    return labels
