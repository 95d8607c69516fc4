"""Cross-validation and grid search from the command line, at both parties."""

import os
import stat

import pytest

from mpc.errors import ConfigError
from sharewood.job.config import HostsConfig
from sharewood.job.tuning import tune
from tests.sharewood.commands.hosting import ROLES, in_threads, write_job


@pytest.fixture
def job(tmp_path):
    train = {"n_estimators": 2, "max_depth": 1, "max_bin": 4, "eval_metric": "auc"}
    sections = {f"party_{p}": {"train_data": f"{p}.csv"} for p in "ab"}
    write_job(tmp_path, sections, train=train, grid={"max_depth": [1, 2], "learning_rate": [0.5]})
    for p in "ab":
        values = [f"{i % 7},{i % 3},{int(i % 7 > 3)}" for i in range(30)]
        (tmp_path / f"{p}.csv").write_text("\n".join(["x,z,label", *values]) + "\n")
    return tmp_path


@pytest.fixture
def run(monkeypatch, job):
    """Under umask 000."""
    before = os.umask(0)

    def at_both(searching):
        outs = {name: job / f"{name}.table.csv" for name in ROLES[:2]}

        def command(config, name):
            return tune(config, name, 2, searching, outs[name], job / f"{name}.json")

        return in_threads(monkeypatch, job, command), outs

    yield at_both
    os.umask(before)
    written = [path for path in job.iterdir() if path.name.startswith(("party_a.table", "party_b.table"))]
    written += [job / f"{name}.json" for name in ROLES[:2]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written if path.exists()} <= {0o600}


def test_cross_validation(run):
    (first, second), outs = run(False)
    assert [set(row) for row in first.table] == [{"fold", "auc"}] * 2 and first.table == second.table
    assert outs["party_a"].read_text().startswith("fold,auc") and first.best is None


def test_grid_search_names_the_best(run):
    (first, second), _ = run(True)
    assert first.table == second.table and len(first.table) == 2
    assert first.best == {"max_depth": first.table[0]["max_depth"], "learning_rate": 0.5}
    assert first.table[0]["auc_mean"] >= first.table[1]["auc_mean"]


def test_a_grid_needs_values(job):
    config = HostsConfig.read(job / "party_a.toml").model_copy(update={"grid": {}, "patience": 0.1})
    with pytest.raises(ConfigError, match=r"\[grid\] must list the values to try"):
        tune(config, "party_a", 2, True, None, None)
