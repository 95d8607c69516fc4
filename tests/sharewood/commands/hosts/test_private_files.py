"""Under umask 000, everything that a command creates is its owner's alone.

The commands between hosts are covered by their own tests: `hosting.start` sets that umask, and conftest.py looks at
what they leave.
"""

import os
import stat

import pandas as pd
import pytest

from sharewood.cli import app
from tests.sharewood.commands.hosting import sharewood

QUICK = {
    "keygen": ["keygen", "--out", "made/keys", "--names", "party_a", "party_b", "dealer"],
    "init": ["init", "--out", "made/job"],
}
SLOW = {
    "demo": ["demo", "--rows", 60, "--features", 2, "--trees", 1, "--json", "made/r.json", "--out", "made/out"],
    "demo in shards": ["demo", "--rows", 60, "--features", 2, "--trees", 1, "--shards", 1, "--out", "made/out"],
    "secureboost": ["fed", "secureboost", "--trees", 1, "--depth", 2, "--key-bits", 1024, "--out", "made/out"],
    "fedxgbllr": ["fed", "fedxgbllr", "--trees", 4, "--rounds", 1, "--local-epochs", 1, "--out", "made/out"],
    "virtual samples": [
        "fed",
        "virtual-samples",
        "--trees",
        1,
        "--update-trees",
        1,
        "--clusters",
        4,
        "--out",
        "made/out",
    ],
}


def check_made(folder):
    made = [folder / "made", *(folder / "made").rglob("*")]
    assert len(made) > 2
    modes = {str(path): stat.filemode(path.stat().st_mode) for path in made}
    assert {mode[1:] for mode in modes.values()} <= {"rwx------", "rw-------"}, modes


@pytest.mark.parametrize("command", QUICK.values(), ids=QUICK)
def test_files_of_a_set_up(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        app(list(map(str, command)), standalone_mode=False)
    finally:
        os.umask(before)
    check_made(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("command", SLOW.values(), ids=SLOW)
def test_files_of_a_training_on_one_machine(command, tmp_path):
    if command[0] == "fed":
        pytest.importorskip("flwr")
    (tmp_path / "made").mkdir(mode=0o700)
    status, _, err = sharewood(*command, cwd=tmp_path)
    assert status == 0, err
    check_made(tmp_path)


def test_a_table_in_pieces(ray, tmp_path, monkeypatch):
    """While it is divided, and if that is interrupted, too."""
    from sharewood.tables.alignment import divide
    from sharewood.tables.columns import Columns
    from sharewood.tables.shards import write_manifest

    pd.DataFrame({"id": range(40), "x": range(40)}).to_csv(tmp_path / "table.csv", index=False)
    before = os.umask(0)
    try:
        divide(tmp_path / "table.csv", Columns.inferred(), b"k" * 32, 2, tmp_path / "made" / "pieces")
        write_manifest(tmp_path / "made", [20, 20])
    finally:
        os.umask(before)
    check_made(tmp_path)
