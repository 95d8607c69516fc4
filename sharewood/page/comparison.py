"""The page of a comparison of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharewood.page.document import Page, Section, Table


def comparison_page(names: Sequence[str], sections: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """HTML of runs by name: heading -> figure -> its value in each."""
    tables = [
        Section(title, table=Table(["", *names], [[name, *values] for name, values in rows.items()]))
        for title, rows in sections.items()
    ]
    about = "Seconds compare only where the runs had like machines, and these nothing else to do."
    return Page("Runs beside each other", f"{len(names)} reports: {', '.join(names)}.", about, [], tables).html()
