"""One version number."""

import re
import tomllib
from pathlib import Path

import sharewood

ROOT = Path(__file__).parents[2]


def test_everything_has_the_packages_version():
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    app = tomllib.loads((ROOT / "protocols" / "baselines" / "federated" / "app" / "pyproject.toml").read_text())
    assert citation and citation[1] == app["project"]["version"] == sharewood.__version__
