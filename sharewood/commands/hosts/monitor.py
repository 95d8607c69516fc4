"""Reveal how a model does on the rows of predict_data, as the section monitor asks: drift, calibration, fairness.

Both learn rounded statistics, or an alarm bit for each. A ledger at each keeps count, and refuses rows that were
monitored within the period.

Example: sharewood monitor --config party_a.toml --party party_a --labels outcomes.csv
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import Field

from mpc.errors import ConfigError, DataError
from mpc.host.frames import pd
from mpc.party import Party
from secure_tree.agreement.messages import Message, Plain, Text, exchange
from secure_tree.interface.inputs import features_to_predict
from secure_tree.model.shared_model import SharedModel
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.monitor import Monitored
from secure_tree.monitor.monitor import monitor as monitor_rows
from secure_tree.monitor.profile import Profile, make_profile
from secure_tree.monitor.scores import entered
from sharewood.commands.options import Config, FilesKey, Json, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables, own_half
from sharewood.job.session import bringing, connected
from sharewood.job.work import JobFacts, agree, check_ids
from sharewood.logs import in_json, say, say_document
from sharewood.record.keeping import Record
from sharewood.report.figures import InputFiles, Run
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.serving.served import Served, keeper
from sharewood.tables.columns import Columns
from sharewood.tables.files import Place, read_cells, writable
from sharewood.tables.tables import TableRows, good_labels, ids_of, known_labels, read_frame, read_joinable, read_rows
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")

Labels = Annotated[Path | None, typer.Option(help="Table of ids and labels of the rows, if predict_data has none.")]
Making = Annotated[bool, typer.Option("--make-profile", help="Write the profile of train_data instead, at both.")]
Since = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day of --served, by UTC.")]
Until = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day of --served, by UTC.")]


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
class Days:
    """The days of served rows, both included; None is no limit."""

    since: date | None = None
    until: date | None = None


class ServedIds(Message):
    """The ids of the rows that this party has kept; by rows it names none."""

    ids: Annotated[list[Text], Field(max_length=1 << 24)]


@dataclass(frozen=True)
class _Rows:
    """What a party brings; margins of rows that were served, at the party that learned them."""

    table: TableRows
    labels: np.ndarray | None
    groups: pd.Series | None
    margins: np.ndarray | None = None


def monitor(
    config: Config,
    party: PartyName,
    labels: Labels = None,
    make_profile: Making = False,
    served: Annotated[bool, typer.Option("--served", help="Monitor the rows that the services have answered.")] = False,
    since: Since = None,
    until: Until = None,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    if make_profile:
        say(f"{profile_party(job, party)} is written")
        return
    if not served and (since or until):
        raise ConfigError("--since and --until must be given with --served")
    days = Days(since.date() if since else None, until.date() if until else None) if served else None
    report = monitor_party(job, party, labels, json, days)
    if in_json():
        say_document({"statistics": report.statistics, "alarms": report.alarms})
    else:
        for name, value in report.statistics.items():
            say(f"{name}: {value}")
    print_costs("monitored", report, started)


@bringing_tables("train_data")
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


@bringing_tables("predict_data")
def monitor_party(
    config: HostsConfig, name: str, labels: Path | None, json: Path | None, served: Days | None = None
) -> MonitoringReport:
    """Monitor the rows of `predict_data`, or those `served` on some days, with the other party; write the statistics
    and a page.
    """
    with bringing(config, name, writes={"--json": json}, reads={"--labels": labels}):
        model, own = _model(config, name), config.party(name)
        asked, key = config.monitor or MonitorConfig.of(), config.file_key()
        to = None if config.predict.to is None else config.names.index(config.predict.to)
        keeps = served is not None and keeper(model, to, model.rank)
        data = config.needs(name, "served" if keeps else "predict_data")
        if served and keeps:
            rows = _served_rows(config, name, model, data, labels, served)
        else:
            # The labels of what another party has kept are joined when its ids are known.
            rows = _rows(config, name, model, data, None if served else labels)
        profile = Profile.load(own.profile, key) if own.profile else None
        for path in [p for p in (own.monitored, json) if p]:
            writable(path)
        if own.ledger and not rows.table.has_ids:
            raise DataError(f"{data}: must have ids, by which the ledger recognises rows")
        data_of = {"served" if keeps else "predict_data": data}
        read = InputFiles.of(**data_of, model=own.model)
        files = {**data_of, "labels": labels, "model": own.model, "profile": own.profile}
        record = Record(config, name, "monitor", **files)

    def program(party: Party) -> tuple[Monitored, PartyCosts]:
        warm_up(config.offline, config.ot)
        record.begin(party)
        brought, given = rows, rows.table.features
        if served is None:
            _agree(party, model, rows.table, False)
        else:
            brought = _paired(party, model, rows, served, lambda ids: _labels(labels, config.columns(name), ids))
            features = brought.table.features
            known = features.to_numpy() if keeps else features_to_predict(model, party.rank, features)[1]
            given = entered(party, model, known, brought.margins, asked.method, to)
        found = monitor_rows(
            party,
            model,
            given,
            brought.labels,
            group=brought.groups,
            profile=profile,
            ids=brought.table.ids if own.ledger else None,
            ledger=own.ledger,
            key=key,
            **asked.model_dump(),
        )
        costs = PartyCosts.of(party, name, rows=len(brought.table.features))
        entries = [] if found.ledger is None else [found.ledger]
        results = {"model": model.facts.pairing, "monitoring": found.run, "bits": _bits(found)}
        record.end(party, asked.model_dump(mode="json"), results, rows=len(brought.table.features), entries=entries)
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
    theirs = agree(party, _facts(rows, profile))
    if model.config.partition == "vertical":
        check_ids(party, theirs, rows)


def _facts(rows: TableRows, profile: bool, days: Days | None = None) -> JobFacts:
    same: dict[str, Plain] = {"profile": profile, "served": days is not None}
    if days is not None:
        same |= {"since": str(days.since), "until": str(days.until)}
    return JobFacts.of(job="monitor", same=same, ids=rows.has_ids)


def _rows(config: HostsConfig, name: str, model: SharedModel, data: Path, later: Path | None) -> _Rows:
    """Read rows with features of the model, their labels if there are any, and their groups. Raises DataError."""
    columns, protected = config.columns(name), config.party(name).protected
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    table = read_rows(data, columns, names, model.config.may_miss)
    groups = None
    if protected and data == config.party(name).predict_data:
        groups = _protected(data, read_frame(data, columns), name, protected)
    labels = known_labels(data, columns, names, 2) if later is None else _labels(later, columns, table.ids)
    return _Rows(table, labels, groups)


def _served_rows(
    config: HostsConfig, name: str, model: SharedModel, folder: Path, later: Path | None, days: Days
) -> _Rows:
    """Read the rows that this party's service has kept; groups are in `predict_data`. Raises DataError."""
    columns, own = config.columns(name), config.party(name)
    kept = Served(folder, model, config.file_key()).read(days.since, days.until)
    if not kept.ids:
        raise DataError(f"{folder}: has no rows that this model was asked for on these days")
    ids, groups = pd.Series(kept.ids), None
    if own.protected:
        data = config.needs(name, "predict_data")
        frame, known = read_joinable(data, columns)
        if lacks := sorted(set(ids) - set(known)):
            raise DataError(f"{data} has no row of id {lacks[0]!r}, which was served")
        groups = _protected(data, frame, name, own.protected).set_axis(known).reindex(ids)
    labels = None if later is None else _labels(later, columns, ids)
    return _Rows(TableRows(pd.DataFrame(kept.features), ids=ids), labels, groups, kept.margins)


