"""A party between hosts in Python, as processes on loopback, and errors before the parties connect."""

import contextlib
import json
import subprocess
import sys

import pytest

from mpc.errors import ConfigError
from sharewood import connect
from sharewood.job import files, session
from sharewood.job.config import HostsConfig
from tests.sharewood.commands.hosting import dealing, sharewood, write_job

JOB = """
import sys
import numpy as np
from sharewood import SecureXGBClassifier, connect

name = sys.argv[1]
rank = int(name == "party_b")
X = np.random.default_rng(rank).normal(size=(40, 3))
with connect(name + ".toml") as party:
    x, y = (party.share([v] if rank == p else None, owner=p, scale=16) for p, v in ((0, 2.5), (1, 4.0)))
    product = party.reveal(x * y, what="the product")
    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=4).fit(party, X, X[:, 0] > 0)
    right = (model.predict(party, X) == (X[:, 0] > 0)).mean()
    if len(sys.argv) > 2 and rank:
        raise RuntimeError("of the user's own")
print(product.item(), right)
"""


NOTHING = {"party_a": {}, "party_b": {}}


def parties(folder, *arguments):
    work = [
        subprocess.Popen(
            [sys.executable, "-c", JOB, name, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for name in ("party_a", "party_b")
    ]
    ends = [process.communicate(timeout=120) for process in work]
    return [(process.returncode, *(t.decode() for t in texts)) for process, texts in zip(work, ends, strict=True)]


def test_a_block_at_two_hosts(tmp_path):
    write_job(tmp_path, NOTHING)
    with dealing(1, cwd=tmp_path):
        for status, out, log in parties(tmp_path):
            assert status == 0, log
            product, right = map(float, out.split())
            assert abs(product - 10) < 1e-3 and right > 0.8


@pytest.mark.long
def test_a_block_that_raises_ends_at_both(tmp_path):
    write_job(tmp_path, NOTHING)
    with dealing(1, cwd=tmp_path):
        (_, _, first), (status, _, second) = parties(tmp_path, "raise")
    assert status == 1 and "RuntimeError: of the user's own" in second
    assert "party_b" in first


def test_what_the_configuration_says_of_ray_reaches_it(tmp_path, monkeypatch):
    write_job(tmp_path, NOTHING)
    path = tmp_path / "party_a.toml"
    text = path.read_text().replace(
        "[parties.party_a]\n",
        '[parties.party_a]\nray = "192.0.2.1:6379"\nray_without_token = true\nworker_ports = [7000, 7010]\n',
    )
    path.write_text(text)
    config = HostsConfig.read(path).on_cluster("party_a", 2, None)
    given = {}

    def record(name):
        def into(*values):
            given[name] = values
            return contextlib.nullcontext()

        return into

    monkeypatch.setattr(files, "ray_cluster", record("cluster"))
    monkeypatch.setattr(session, "with_workers", record("workers"))
    monkeypatch.setattr(session, "run_party", lambda network, rank, credentials, job: job(None))
    with files.own_ray(config, "party_a"):
        session.on_workers(config, "party_a", lambda party: None, doing="a test")
    assert given["cluster"] == ("192.0.2.1:6379", 2, True)
    assert given["workers"][1] == 2 and given["workers"][-1] == (7000, 7010)


def test_which_party_this_host_is(tmp_path):
    write_job(tmp_path, NOTHING)
    (tmp_path / "job.toml").write_text((tmp_path / "party_a.toml").read_text())
    with pytest.raises(ConfigError, match="needs a party, party_a or party_b"), connect(tmp_path / "job.toml"):
        pass
    with pytest.raises(ConfigError, match="'party_c' is not one of"), connect(tmp_path / "job.toml", "party_c"):
        pass


def test_logs_of_json(tmp_path):
    write_job(tmp_path, NOTHING | {"party_a": {"align_data": "a.csv", "aligned": "out.csv"}})
    toml = tmp_path / "party_a.toml"
    toml.write_text("patience = 3.0\n" + toml.read_text())
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    command = ["--log-format", "json", "align", "--config", "party_a.toml", "--party", "party_a"]
    status, _, said = sharewood(*command, cwd=tmp_path)
    assert status == 3
    *entries, sentence = [json.loads(line) for line in said.splitlines()]
    assert entries and all({"time", "level", "logger", "message", "process"} == set(e) for e in entries)
    assert "waiting for party_b" in entries[0]["message"]
    assert sentence["level"] == "error" and "party_b did not connect" in sentence["message"]
