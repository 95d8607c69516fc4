"""Pages name only existing parts of the code, and links lead to existing files."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_exists(page):
    named = re.findall(r"`((?:mpc|secure_tree|protocols|sharewood|tests)/[\w./]*)`", (ROOT / page).read_text())
    assert len(named) >= 5 and [path for path in named if not (ROOT / path).exists()] == []


def test_the_map_has_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [path.parent.relative_to(ROOT) for path in ROOT.glob("*/*/__init__.py")]
    packages = [room for room in rooms if room.parts[0] in ("mpc", "secure_tree", "protocols")]
    assert len(packages) > 5 and [room for room in packages if f"`{room}/`" not in page] == []


def test_versions_and_formats_are_those_of_the_code():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"\| `(VERSION|FORMAT)` in `([\w/]+)\.py` \| (\d+) \|", page)
    assert len(rows) == 6
    for constant, module, value in rows:
        assert getattr(import_module(module.replace("/", ".")), constant) == int(value), module


PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page.parent / link).exists()] == []
