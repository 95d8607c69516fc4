"""Pages name only existing parts of the code, and links lead to existing files."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from secure_tree.interface.parameters import markdown

ROOT = Path(__file__).parents[2]


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").rglob("*.ipynb")]
NAMED = re.compile(r"`((?:mpc|secure_tree|protocols|sharewood|tests|notebooks|benchmarks)/[\w./]*)`")
# The tutorial writes these, and a folder of that name below the user's state folder is no part of the code.
ELSEWHERE = {
    "mpc/comparison/absolute.py",
    "tests/mpc/comparison/test_absolute.py",
    "tests/mpc/comparison/test_absolute_ahead.py",
    "sharewood/prepared",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page):
    named = set(NAMED.findall(page.read_text())) - ELSEWHERE
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_are_found(page):
    assert len(NAMED.findall((ROOT / page).read_text())) >= 5


PAGE = ROOT / "docs" / "architecture.md"
MAP = re.compile(r"(?<=<!-- map -->\n).*?(?=<!-- end of map -->)", re.DOTALL)


def first_line(path):
    return ast.get_docstring(ast.parse(path.read_text())).partition("\n")[0]


def map_of_folders():
    """Return one table per package: its folders, with the first line of their docstring."""
    lines = []
    for package in ("sharewood", "protocols", "secure_tree", "mpc"):
        lines += [
            "",
            f"### {package}",
            "",
            first_line(ROOT / package / "__init__.py"),
            "",
            "| where | what |",
            "|---|---|",
        ]
        for folder in sorted({path.parent for path in (ROOT / package).rglob("__init__.py")} - {ROOT / package}):
            lines.append(f"| `{folder.relative_to(ROOT)}/` | {first_line(folder / '__init__.py')} |")
    return "\n".join([*lines, "", ""])


def test_the_map_is_that_of_the_folders():
    assert MAP.search(PAGE.read_text())[0] == map_of_folders(), "python -m tests.docs.test_maps writes it anew"


@pytest.mark.parametrize("package", ["mpc", "secure_tree", "protocols", "sharewood"])
def test_folders_are_small_enough_to_look_at(package):
    # Kernels and SecureBoost's roles are lists of equals.
    many = {
        str(folder.relative_to(ROOT)): files
        for folder in {path.parent for path in (ROOT / package).rglob("*.py")}
        if (files := len([path for path in folder.glob("*.py") if path.name != "__init__.py"])) > 12
        and folder.name not in ("kernels", "secureboost")
    }
    assert many == {}


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


PARAMETERS = ROOT / "docs" / "secure_tree.md"
TABLE = re.compile(r"\| parameter \|.*?(?=\n\n)", re.DOTALL)


def test_the_table_of_parameters_is_that_of_the_configuration():
    assert TABLE.search(PARAMETERS.read_text())[0] == markdown(), "python -m tests.docs.test_maps writes it anew"


if __name__ == "__main__":
    PAGE.write_text(MAP.sub(lambda _: map_of_folders(), PAGE.read_text()))
    PARAMETERS.write_text(TABLE.sub(lambda _: markdown(), PARAMETERS.read_text()))
