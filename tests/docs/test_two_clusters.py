"""The commands of docs/cluster.md for two Ray clusters on one machine, word for word."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.sharewood.commands.hosting import LONGEST, start, write_job

RAY = str(Path(sys.executable).with_name("ray"))
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def commands(title):
    """Return the words of each command in the section."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [shlex.split(line, comments=True) for line in section.splitlines() if line.startswith("    ")]


@pytest.fixture
def place(tmp_path):
    """A job of both parties and a dealer, without shards in its configuration."""
    rng, sections = np.random.default_rng(3), {}
    for name in "ab":
        table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("xyz"))
        table["label"] = (table["x"] + table["y"] > 0).astype(int)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        sections[f"party_{name}"] = {"train_data": f"{name}.csv", "model": f"model_{name}.npz"}
    write_job(tmp_path, sections, train={"n_estimators": 3, "max_depth": 2, "max_bin": 8})
    return tmp_path


@pytest.fixture
def folders():
    """Two folders for Ray, whose sockets need short paths; processes that name one end with the test."""
    made = [tempfile.mkdtemp(prefix="ray_") for _ in "ab"]
    yield made
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if any(folder.encode() in path.read_bytes() for folder in made):
                os.kill(int(path.parent.name), signal.SIGKILL)
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_clusters_on_one_machine(place, folders, monkeypatch):
    walk = commands("Two clusters on one machine")
    (umask, token, mode), heads, others = walk[:3], walk[3:5], walk[5:]
    assert [*umask, *mode] == ["umask", "077", "export", "RAY_AUTH_MODE=token"]
    monkeypatch.setenv("HOME", str(place))  # where the token is kept
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    subprocess.run([RAY, *token[1:]], check=True, stdout=subprocess.DEVNULL, timeout=LONGEST, umask=0o077)
    assert [words[:2] for words in heads] == [["ray", "start"]] * 2
    for words, folder in zip(heads, folders, strict=True):
        words[words.index("--temp-dir") + 1] = folder
        started = [RAY, *words[1:]]
        subprocess.run(started, check=True, stdout=subprocess.DEVNULL, timeout=LONGEST)
    assert [words[:2] for words in others] == [["sharewood", "dealer"], *[["sharewood", "train"]] * 2]
    dealer, *parties = (start(*words[1:], cwd=place) for words in others)
    try:
        said = [process.communicate(timeout=LONGEST) for process in parties]
    finally:
        for process in (dealer, *parties):
            process.kill()
            process.communicate()
    assert [process.returncode for process in parties] == [0, 0], said
    assert all("trained in" in out for out, _ in said)
    assert all((place / f"model_{name}.npz").exists() for name in "ab")
