"""The page of an exploration at one party: first what it tells, then the features that it names and their numbers."""

from __future__ import annotations

import functools
from collections.abc import Sized
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mpc.host.files import write_bytes
from mpc.host.frames import pd
from secure_tree.explore import explore as exploring
from secure_tree.explore.result import Exploration
from sharewood.page import sections
from sharewood.page.charts import bars, boxes, heat
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import number
from sharewood.report.figures import merge_texts

# The most features that a chart, a heat map and a table show.
_BARS, _CELLS, _ROWS = 30, 20, 200
_TITLES = {
    "iv": "information value",
    "auc": "AUC of a single feature",
    "ks": "Kolmogorov-Smirnov statistic",
    "psi": "population stability index",
    "woe": "weight of evidence by bin",
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
            _told(found, name, parties),
            *_numbers(found),
            *_evidence(found),
            *_correlations(found),
            _named(found, parties),
            _own(found, name),
            sections.configuration(found.config),
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
    if found.label_rate is not None:
        shown.append(Headline("label rate", f"{found.label_rate:.2%}", "of all rows, revealed to both"))
    if found.counts:
        rate = 1 - found.counts[0] / sum(found.counts)
        shown.append(Headline("own label rate", f"{rate:.2%}", f"of {sum(found.counts):,} own rows, not revealed"))
    return shown


def _told(found: Exploration, name: str, parties: tuple[str, str]) -> Section:
    """List what was public and who learned what; the bits; and what no floor prevents."""
    config, rows = found.config, found.rows
    facts = [
        f"{rows[0]:,} rows" if config.partition == "vertical" else f"{' and '.join(f'{n:,}' for n in rows)} rows",
        f"the names of {found.screened.of_features:,} features with their categories, whether values are missing",
        *(["the edges of the bins, quantiles of all rows"] if config.partition == "horizontal" else []),
        *(["missing rates, means and deviations, as their owners publish them"] if found.moments else []),
        "the parameters and floors below",
    ]
    others = " and ".join(who for who in parties if who != name) if name in parties else "the other party"
    also = "the same"
    if config.to is not None and config.shown:
        numbers = [_TITLES[part] for part in (*config.shown, *(["woe"] if config.reveal == "woe" else []))]
        also += f"{', but not' if found.numbers else ', and in addition'} {', '.join(numbers)}"
    learned = [
        ["everybody", "; ".join(facts)],
        [name, "; ".join(merge_texts(found.revealed)) or "nothing"],
        [others, also],
        ["nobody", "how many labels of a class a bin has, the order of the features, numbers that are not listed here"],
        *([_TITLES.get(part, part), f"at most {bits:,} bits"] for part, bits in found.bits.items()),
    ]
    return Section(
        "What this tells, to whom, and what no floor prevents",
        _REMAINS,
        table=CellTable(["who", "learned"], learned, 2),
    )


def _order(found: Exploration) -> list[int]:
    """Return the places of the features, by the first number that was revealed if there is one; NaN last."""
    if not found.numbers:
        return list(range(len(found.features)))
    rank = found.screened.rank if found.screened.rank in found.numbers else next(iter(found.numbers))
    values = found.numbers[rank].sum(axis=0)
    return np.argsort(-np.abs(values - 0.5) if rank == "auc" else -values, kind="stable").tolist()


def _numbers(found: Exploration) -> list[Section]:
    drawn = []
    for name in found.numbers:
        ranked = sorted(((v, f) for f, v in found.by_name(name).items() if v == v), key=lambda pair: -pair[0])
        if ranked:
            caption = f"{_TITLES[name][0].upper()}{_TITLES[name][1:]}, the largest {len(ranked[:_BARS])}."
            drawn.append(bars(name, caption, {feature: value for value, feature in ranked[:_BARS]}))
    return [Section("Numbers", ["Rounded to their standard errors; a dash is hidden."], drawn)] if drawn else []


def _evidence(found: Exploration) -> list[Section]:
    if found.woe is None:
        return []
    names, shown = found.names, _order(found)[:_CELLS]
    bins = [str(b + 1) for b in range(found.config.bins)]
    columns = [*bins, *["no value"] * (found.woe.shape[2] - len(bins))]
    charts = []
    for c, lines in enumerate(found.woe):
        of_class = f" of class {c}" if len(found.woe) > 1 else ""
        caption = f"Weight of evidence{of_class} by bin, in the order of the bins; hidden cells are hatched."
        charts.append(heat(f"woe-{c}", caption, {names[f]: lines[f].tolist() for f in shown}, columns))
    hidden = int(np.isnan(found.woe).sum())
    return [Section("Weight of evidence", [f"{hidden:,} of {found.woe.size:,} bins are hidden."], charts)]


def _correlations(found: Exploration) -> list[Section]:
    if found.correlation is None or len(found.features) < 2:
        return []
    names, shown = found.names, sorted(_order(found)[:_CELLS])
    cells = {names[f]: found.correlation[f, shown[:place]].tolist() for place, f in enumerate(shown) if place}
    caption = f"Correlation of each pair of {len(shown)} features; pairs with a category are hatched."
    return [Section("Correlations", [], [heat("correlation", caption, cells, [names[f] for f in shown[:-1]])])]


def _named(found: Exploration, parties: tuple[str, str]) -> Section:
    table = found.to_frame().iloc[_order(found)[:_ROWS]]
    rows = [
        [parties[int(row[0])], str(row[1]), *("-" if v != v else number(v) for v in row[2:])]
        for row in table.itertuples(index=False)
    ]
    ordered = "the largest number first" if found.numbers else "in the order of the tables"
    return Section(
        f"Features, {ordered}", _more(found.features), table=CellTable(["party", *table.columns[1:]], rows, texts=2)
    )


def _own(found: Exploration, name: str) -> Section:
    own = found.own.iloc[np.argsort(~found.own.index.isin(found.quantiles.index), kind="stable")[:_ROWS]]
    own = own.join(found.quantiles.get(0.5, pd.Series(dtype=float)).rename("median"))
    rows = [[str(feature), *("-" if v != v else number(v) for v in line)] for feature, *line in own.itertuples()]
    five = {str(feature): line for feature, *line in found.quantiles.dropna()[:_BARS].itertuples()}
    charts = []
    if five:
        said = ", ".join(f"{q:.0%}" for q in found.quantiles.columns)
        charts.append(boxes("quantiles", f"Quantiles at {said} of own columns among the features above.", five))
    sentences = [f"Computed from rows of {name} only, and shown to nobody else.", *_more(found.own)]
    return Section("Own columns", sentences, charts, CellTable(["column", *map(str, own.columns)], rows))


def _more(features: Sized) -> list[str]:
    return [f"The first {_ROWS} of {len(features):,}."] if len(features) > _ROWS else []
