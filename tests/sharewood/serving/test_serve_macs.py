"""Predictions with MACs between hosts, by services and by the command, and a party whose program lies."""

import json
import sys
from subprocess import PIPE, Popen

import httpx
import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError
from sharewood.job.config import HostsConfig
from tests.sharewood.commands.hosting import ROLES, both, dealing, sharewood
from tests.sharewood.serving.test_serve import NAMES, WAIT, ask, by_rows, place_job, running, until_ready

__all__ = ["by_rows"]

# A program that adds 1 to its share of one word in every 20th opening, and continues with it.
LYING = """
import sys
from dataclasses import replace
from mpc.authenticated import authenticated_rows, authenticated_sign, macs, reveal
opened, honest = [0], macs.open_authenticated

class Lying:
    def steps(self, party, x):
        opened[0] += 1
        words = x.words.copy()
        words.reshape(-1)[:1] += opened[0] % 20 == 0
        return honest.steps(party, replace(x, words=words))

for module in (macs, authenticated_rows, authenticated_sign, reveal):
    module.open_authenticated = Lying()
from sharewood.cli import main
sys.argv[0] = "sharewood"
main()
"""


def lying(role, cwd):
    arguments = ["serve", "--party", role, "--config", f"{role}.toml"]
    return Popen([sys.executable, "-c", LYING, *arguments], cwd=cwd, stdout=PIPE, stderr=PIPE, text=True)


@pytest.mark.long
def test_services_with_macs(by_rows, tmp_path):
    sections, truth, rows = by_rows
    urls = place_job(tmp_path, sections, predict={"mac": True})
    with running(tmp_path, *ROLES) as processes, httpx.Client(timeout=WAIT) as client:
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
        for name, count in (("party_a", 1), ("party_b", 1), ("party_a", 3), ("party_b", 100)):
            answer = ask(client, urls[name], rows[:count])
            assert answer.status_code == 200, answer.text
            np.testing.assert_allclose(answer.json()["predictions"], truth[:count], atol=1e-3)


def test_a_service_that_lies_is_caught(by_rows, tmp_path):
    sections, truth, rows = by_rows
    urls = place_job(tmp_path, sections, predict={"mac": True})
    with running(tmp_path, "party_a", "dealer") as processes, httpx.Client(timeout=WAIT) as client:
        liar = lying("party_b", tmp_path)
        try:
            until_ready(client, urls["party_a"], processes["party_a"])
            answers = []
            while not answers or (answers[-1].status_code == 200 and len(answers) < 30):
                answers.append(ask(client, urls["party_a"], rows[:2]))
        finally:
            liar.kill()
            liar.communicate()
    assert answers[-1].status_code == 503 and "do not match their MACs" in answers[-1].json()["detail"]
    for answer in answers[:-1]:
        np.testing.assert_allclose(answer.json()["predictions"], truth[:2], atol=1e-3)


def test_the_command(by_rows, tmp_path):
    sections, truth, rows = by_rows
    for name, some in zip(NAMES, (slice(0, 7), slice(7, 12)), strict=True):
        pd.DataFrame(rows[some]).to_csv(tmp_path / f"{name}.csv", index=False)
        sections = {
            **sections,
            name: sections[name] | {"predict_data": f"{name}.csv", "predictions": f"{name}_out.csv"},
        }
    place_job(tmp_path, sections)
    with dealing(1, cwd=tmp_path):
        said = both("predict", "--mac", "--json", "{}.json", cwd=tmp_path)
    assert all("predictions of its own rows" in text for text in said)
    found = [pd.read_csv(tmp_path / f"{name}_out.csv")["prediction"] for name in NAMES]
    np.testing.assert_allclose(np.concatenate(found), truth[:12], atol=1e-3)
    assert all(json.loads((tmp_path / f"{name}.json").read_text())["predict"]["mac"] for name in NAMES)
    status, _, said = sharewood("train", "--config", "party_a.toml", "--party", "party_a", "--mac", cwd=tmp_path)
    assert status == 2 and "--mac" in said


def test_what_it_does_not_go_with_is_refused(by_rows, tmp_path):
    place_job(tmp_path, by_rows[0], predict={"mac": True})
    path = tmp_path / "party_a.toml"
    text = path.read_text()
    for changed, sentence in [
        (text.replace("mac = true", 'mac = true\nmethod = "bins"'), 'with MACs the method must be "thresholds"'),
        ('offline = "pairwise"\n' + text, 'offline must be "dealer" with MACs'),
        ("mac = true\n" + text, "unknown parameter mac"),
    ]:
        path.write_text(changed)
        with pytest.raises(ConfigError, match=sentence):
            HostsConfig.read(path)
    for line, sentence in [
        ("shards = 2", "leave out shards"),
        ("audit = true", "a prediction must use MACs or an audit"),
    ]:
        path.write_text(f"{line}\n{text}")
        with pytest.raises(ConfigError, match=sentence):
            HostsConfig.read(path).with_macs(mac=False)
