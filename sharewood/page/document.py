"""The parts of a page, and their HTML."""

from __future__ import annotations

from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined

from sharewood.page.charts import Chart


@dataclass(frozen=True)
class Headline:
    """A headline figure: its name, its value, and a note below."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class CellTable:
    """Rows of cells under column names; all columns except the first `texts` are numbers."""

    columns: list[str]
    rows: list[list[str]]
    texts: int = 1


@dataclass(frozen=True)
class Section:
    """A heading with sentences, charts side by side, and a table."""

    title: str
    sentences: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    table: CellTable | None = None


@dataclass(frozen=True)
class Page:
    """A whole report; `about` identifies the run."""

    title: str
    subtitle: str
    about: str
    headlines: list[Headline]
    sections: list[Section]

    def html(self) -> str:
        """Return the document, a self-contained file."""
        templates = Environment(
            loader=PackageLoader("sharewood.page", "."),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return templates.get_template("page.html.jinja").render(page=self)
