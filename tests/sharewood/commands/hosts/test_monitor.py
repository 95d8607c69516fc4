"""sharewood monitor between hosts: a profile, statistics with labels that come later, the ledger and the page."""

import json

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.ledger import Ledger
from sharewood.commands.hosts.monitor import monitor_party, profile_party
from sharewood.commands.hosts.train import train_half
from sharewood.job.config import HostsConfig
from sharewood.page.monitoring import monitoring_page
from tests.secure_tree.monitor.rows import expected
from tests.sharewood.commands.hosting import ROLES, both, dealing, in_threads, sharewood, write_job
from tests.sharewood.page.pages import check_page

ROWS = 800
EVERY = ["scores", "features", "auc", "ks", "ece", "slope", "parity", "odds", "calibration", "loss"]


def tables(folder, partition, seed, name):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS * (1 + (partition == "horizontal")), 4)).round(3)
    bad = (X[:, 1] + X[:, 3] + rng.normal(size=len(X)) > 0.5).astype(int)
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(4)]).assign(id=np.arange(len(X)) + 10_000 * seed)
    table = table.assign(bad=bad, sex=np.where(X[:, 1] + rng.normal(size=len(X)) > 0, "f", "m"))
    if partition == "vertical":
        table[["id", "x0", "x1", "sex"]].to_csv(folder / f"a_{name}.csv", index=False)
        table[["id", "x2", "x3", "bad"]].to_csv(folder / f"b_{name}.csv", index=False)
    else:
        table[:ROWS].to_csv(folder / f"a_{name}.csv", index=False)
        table[ROWS:].to_csv(folder / f"b_{name}.csv", index=False)
    return table


