"""A full disk, simulated by a limit on file sizes: one sentence, no half-written files, and a way to continue."""

import contextlib
import os
import resource
import subprocess

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.hosts.predict import predict_rows
from sharewood.commands.hosts.train import train_half
from tests.sharewood.commands.hosting import COMMAND, dealing, in_threads, start, write_job


@contextlib.contextmanager
def files_below(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(6)
    names = {"train_data": "{}.csv", "model": "{}.npz", "checkpoints": "kept_{}", "predict_data": "{}.csv"}
    sections = {
        f"party_{p}": {key: name.format(p) for key, name in names.items()} | {"predictions": f"{p}_out.csv"}
        for p in "ab"
    }
    write_job(tmp_path, sections, train={"n_estimators": 12, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5})
    for p in "ab":
        X = rng.normal(size=(40, 3)).round(3)
        table = pd.DataFrame(X, columns=["x", "y", "z"]).assign(label=(X[:, 0] > 0).astype(int))
        table.to_csv(tmp_path / f"{p}.csv", index=False)
    return tmp_path


def sizes(folder):
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def test_a_model_that_does_not_fit(place, monkeypatch):
    in_threads(monkeypatch, place, train_half, False, None)
    before = sizes(place)
    assert before["a.npz"] > max(sizes(place / "kept_a").values())
    for p in "ab":
        (place / f"{p}.npz").unlink()
        (place / f"{p}.report.html").unlink()
    sentence = (
        r"[ab]\.npz: cannot be written \(File too large\); rounds of trees are kept in .*: continue with --resume"
    )
    with files_below(before["a.npz"] - 1), pytest.raises(DataError, match=sentence):
        in_threads(monkeypatch, place, train_half, False, None)
    assert sizes(place) == {name: size for name, size in before.items() if name[1:] not in (".npz", ".report.html")}
    report, _ = in_threads(monkeypatch, place, train_half, True, None)
    assert report.rounds_of_trees.resumed_after == 12 and SharedModel.load(place / "a.npz").rounds == 12
    with files_below(before["a.report.html"] // 2):
        report, _ = in_threads(monkeypatch, place, train_half, False, None)
    assert "a.report.html" not in sizes(place), "no page of another run lies beside the model"
    assert SharedModel.load(place / "a.npz").facts.pairing == report.run.id


def test_predictions_that_do_not_fit(place, monkeypatch):
    in_threads(monkeypatch, place, train_half, False, None)
    # Keys of TLS still fit.
    with files_below(400), pytest.raises(DataError, match=r"_out\.csv: cannot be written \(File too large\)"):
        in_threads(monkeypatch, place, predict_rows, None)
    assert not [name for name in sizes(place) if "out" in name]


@pytest.mark.long
def test_no_space_for_compiled_code(tmp_path):
    done = subprocess.run(
        [*COMMAND, "demo", "--trees", "1"],
        cwd=tmp_path,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    *_, said = done.stderr.splitlines()
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert said.startswith("sharewood: no space is left for compiled code or output (File too large)")


@pytest.mark.long
@pytest.mark.parametrize("limit", [2500, 4000, 6000, 10_000, 20_000])
def test_a_party_without_space(place, limit):
    """Run with a limit on the size of party A's files; return its message, and the remaining files."""
    with dealing(1, cwd=place):
        other = start("train", "--config", "party_b.toml", "--party", "party_b", cwd=place)
        command = [*COMMAND, "train", "--config", "party_a.toml", "--party", "party_a"]
        limited = subprocess.run(
            command,
            cwd=place,
            text=True,
            capture_output=True,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        other.communicate(timeout=120)
    said = [line for line in limited.stderr.splitlines() if line.startswith("sharewood: ")]
    assert "Traceback" not in limited.stderr
    assert limited.returncode == (2 if said else 0) and len(said) <= 1
    for folder in (place, place / "kept_a"):
        assert not [name for name in (sizes(folder) if folder.exists() else ()) if name.endswith("partial")]
    assert (place / "a.npz").exists() == (limited.returncode == 0)
    for path in [place / "a.npz"] if limited.returncode == 0 else []:
        SharedModel.load(path)
