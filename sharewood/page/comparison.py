"""The page of a comparison of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharewood.page.document import CellTable, Page, Section


def comparison_page(names: Sequence[str], sections: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return the HTML of runs by name: heading -> figure -> its value in each run."""
    tables = [
        Section(title, table=CellTable(["", *names], [[name, *values] for name, values in rows.items()]))
        for title, rows in sections.items()
    ]
    about = "Seconds are comparable only if the runs had similar, otherwise idle machines."
    return Page("Comparison of runs", f"{len(names)} reports: {', '.join(names)}.", about, [], tables).html()
