"""Show how much each feature matters to the model. Both parties must request the same kind, and both see it.

Example: sharewood importance --config party_a.toml --party party_a --kind total_gain
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from mpc.host.frames import pd
from mpc.party import Party
from secure_tree.prediction.importance import KINDS, by_column, feature_importance
from secure_tree.public.config import Importance
from sharewood.commands.options import Config, Json, PartyName, one_of
from sharewood.job.config import HostsConfig
from sharewood.job.files import own_half
from sharewood.job.session import bringing, connected
from sharewood.logs import in_json, say, say_document
from sharewood.report.figures import Run
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.tables.files import PARQUET, not_a_formula, writable, write_frame


@dataclass
class ImportanceReport(PartyReport):
    """A report with `importance`, sorted from the most important feature to the least."""

    run: Run
    kind: str
    importance: dict[str, float]


def importance(
    config: Config,
    party: PartyName,
    kind: Annotated[str, typer.Option(help="weight, gain, total_gain, cover or total_cover, as in XGBoost.")] = "gain",
    out: Annotated[Path | None, typer.Option(help="Also write a table, CSV or parquet.")] = None,
    json: Json = None,
) -> None:
    asked = one_of("--kind", kind, KINDS)
    started = monotonic()
    report = reveal_importance(HostsConfig.read(config), party, asked, out, json)
    if in_json():
        say_document({"kind": kind, "importance": report.importance})
    else:
        width = max(map(len, report.importance))
        for name, value in report.importance.items():
            say(f"{name:{width}}  {value:.6g}")
    print_costs("revealed", report, started)


def reveal_importance(
    config: HostsConfig, name: str, kind: Importance, out: Path | None, json: Path | None
) -> ImportanceReport:
    """Reveal the importance of a model's features to both parties, which must request the same `kind`."""
    with bringing(config, name, writes={"--out": out, "--json": json}):
        model = own_half(config, name)
        for path in [p for p in (out, json) if p]:
            writable(path)

    def program(party: Party) -> ImportanceReport:
        with party.stage("importance"):
            values = feature_importance(party, model, kind)
        names, of_columns = by_column(model.facts, values)
        ranked = sorted(zip(names, of_columns.tolist(), strict=True), key=lambda pair: -pair[1])
        run = Run.now(model.facts.pairing, model=config.party(name).model)
        return ImportanceReport(PartyCosts.of(party, name), run=run, kind=kind, importance=dict(ranked))

    report = connected(config, name, program, doing="importance was revealed")
    if out:
        names = list(report.importance)
        if out.suffix != PARQUET:
            names = [not_a_formula(name) for name in names]
        write_frame(out, pd.DataFrame({"feature": names, kind: list(report.importance.values())}))
    write_reports(out, None, report, json)
    return report
