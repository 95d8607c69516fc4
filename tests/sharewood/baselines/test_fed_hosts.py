"""SecureBoost between several hosts: a guest and two hosts as commands on loopback, with mutual TLS."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from sharewood.baselines.column_hosts import ColumnHosts, train
from sharewood.cli import app
from sharewood.commands.setup.keygen import keygen
from tests.ports import free_port
from tests.sharewood.commands.hosting import start

EXAMPLES = Path(__file__).parents[3] / "examples" / "secureboost"
NAMES = "bank", "telco", "registry"


@pytest.fixture
def job(tmp_path):
    """Keys, tables and the documented files of three parties; a file NAME.toml for each."""
    pytest.importorskip("nacl")
    keygen(tmp_path / "keys", NAMES[0], list(NAMES[1:]))
    address = f"127.0.0.1:{free_port()}"
    for name, example in zip(NAMES, ("guest", "host", "host"), strict=True):
        text = (EXAMPLES / f"{example}.toml").read_text().replace("192.0.2.10:50020", address)
        text = text.replace('encryption = "ou"', 'key_bits = 1024\nencryption = "paillier"')
        text = text.replace("n_estimators = 10", "n_estimators = 4").replace("binary:logistic", "multi:softprob", 1)
        if name == "registry":
            text = re.sub('telco(?!",)', "registry", text)
        (tmp_path / f"{name}.toml").write_text(text)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 5)).round(3)
    y = np.digitize(X[:, 0] + X[:, 2] + X[:, 4], [-1, 1])
    for name, columns, rows in zip(NAMES, ([0], [1, 2], [3, 4]), (range(150), range(5, 160), range(160)), strict=True):
        table = pd.DataFrame(X[:, columns], columns=[f"c{c}" for c in columns]).assign(id=np.arange(160))
        if name == "bank":
            table["y"] = y
        table.iloc[list(rows)].sample(frac=1, random_state=1).to_csv(tmp_path / f"{name}.csv", index=False)
        table.iloc[list(rows)][:60].drop(columns="y", errors="ignore").to_csv(tmp_path / f"new_{name}.csv", index=False)
    return tmp_path


def together(folder, *more):
    """Run the command at all parties at once; return exit status and messages."""
    command = ["fed", "secureboost", "--config"]
    work = [start(*command, f"{name}.toml", "--party", name, *more, cwd=folder) for name in NAMES]
    said = [process.communicate(timeout=280) for process in work]
    return [(process.returncode, *texts) for process, texts in zip(work, said, strict=True)]


def test_a_guest_and_two_hosts_train_and_predict_from_their_saved_parts(job):
    trained = together(job)
    assert [status for status, *_ in trained] == [0, 0, 0], trained
    assert "leaks: a guest that follows the protocol recovers most" in " ".join(trained[0][2].split())
    assert "trained on 145 of 150 rows" in " ".join(trained[0][2].split())
    predicted = together(job, "--predict")
    assert [status for status, *_ in predicted] == [0, 0, 0], predicted
    table, truth = pd.read_csv(job / "predictions.csv"), pd.read_csv(job / "bank.csv").set_index("id")["y"]
    assert set(table["id"]) == set(range(5, 60)) and {"prediction", "probability_2"} <= set(table)
    assert (table["prediction"].to_numpy() == truth[table["id"]].to_numpy()).mean() > 0.7


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "# epsilon = 10",
            "epsilon = 10",
            "epsilon must be at most 10 for this host, and the guest asks for exact sums",
        ),
        ("align = true", "align = false", "the parties disagree on align: False here, True at bank"),
    ],
)
def test_a_host_whose_file_says_otherwise_refuses_and_nobody_has_a_model(job, old, new, sentence):
    text = (job / "telco.toml").read_text()
    assert old in text
    (job / "telco.toml").write_text(text.replace(old, new))
    ends = together(job)
    assert all(status != 0 for status, *_ in ends)
    assert sentence in " ".join(ends[1][2].split()) and "telco" in ends[0][2]
    assert not list(job.glob("model_*"))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('guest = "bank"', 'guest = "telco"', "guest and hosts must have names of their own"),
        ("[parties.bank]", "[parties.bonk]", "parties.bonk is neither the guest nor a host"),
        ('label = "y"', "", "parties.bank.label must be set"),
        ("n_estimators = 4", "n_estimators = 0", "n_estimators"),
        (":softprob", ":hinge", "objective"),
        ("address = ", "location = ", "address"),
        ('data = "bank.csv"', "", "parties.bank.data must be set"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(job, old, new, sentence):
    path = job / "bank.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=sentence):
        train(ColumnHosts.read(path), "bank")


def test_ids_and_labels_are_asked_for(job):
    table = pd.read_csv(job / "bank.csv")
    table.drop(columns="id").to_csv(job / "bank.csv", index=False)
    with pytest.raises(DataError, match="no column 'id' to align"):
        train(ColumnHosts.read(job / "bank.toml"), "bank")
    table.drop(columns="y").to_csv(job / "bank.csv", index=False)
    with pytest.raises(DataError, match="no label column 'y'"):
        train(ColumnHosts.read(job / "bank.toml"), "bank")
    with pytest.raises(ConfigError, match="neither the guest nor a host"):
        train(ColumnHosts.read(job / "bank.toml"), "stranger")


@pytest.mark.parametrize("options", [["--config", "x.toml"], ["--party", "bank"], ["--predict"]])
def test_the_options_of_a_host_go_together(options):
    with pytest.raises(ConfigError, match="--config and --party go together"):
        app(["fed", "secureboost", *options], standalone_mode=False)
