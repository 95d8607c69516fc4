"""The files of `sharewood init`, and the findings of `sharewood check` on a host before a job."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from protocols.transport.certificates import Authority
from protocols.transport.tcp import listen
from sharewood.commands.setup.check import findings
from sharewood.commands.setup.init import init, write_first_files
from sharewood.commands.setup.keygen import keygen
from sharewood.job.config import HostsConfig
from tests.ports import free_port
from tests.sharewood.commands.hosting import ROLES, both, complaint, dealing, sharewood


@pytest.fixture
def job(tmp_path):
    """The files of `sharewood init` and `keygen`, on free ports, and tables."""
    init(tmp_path, *(f"127.0.0.1:{free_port()}" for _ in range(2)))
    keygen(tmp_path / "keys", ROLES[0], list(ROLES[1:]))
    for k, name in enumerate(ROLES[:2]):
        X = np.random.default_rng(k).normal(size=(60, 2))
        table = pd.DataFrame({"id": range(60), "u": X[:, 0], "v": X[:, 1], "label": (X[:, 0] > 0).astype(int)})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        table.drop(columns="label").to_csv(tmp_path / f"{name}_new.csv", index=False)
    return tmp_path


def found(folder, name):
    """Return the failed checks: name and message."""
    config = HostsConfig.read(folder / f"{name}.toml")
    return {f.what: f.text for f in findings(config, name, 2.0) if f.error or f.warning}


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_what_init_writes_is_a_job(tmp_path, offline, partition):
    files = write_first_files(tmp_path, "127.0.0.1:1", "[::1]:2", offline, partition)
    read = {role: HostsConfig.read(path) for role, path in files.items()}
    assert list(read) == list(ROLES if offline == "dealer" else ROLES[:2])
    first, second = read["party_a"], read["party_b"]
    assert first.train == second.train and first.network == second.network and first.offline == offline
    for name in ROLES[:2]:
        assert read[name].party(name).model == tmp_path / f"{name}.npz"
        assert read[name].columns(name).named("label") == (
            None if partition == "vertical" and name == "party_b" else "label"
        )


def test_init_replaces_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "party_b.toml").write_text("")
    assert "party_b.toml exists: choose another folder" in complaint(monkeypatch, capsys, "init", "--out", tmp_path)
    assert "host:port" in complaint(monkeypatch, capsys, "init", "--out", tmp_path / "new", "--address", "here")
    assert not (tmp_path / "new").exists()


def test_a_job_from_init_to_predictions(job):
    status, said, log = sharewood("check", "--config", "party_b.toml", "--party", "party_b", "--seconds", 1, cwd=job)
    assert status == 0, log
    assert said.count("nothing listens there yet") == 2 and "ok      train_data: " in said and "error" not in said
    with dealing(2, cwd=job):
        assert found(job, "party_b") == {}
        both("train", cwd=job)
        both("predict", cwd=job)
    assert found(job, "party_a") == {}
    assert len(pd.read_csv(job / "party_a_predictions.csv")) == 60


def test_tables_are_read_as_a_training_reads_them(job):
    (job / "party_a.csv").write_text("id,u,v,label\n1,north,2,0\n")
    assert "party_a.csv: column 'u', line 2: " in found(job, "party_a")["train_data"]
    (job / "party_a.csv").write_text("id,u,v\n1,1,2\n")
    assert "there is no label column 'label'" in found(job, "party_a")["train_data"]


def test_outputs_that_cannot_be_written(job):
    text = (job / "party_a.toml").read_text()
    (job / "party_a.toml").write_text(text.replace('"party_a.npz"', '"none/party_a.npz"'))
    assert "there is no such folder" in found(job, "party_a")["model"]


def test_certificates(job):
    config = HostsConfig.read(job / "party_a.toml")
    Authority.new(dt.timedelta(days=9)).issue("party_a", 9).save(job / "soon", "party_a")
    [finding] = [f for f in findings(config.model_copy(update={"tls": job / "soon"}), "party_a", 0.5) if f.warning]
    assert finding.what == "certificate" and "valid until" in finding.text
    Authority.new(dt.timedelta(days=9)).issue("party_b", 9).save(job / "other", "party_a")
    wrong = {
        f.what: f.text for f in findings(config.model_copy(update={"tls": job / "other"}), "party_a", 0.5) if f.error
    }
    assert wrong["certificate"] == "the certificate must name party_a in its subjectAltName, got party_b"
    (job / "soon" / "authority.crt").write_bytes((job / "keys" / "authority.crt").read_bytes())
    wrong = {
        f.what: f.text for f in findings(config.model_copy(update={"tls": job / "soon"}), "party_a", 0.5) if f.error
    }
    assert "does not hold against authority.crt" in wrong["certificate"]


def test_ports_and_other_hosts(job):
    config = HostsConfig.read(job / "party_a.toml")
    with listen(config.network.meeting, config.credentials("party_a")):
        assert "cannot listen at" in found(job, "party_a")["port"]
    config = HostsConfig.read(job / "party_b.toml")
    nowhere = config.parties | {"party_a": config.party("party_a").model_copy(update={"address": "nowhere.invalid:1"})}
    [lost] = [f for f in findings(config.model_copy(update={"parties": nowhere}), "party_b", 1.0) if f.error]
    assert lost.what == "party_a" and "nowhere.invalid:1 cannot be reached" in lost.text and lost.error.exit_status == 3
