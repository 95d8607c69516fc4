"""The page of an exploration at one party: first what it tells, then the features that it names and their numbers."""

from __future__ import annotations

import functools
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mpc.host.files import write_bytes
from secure_tree.explore import explore as exploring
from secure_tree.explore.result import Exploration
from sharewood.page.charts import bars, heat
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import number
from sharewood.report.figures import merge_texts

# The most features that a chart shows.
_SHOWN = 30
_TITLES = {
    "iv": "information value",
    "auc": "AUC of a single feature",
    "ks": "Kolmogorov-Smirnov statistic",
    "psi": "population stability index",
}
# What no floor prevents, as docs/explore.md has it.
_REMAINS = [
    "Floors and budget bind a party that runs this program unchanged. A party that changes it can enter a column that "
    "marks a single row, and a number then tells the label of that row, for the bits of one number.",
    "A number of a feature with two bins tells the positives in a bin, to about the precision of the number.",
    "A number that happens to be near a step of its last digit can tell the label by which two columns differ.",
]


class PagedExploration(Exploration):
    """What was revealed, which can be saved as a page."""

    def save_page(self, path: str | Path, party: str = "this party") -> None:
        """Write the page to a file. Raises DataError."""
        write_bytes(path, exploration_page(self, party, ("party 0", "party 1")).encode())


@functools.wraps(exploring.explore)
def explore(*given: Any, **named: Any) -> PagedExploration:
    found = exploring.explore(*given, **named)
    return PagedExploration(**{f.name: getattr(found, f.name) for f in fields(found)})


def exploration_page(found: Exploration, name: str, parties: tuple[str, str]) -> str:
    """Return the HTML of an exploration at party `name`."""
    chosen, screened = len(found.features), found.screened
    numbered = "" if found.ledger is None else f"; line {found.ledger} of the ledger"
    page = Page(
        title=f"Exploration at {name}",
        subtitle=f"{chosen:,} of {screened.of_features:,} features, by {_TITLES[screened.rank]}. This page has what "
        f"{name} knows.",
        about=f"Id of the run: {found.run}{numbered}.",
        headlines=_headlines(found),
        sections=[
            _told(found),
            *_numbers(found),
            *_evidence(found),
            *_correlations(found),
            _named(found, parties),
            _own(found, name),
        ],
    )
    return page.html()


def _headlines(found: Exploration) -> list[Headline]:
    told = sum(found.bits.values())
    shown = [Headline("told about the labels", f"{told:,} bits", "at most, by this exploration")]
    if found.budget is not None:
        left = max(0, int(found.budget) - found.spent - told)
        shown.append(Headline("budget left", f"{left:,} bits", f"of {found.budget:,.0f}; earlier: {found.spent:,}"))
    if found.privacy:
        rho, epsilon, delta = found.privacy
        shown.append(Headline("epsilon of the labels", f"{epsilon:.2f}", f"at delta {delta:g}; rho {rho:g}"))
    return shown


def _told(found: Exploration) -> Section:
    sentences = [*merge_texts(found.revealed), *_REMAINS]
    rows = [[_TITLES.get(part, part), f"{bits:,}"] for part, bits in found.bits.items()]
    return Section("What this tells, and what no floor prevents", sentences, table=CellTable(["part", "bits"], rows))


def _numbers(found: Exploration) -> list[Section]:
    drawn = []
    for name in found.numbers:
        ranked = sorted(found.by_name(name).items(), key=lambda pair: -pair[1] if pair[1] == pair[1] else np.inf)
        shown = {feature: value for feature, value in ranked[:_SHOWN] if value == value}
        if shown:
            drawn.append(bars(name, f"{_TITLES[name].capitalize()}, the largest first.", shown))
    return [Section("Numbers", ["Rounded to their standard errors; a dash is hidden."], drawn)] if drawn else []


def _evidence(found: Exploration) -> list[Section]:
    if found.woe is None:
        return []
    cells = dict(zip(found.names[:_SHOWN], found.woe[0, :_SHOWN].tolist(), strict=True))
    caption = "Weight of evidence by bin, in the order of the bins, missing values last; hidden cells are hatched."
    return [Section("Weight of evidence", [], [heat("woe", caption, cells)])]


def _correlations(found: Exploration) -> list[Section]:
    if found.correlation is None:
        return []
    cells = dict(zip(found.names[:_SHOWN], found.correlation[:_SHOWN, :_SHOWN].tolist(), strict=True))
    caption = "Correlation of each pair, in the order of the tables; categories are hatched."
    return [Section("Correlations", [], [heat("correlation", caption, cells)])]


def _named(found: Exploration, parties: tuple[str, str]) -> Section:
    table = found.to_frame()
    rows = [
        [parties[int(row[0])], str(row[1]), *("-" if v != v else number(v) for v in row[2:])]
        for row in table.itertuples(index=False)
    ]
    return Section(
        "Features, in the order of the tables", table=CellTable(["party", *table.columns[1:]], rows, texts=2)
    )


def _own(found: Exploration, name: str) -> Section:
    rows = [[str(feature), *(number(v) for v in line)] for feature, *line in found.own.itertuples()]
    sentence = f"Computed from rows of {name} only, and shown to nobody else."
    return Section("Own columns", [sentence], table=CellTable(["column", "missing", "mean", "deviation"], rows))
