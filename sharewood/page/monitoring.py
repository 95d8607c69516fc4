"""The page of a monitoring at one party: what was revealed, statistics beside their alarms, by feature and group."""

from __future__ import annotations

import numpy as np

from secure_tree.monitor.config import Alarms
from secure_tree.monitor.monitor import Monitored
from secure_tree.monitor.numbers import SAID
from sharewood.page import sections
from sharewood.page.charts import bars, heat
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import number
from sharewood.report.figures import merge_texts

_BARS = 30


def monitoring_page(found: Monitored, name: str, parties: tuple[str, str]) -> str:
    """Return the HTML of a monitoring at party `name`."""
    numbered = "" if found.ledger is None else f"; line {found.ledger} of the ledger"
    alarms = [SAID[each] for each in found.alarms]
    page = Page(
        title=f"Monitoring at {name}",
        subtitle=f"{' and '.join(f'{n:,}' for n in dict.fromkeys(found.rows))} rows. This page has what {name} knows.",
        about=f"Id of the run: {found.run}{numbered}.",
        headlines=[
            Headline(
                "alarms", str(len(alarms)) if found.config.reveal == "alarms" else "-", "; ".join(alarms) or "none"
            ),
            Headline("told", f"{sum(found.bits.values()):,} bits", "at most, by this monitoring"),
        ],
        sections=[_told(found, parties), _statistics(found), *_features(found), *_groups(found)]
        + [sections.configuration(found.config)],
    )
    return page.html()


def _told(found: Monitored, parties: tuple[str, str]) -> Section:
    rows = [
        [" and ".join(parties), "; ".join(merge_texts(found.revealed)) or "nothing"],
        ["nobody", "margins and labels of rows, how many rows a bin or a group has, which groups have too few"],
    ]
    return Section("What this tells, and to whom", [], table=CellTable(["who", "learned"], rows, 2))


def _statistics(found: Monitored) -> Section:
    """List statistics of one number, each beside its alarm; a dash has too few rows."""
    limits, bits = found.config.alarms, found.config.reveal == "alarms"
    of = {"scores": "psi", "features": "psi", "auc": "auc_drop", "ks": "ks_drop"}
    rows = []
    for name, values in found.numbers.items():
        key = of.get(name, name)
        if values.size != 1 or name == "loss":
            continue
        shown = "-" if np.isnan(values[0]) else ("alarm" if values[0] else "no alarm") if bits else number(values[0])
        limit = number(getattr(limits, key)) if key in Alarms.model_fields else "-"
        rows.append([SAID[name], shown, limit])
    rounded = "An alarm is one bit." if bits else f"Numbers are rounded to {found.resolution:.2g}."
    return Section("Statistics", [rounded], table=CellTable(["statistic", "value", "alarm at"], rows, 1))


def _features(found: Monitored) -> list[Section]:
    if "features" not in found.numbers:
        return []
    values = found.numbers["features"]
    order = np.argsort(-values, kind="stable")[:_BARS]
    caption = f"Stability index of features, the largest {len(order)}; the alarm is at {found.config.alarms.psi:g}."
    drawn = bars("features", caption, {found.features[f]: float(values[f]) for f in order})
    return [Section("Drift of features", [], [drawn])]


def _groups(found: Monitored) -> list[Section]:
    if "loss" not in found.numbers:
        return []
    values = found.numbers["loss"].tolist()
    names = found.groups or tuple(map(str, range(len(values))))
    caption = "Mean logarithmic loss by group; groups with too few rows are hatched."
    return [Section("Loss by group", [], [heat("loss", caption, {"loss": values}, names)])]
