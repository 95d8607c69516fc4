"""What the page for security officers says can be run, runs."""

import re
import tomllib
from pathlib import Path

import pytest

from mpc.errors import DataError
from mpc.host.encryption import FileKey
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.model.shared_model import SharedModel
from tests.secure_tree.test_twin import table

ROOT = Path(__file__).parents[2]


def test_a_half_is_written_again_under_a_new_key(tmp_path, monkeypatch):
    X, y = table(20, 2, seed=1)

    def job(party):
        rows = slice(10 * party.rank, 10 * party.rank + 10)
        return SecureXGBClassifier(n_estimators=1, max_depth=1, max_bin=4).fit(party, X[rows], y[rows]).model

    half = run_both(job)[0][0]
    page = (ROOT / "docs" / "security.md").read_text().split("### A new files key")[1].split("### Retention")[0]
    program = "\n".join(line[4:] for line in page.splitlines() if line.startswith("    "))
    monkeypatch.chdir(tmp_path)
    keys = {name: FileKey.parse(digit * 64, name) for name, digit in (("files.key", "1"), ("new_files.key", "2"))}
    for name, digit in (("files.key", "1"), ("new_files.key", "2")):
        Path(name).write_text(digit * 64 + "\n")
    half.save("model_a.npz", keys["files.key"])
    exec(program, {})
    assert SharedModel.load("model_a.npz", keys["new_files.key"]).rank == half.rank
    with pytest.raises(DataError):
        SharedModel.load("model_a.npz", keys["files.key"])


def test_the_inventory_lists_what_the_optional_parts_need():
    """`make sbom` installs every extra that users install, and nothing that only developers do."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    (listed,) = re.findall(r"pip install --quiet '\.\[(.*?)\]'\n\tout/sbom/tool", (ROOT / "Makefile").read_text())
    assert set(listed.split(",")) == extras - {"crypten", "dev", "docs"}
