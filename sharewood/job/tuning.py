"""Cross-validation of one or of many configurations on a party's table, for `sharewood cv` and `sharewood grid`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpc.errors import ConfigError
from mpc.host.frames import pd
from mpc.party import Party
from protocols.runtime.settings import check_alone
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.cross_validation import cross_validate, grid_search
from secure_tree.public.config import TrainConfig
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables, training_tables
from sharewood.job.owners import contributed
from sharewood.job.session import bringing, connected
from sharewood.job.work import JobFacts, agree, check_ids, check_minimum, with_ids
from sharewood.logs import in_json, say, say_document
from sharewood.report.figures import InputFiles, Run
from sharewood.report.run import PartyCosts, PartyReport, print_learned, write_reports
from sharewood.tables.files import writable, write_frame
from sharewood.tables.tables import TableRows
from sharewood.warming_up import warm_up


@dataclass
class TuningReport(PartyReport):
    """The metrics on held-out rows: a row per fold, or per combination of parameters, the best first."""

    run: Run
    config: TrainConfig
    folds: int
    table: list[dict[str, Any]]
    best: dict[str, Any] | None = None


@bringing_tables("train_data", "test_data")
def tune(
    config: HostsConfig, name: str, folds: int, searching: bool, out: Path | None, json: Path | None
) -> TuningReport:
    """Cross-validate `[train]`, or with `searching` every combination of `[grid]`, and reveal the metrics to both.

    Each combination is `folds` trainings; their models are discarded. Raises ConfigError, DataError, PeerFailure.
    """
    with bringing(config, name, writes={"--out": out, "--json": json}):
        check_alone("cross-validation", config.shards)
        if searching and not config.grid:
            raise ConfigError("[grid] must list the values to try, such as max_depth = [3, 4], at both parties")
        if config.owners:
            config.needs(name, "contributed")
        parameters, rows, validation = training_tables(config, name)
        if validation is not None or parameters.test_size:
            raise ConfigError("test_size and test_data must not be set: each fold is held out once")
        assert isinstance(rows, TableRows), "there are no shards"
        for path in [p for p in (out, json) if p]:
            writable(path)
        read = InputFiles.of(train_data=config.table(name, "train_data"))
        grid = {key: [tuple(v) if isinstance(v, list) else v for v in values] for key, values in config.grid.items()}

    def program(party: Party) -> TuningReport:
        warm_up(config.offline, config.ot)
        same: dict[str, Any] = {**parameters.model_dump(), "folds": folds}
        same |= {f"grid.{key}": tuple(map(str, values)) for key, values in grid.items()} if searching else {}
        facts = JobFacts.of(
            job="tune",
            same=same,
            ids=rows.has_ids,
            rows=len(rows.features) * (folds - 1) // folds,
            minimum_rows=config.party(name).minimum_rows,
            missing=list(rows.missing),
        )
        theirs = agree(party, facts)
        check_minimum(facts, theirs)
        known = parameters.model_dump()
        if parameters.missing != "all" and (rows.missing or theirs.missing):
            declared = () if parameters.missing == "none" else parameters.missing
            known["missing"] = tuple(sorted({*declared, *rows.missing, *theirs.missing}))
        ids = check_ids(party, theirs, rows) if parameters.partition == "vertical" else None
        estimator: Any = (SecureXGBClassifier if parameters.logistic else SecureXGBRegressor)(**known)
        best = None
        with contributed(config, name, config.file_key()) as owners:
            data: dict[str, Any] = {"folds": folds, "sample_weight": rows.weights}
            data["contributed"] = with_ids(owners, ids) if owners else None
            if searching:
                search = grid_search(party, estimator, grid, rows.features, rows.labels, **data)
                table = search.results.to_dict("records")
                best = {key: table[0][key] for key in grid}
            else:
                scores = cross_validate(party, estimator, rows.features, rows.labels, **data)
                table = pd.DataFrame(scores).rename_axis("fold").reset_index().to_dict("records")
        plain = [{str(key): _plain(value) for key, value in row.items()} for row in table]
        return TuningReport(
            PartyCosts.of(party, name),
            run=Run.now("", read),
            config=parameters,
            folds=folds,
            table=plain,
            best=best,
        )

    report = connected(config, name, program, doing="folds were trained")
    if out:
        write_frame(out, pd.DataFrame(report.table))
    write_reports(out, None, report, json)
    return report


def print_tuning(report: TuningReport) -> None:
    """Print the table, the best combination if there are several, and what this party learned."""
    if in_json():
        say_document(report.document())
        return
    say(pd.DataFrame(report.table).to_string(index=False, float_format=lambda value: f"{value:.6g}"))
    if report.best is not None:
        say("best: " + ", ".join(f"{name} = {value}" for name, value in report.best.items()))
    print_learned(report)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