def _paired(
    party: Party, model: SharedModel, rows: _Rows, days: Days, join: Callable[[pd.Series], np.ndarray | None]
) -> _Rows:
    """Return this party's part of the rows that were served: by columns, those that the other party has kept.

    Raises ConfigError, DataError.
    """
    agree(party, _facts(rows.table, False, days))
    vertical, keeps = model.facts.layout.vertical, rows.margins is not None
    ids = list(rows.table.ids) if vertical and keeps and rows.table.ids is not None else []
    theirs = exchange(party, "monitor.served", ServedIds.of(ids=ids)).ids
    if keeps or not vertical:
        return rows
    wanted, table = pd.Series(theirs), rows.table
    if table.ids is None:
        raise DataError("predict_data must have ids, by which the other party has kept rows")
    places = pd.Index(table.ids).get_indexer(wanted)
    if (places < 0).any():
        raise DataError(f"predict_data has no row of id {wanted[int(np.argmin(places))]!r}, which was served")
    found = TableRows(table.features.iloc[places], ids=wanted, missing=table.missing)
    joined, groups = join(wanted), None if rows.groups is None else rows.groups.iloc[places]
    labels = rows.labels[places] if joined is None and rows.labels is not None else joined
    return _Rows(found, labels, groups)


def _protected(path: Path, frame: pd.DataFrame, name: str, column: str) -> pd.Series:
    if column not in frame:
        raise DataError(f"{path}: has no column {column!r}, which parties.{name}.protected names")
    return frame[column]


def _labels(path: Path | None, columns: Columns, ids: pd.Series | None) -> np.ndarray | None:
    """Read labels of rows by their ids, in any order, if there is a table of them. Raises DataError."""
    if path is None:
        return None
    key, label = columns.named("id"), columns.named("label")
    if ids is None or key is None or label is None:
        raise DataError(f"{path}: labels are joined by id: the rows must have ids, and the configuration a label")
    frame = read_cells(path, {key})
    known = ids_of(Place(path), frame, columns)
    if known is None or label not in frame:
        raise DataError(f"{path} must have the columns {key!r} and {label!r}, got {', '.join(map(str, frame))}")
    if known.duplicated().any():
        raise DataError(f"{path}: id {known[known.duplicated()].iloc[0]!r} appears twice")
    found = frame[label].set_axis(known).reindex(ids)
    if found.isna().any():
        raise DataError(f"{path} has no label of row {found.index[int(found.isna().to_numpy().argmax())]!r}")
    labels = good_labels(found, 2)
    if labels is None:
        raise DataError(f"{path}: column {label!r}: labels must be 0 or 1")
    return labels