def job(folder, partition="vertical", **monitor):
    """Write the files of both parties; `a` has the protected column, by columns `b` the labels."""
    names = {
        "train_data": "{}_train.csv",
        "predict_data": "{}_later.csv",
        "model": "{}_model.npz",
        "profile": "{}_profile.npz",
        "monitored": "{}_monitored.json",
        "predictions": "{}_predictions.csv",
        "ledger": "{}_ledger.jsonl",
    }
    sections = {name: {k: v.format(p) for k, v in names.items()} for p, name in zip("ab", ROLES, strict=False)}
    if partition == "vertical":
        sections["party_a"]["protected"], sections["party_b"]["label"] = "sex", "bad"
    else:
        for section in sections.values():
            section |= {"protected": "sex", "label": "bad"}
    train = {"partition": partition, "n_estimators": 3, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
    write_job(folder, sections, train=train, monitor={"statistics": EVERY, **monitor})
    tables(folder, partition, 1, "train")
    return tables(folder, partition, 2, "later")


def test_between_hosts(tmp_path):
    later = job(tmp_path, **{"floors.bits": 0.5})
    labels = tmp_path / "labels.csv"
    later[["id", "bad"]].sample(frac=1, random_state=1).to_csv(labels, index=False)
    pd.read_csv(tmp_path / "b_later.csv").drop(columns="bad").to_csv(tmp_path / "b_later.csv", index=False)
    with dealing(4, cwd=tmp_path):
        both("train", cwd=tmp_path)
        both("monitor", "--make-profile", cwd=tmp_path)
        both("predict", cwd=tmp_path)
        ends = both_with_labels(tmp_path, labels)
    predictions = pd.read_csv(tmp_path / "b_predictions.csv")
    margin = np.log(predictions["prediction"] / (1 - predictions["prediction"])).to_numpy()
    truth = expected(margin, later["bad"].to_numpy(), later["sex"].to_numpy(), names=("f", "m"))
    found = json.loads((tmp_path / "b_monitored.json").read_text())
    assert found["statistics"] == json.loads((tmp_path / "a_monitored.json").read_text())["statistics"] | {
        "loss": found["statistics"]["loss"]
    }
    for name in ("slope", "parity", "odds", "calibration", "ece"):
        assert abs(found["statistics"][name] - truth[name]) < found["resolution"]
    assert found["statistics"]["auc"] == pytest.approx(truth["auc"], abs=0.05)
    assert all("the stability index of the scores" in said for said in ends)
    lines = [Ledger(tmp_path / f"{p}_ledger.jsonl").entries for p in "ab"]
    assert lines[0] == lines[1] and found["ledger"] == 2
    assert [line["kind"] for line in lines[0]] == ["record", "record", "monitor", "record"]
    assert [line["job"] for line in lines[0] if "job" in line] == ["train", "predict", "monitor"]
    assert list(lines[0][3]["entries"]) == ["2"]
    for p in "ab":
        page = check_page((tmp_path / f"{p}_monitored.report.html").read_text())
        assert "Drift of features" in page and "Loss by group" in page and "demographic" not in page


def both_with_labels(folder, labels):
    """Run the command at both parties, of which the second has labels that came later."""
    from tests.sharewood.commands.hosting import LONGEST, start

    ends = [
        start("monitor", "--config", f"{name}.toml", "--party", name, *more, cwd=folder)
        for name, more in zip(ROLES, ([], ["--labels", labels]), strict=False)
    ]
    said = [end.communicate(timeout=LONGEST) for end in ends]
    assert [end.returncode for end in ends] == [0, 0], said
    return [out for out, _ in said]


def trained(folder, monkeypatch):
    in_threads(monkeypatch, folder, lambda config, name: train_half(config, name, False, None))
    in_threads(monkeypatch, folder, profile_party)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_alarms_and_the_period(tmp_path, monkeypatch, partition):
    job(tmp_path, partition, reveal="alarms", statistics=EVERY[:-1])
    trained(tmp_path, monkeypatch)
    reports = in_threads(monkeypatch, tmp_path, monitor_party, None, None)
    assert reports[0].alarms == reports[1].alarms and "parity" in reports[0].alarms
    assert set(reports[0].statistics["parity" if partition == "vertical" else "auc"].__class__.__mro__) >= {float}
    page = check_page((tmp_path / "a_monitored.report.html").read_text())
    assert "no alarm" in page and "One" not in page.split("<table")[0]
    with pytest.raises((DataError, PeerFailure), match="less than 1 days ago"):
        in_threads(monkeypatch, tmp_path, monitor_party, None, None)


def test_plan_prices_the_section(tmp_path):
    job(tmp_path)
    for name in ROLES[:2]:
        path = tmp_path / f"{name}.toml"
        path.write_text(path.read_text() + "[plan]\nrows = [800, 800]\nfeatures = [2, 2]\n")
    code, out, err = sharewood("plan", "--config", "party_b.toml", "--json", "plan.json", cwd=tmp_path)
    assert code == 0, err
    planned = json.loads((tmp_path / "plan.json").read_text())["monitor"]
    assert planned["rounds"] > 40 and planned["bytes_dealer"] > planned["bytes"] > 100_000
    assert "Monitoring with a dealer" in out


def test_hidden_groups_are_hatched():
    """A group with too few rows is a dash in the document, and hatched on the page."""
    from secure_tree.monitor.config import MonitorConfig
    from secure_tree.monitor.monitor import Monitored

    config = MonitorConfig.of(statistics=("loss", "parity"))
    numbers = {"loss": np.array([0.5, np.nan]), "parity": np.array([np.nan])}
    found = Monitored("a" * 32, config, (600, 600), ("x", "y"), (), numbers, 2**-9, {"loss": 9}, None, ["the loss"])
    assert found.document() == {"loss": {"x": 0.5, "y": None}, "parity": None}
    page = check_page(monitoring_page(found, "party_a", ("party_a", "party_b")))
    assert "hatched" in page and "Loss by group" in page


def test_bad_input(tmp_path, monkeypatch):
    later = job(tmp_path)
    trained(tmp_path, monkeypatch)

    def refused(match, labels=None, error=DataError, change=lambda text: text, party="party_b"):
        path = tmp_path / f"{party}.toml"
        text = path.read_text()
        path.write_text(change(text))
        try:
            with pytest.raises(error, match=match):
                monitor_party(HostsConfig.read(path), party, labels, None)
        finally:
            path.write_text(text)

    monkeypatch.setattr(HostsConfig, "credentials", lambda *_: None)
    labels = tmp_path / "labels.csv"
    later[["id", "bad"]][1:].to_csv(labels, index=False)
    refused("has no label of row '20000'", labels)
    pd.concat([later, later])[["id", "bad"]].to_csv(labels, index=False)
    refused("appears twice", labels)
    later[["id", "x0"]].to_csv(labels, index=False)
    refused("must have the columns 'id' and 'bad'", labels)
    later.assign(bad=2)[["id", "bad"]].to_csv(labels, index=False)
    refused("labels must be 0 or 1", labels)
    refused("column 'sex' is not a feature", change=lambda t: t.replace('"sex"', '"race"'), party="party_a")
    pd.read_csv(tmp_path / "a_later.csv").drop(columns="sex").to_csv(tmp_path / "a_later.csv", index=False)
    refused("has no column 'sex', which parties.party_a.protected names", party="party_a")
    refused(
        r"monitor\.every must be at least 1",
        error=ConfigError,
        change=lambda t: t.replace("[monitor]", "[monitor]\nevery = 0.5"),
    )
    refused("without shards", error=ConfigError, change=lambda t: "shards = 2\n" + t)
