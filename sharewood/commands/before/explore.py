"""Name the features that matter to the labels, or show rounded statistics of each, as the section explore asks.

Both learn which features are named, and what else the section reveals. A ledger at each keeps count of it.

Example: sharewood explore --config party_a.toml --party party_a --audit
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.explore import explore as explore_tables
from secure_tree.explore.result import Exploration
from sharewood.commands.options import Audited, Config, FilesKey, Json, PartyName, Passphrase, TableOut
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables
from sharewood.job.owners import contributed
from sharewood.job.session import bringing, connected
from sharewood.job.work import JobFacts, agree, check_ids, of_owners
from sharewood.logs import in_json, say, say_document
from sharewood.record.keeping import Record
from sharewood.report.figures import InputFiles, Run
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.tables.files import writable, write_frame
from sharewood.tables.tables import read_table
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")


@dataclass
class ExplorationReport(PartyReport):
    """A report with the named features of each party and their revealed numbers.

    bits: what was revealed about the labels, by part; bits_before: by earlier releases; bits_most: the budget of this
    party's labels, None without. `ledger` is the number of the release's line.
    """

    run: Run
    config: ExploreConfig
    features: dict[str, list[str]]
    numbers: dict[str, dict[str, float | None]]
    bits: dict[str, int]
    bits_before: int
    bits_most: float | None
    ledger: int | None


def explore(
    config: Config,
    party: PartyName,
    out: TableOut = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out an owner's contribution, at both parties; repeatable.")
    ] = None,
    audit: Audited = False,
    json: Json = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key).audited(audit)
    report, found = explore_party(job, party, out, json, without or ())
    if in_json():
        say_document({"features": report.features, "numbers": report.numbers})
    else:
        say(found.to_frame().to_string(index=False, na_rep="-"))
    print_costs("explored", report, started)


@bringing_tables("train_data")
def explore_party(
    config: HostsConfig, name: str, out: Path | None, json: Path | None, without: Collection[str] = ()
) -> tuple[ExplorationReport, Exploration]:
    """Explore the party's `train_data` with the other party; write the screened features, a page and a table.

    `without`: owners whose contributions are left out.
    """
    with bringing(config, name, writes={"--out": out, "--json": json}):
        own, columns, parameters = config.party(name), config.columns(name), config.exploring
        by_rows = parameters.partition == "horizontal"
        if config.owners and not by_rows:
            log.warning("columns of owners are not explored: this explores those of the parties")
        if without and not (config.owners and by_rows):
            raise ConfigError("--without needs [owners] in the configuration, and data by rows")
        if by_rows and parameters.of_labels and columns.named("label") is None:
            raise ConfigError(f"parties.{name}.columns must declare a label: by rows, each party has its own labels")
        data = config.needs(name, "train_data")
        if config.shards:
            log.warning("shards are not used: an exploration runs in one process at each party, which reads all rows")
        if data.is_dir():
            raise DataError(f"{data}: must be a file, got a folder: an exploration reads one table in one process")
        rows = read_table(data, columns, lambda _: True)
        for path in [p for p in (own.screened, out, json) if p]:
            writable(path)
        record = Record(config, name, "explore", train_data=data)
        key, read = config.file_key(), InputFiles.of(train_data=data)

    def program(party: Party) -> tuple[ExplorationReport, Exploration]:
        warm_up(config.offline, config.ot)
        record.begin(party)
        with contributed(config, name, key, without) if by_rows else nullcontext() as owners:
            facts = JobFacts.of(job="explore", same=of_owners(owners) if owners else {}, ids=rows.has_ids)
            theirs = agree(party, facts)
            if not by_rows:
                check_ids(party, theirs, rows)
            found = explore_tables(
                party,
                rows.features,
                rows.labels,
                rows.weights,
                ids=rows.ids,
                ledger=own.ledger,
                key=key,
                contributed=owners,
                **parameters.model_dump(),
            )
        if own.screened:
            found.screened.save(own.screened)
        names = found.screened.names
        features = {who: list(of) for who, of in zip(config.names, names, strict=True) if of}
        costs = PartyCosts.of(party, name)
        record.end(
            party,
            parameters.model_dump(mode="json"),
            {"exploration": found.run, "named": features, "bits": dict(found.bits)},
            rows=len(rows.features),
            entries=[] if found.ledger is None else [found.ledger],
        )
        report = ExplorationReport(
            costs,
            run=Run.now(found.run, read, screened=own.screened),
            config=parameters,
            features=features,
            numbers={s: {f: v if v == v else None for f, v in found.by_name(s).items()} for s in found.numbers},
            bits=dict(found.bits),
            bits_before=found.spent,
            bits_most=found.budget,
            ledger=found.ledger,
            record=record.report,
        )
        return report, found

    report, found = connected(config, name, program, doing="tables were explored")
    if out:
        write_frame(out, found.to_frame())
    from sharewood.page import exploration_page

    write_reports(own.screened or out, exploration_page(found, name, config.names), report, json)
    record.settle()
    return report, found
