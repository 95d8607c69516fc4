"""How long hosts wait for each other, each according to its own file, and several jobs at one dealer."""

import json
import os
import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError
from sharewood.commands.hosts import dealer
from sharewood.job.config import HostsConfig
from tests.ports import free_port
from tests.sharewood.commands.hosting import ROLES, both, sharewood, start, write_job

SECTIONS = {f"party_{p}": {"train_data": f"{p}.csv", "model": f"{p}.npz"} for p in "ab"}
TRAIN = {"n_estimators": 4, "max_depth": 2, "max_bin": 8}


@pytest.fixture
def place(tmp_path):
    write_job(tmp_path, SECTIONS, train=TRAIN)
    rng = np.random.default_rng(6)
    for p in "ab":
        X = rng.normal(size=(40, 3)).round(3)
        table = pd.DataFrame(X, columns=["x", "y", "z"]).assign(label=(X[:, 0] > 0).astype(int))
        table.to_csv(tmp_path / f"{p}.csv", index=False)
    return tmp_path


def say(place, line, roles=ROLES):
    """Put a line first in the files of these roles."""
    for role in roles:
        path = place / f"{role}.toml"
        path.write_text(f"{line}\n{path.read_text()}")


def test_the_dealers_file_says_how_long_it_waits(place, monkeypatch):
    say(place, "patience = 7\ntimeout = 8", ["dealer"])
    path = place / "dealer.toml"
    path.write_text(path.read_text().replace("[dealer]", "[dealer]\nmemory = 0.5"))
    seen = {}
    monkeypatch.setattr(dealer, "run_dealer", lambda *_, **options: seen.update(options))
    dealer.dealer(path, 3)
    waits = {"sessions": 3, "patience": 7, "timeout": 8, "memory": 500_000_000}
    assert seen == waits | {"prepare": dealer.warm_up}


@pytest.mark.parametrize(
    "line", ["patience = 0", "timeout = -1", "patience = inf", "timeout = nan", "[dealer]\nmemory = 0"]
)
def test_times_and_sizes_that_make_no_sense(place, line):
    path = place / "dealer.toml"
    text = path.read_text()
    path.write_text(text.replace("[dealer]", line) if "[dealer]" in line else f"{line}\n{text}")
    with pytest.raises(ConfigError, match=line.split()[-3]):
        HostsConfig.read(path)


def test_a_party_says_for_whom_it_waits_and_who_did_not_come(place):
    say(place, "patience = 5")
    status, _, said = sharewood("train", "--config", "party_b.toml", "--party", "party_b", cwd=place)
    assert status == 3
    assert re.search(r"waiting for party_a at 127\.0\.0\.1:\d+: 2 s so far, 3 s left", said)
    assert re.search(r"no connection to party_a at 127\.0\.0\.1:\d+ in 5 s: Connection refused; is it running\?", said)


@pytest.mark.parametrize("odd", ROLES[:2])
def test_a_party_that_refuses_its_own_file_tells_the_one_that_waits(place, odd):
    other = next(name for name in ROLES[:2] if name != odd)
    (place / f"{odd[-1]}.csv").write_text("x,y,z,label\n1,2,north,1\n")
    dealer = start("dealer", "--config", "dealer.toml", cwd=place)
    waiting = start("train", "--config", f"{other}.toml", "--party", other, cwd=place)
    assert "waiting for" in waiting.stderr.readline()
    refused = sharewood("train", "--config", f"{odd}.toml", "--party", odd, cwd=place)
    begun = time.monotonic()
    said = waiting.communicate(timeout=30)[1]
    dealer.kill()
    dealer.communicate()
    assert refused[0] == 2 and "'north'" in refused[2]
    assert waiting.returncode == 3 and time.monotonic() - begun < 10
    assert f"sharewood: {odd} ended the session: it refused its own files or settings; its log has the reason" in said


@pytest.mark.long
def test_a_training_with_more_online_than_the_time_out(place):
    say(place, "timeout = 4")
    for role in ROLES:
        path = place / f"{role}.toml"
        path.write_text(path.read_text().replace("n_estimators = 4", "n_estimators = 800"))
    dealer = start("dealer", "--config", "dealer.toml", cwd=place)
    both("train", "--json", "{}.json", cwd=place)
    dealer.kill()
    dealer.communicate()
    assert json.loads((place / "party_a.json").read_text())["online"]["seconds"] > 4


@pytest.mark.long
def test_a_party_that_has_to_compile_takes_longer_than_its_peer_has_patience(place, tmp_path_factory):
    """Hosts meet before they compile."""
    say(place, "patience = 6")
    for number in range(2):
        cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
        dealer = start("dealer", "--config", "dealer.toml", "--sessions", "1", cwd=place, env=cold)
        begun = time.monotonic()
        runs = [
            start("train", "--config", f"{name}.toml", "--party", name, cwd=place, env=cold if at == number else None)
            for at, name in enumerate(ROLES[:2])
        ]
        ends = [run.communicate(timeout=300)[1] for run in [*runs, dealer]]
        assert [run.returncode for run in [*runs, dealer]] == [0] * 3, ends
        assert time.monotonic() - begun > 2 * 6, "there was much to compile"


@pytest.mark.long
def test_two_jobs_at_one_dealer_at_once(place, tmp_path_factory):
    """A second pair trains while the first one does; in the same number of sessions a third one follows."""
    second = tmp_path_factory.mktemp("second")
    shutil.copytree(place, second, dirs_exist_ok=True)
    first_port = HostsConfig.read(place / "party_a.toml").network.meeting[1]
    other_port = free_port()
    for role in ROLES:
        path = second / f"{role}.toml"
        path.write_text(path.read_text().replace(f":{first_port}", f":{other_port}"))
    dealer = start("dealer", "--config", "dealer.toml", "--sessions", "4", cwd=place)
    for _ in range(2):
        runs = [
            start("train", "--config", f"{name}.toml", "--party", name, cwd=folder)
            for folder in (place, second)
            for name in ROLES[:2]
        ]
        ends = [run.communicate(timeout=120) for run in runs]
        assert [run.returncode for run in runs] == [0] * 4, ends
    _, log = dealer.communicate(timeout=30)
    assert dealer.returncode == 0 and log.count("dealt ") == 4, log


@pytest.mark.long
def test_a_dealer_that_dies_online_costs_no_model(place):
    for role in ROLES:
        path = place / f"{role}.toml"
        path.write_text(path.read_text().replace("n_estimators = 4", "n_estimators = 150"))
    dealer = start("dealer", "--config", "dealer.toml", cwd=place)
    runs = [start("train", "--config", f"{name}.toml", "--party", name, cwd=place) for name in ROLES[:2]]
    for line in runs[0].stderr:
        if re.search(r"1[2-4]\d of 150", line):  # what is left fits into the window
            break
        time.sleep(0)
    dealer.kill()
    dealer.communicate()
    ends = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ends
    assert all((place / f"{p}.npz").exists() for p in "ab")
