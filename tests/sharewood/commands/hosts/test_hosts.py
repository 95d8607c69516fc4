"""Two hosts and a dealer as real processes on loopback: the documented example, and one sentence for bad input."""

import json
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, DataError, PeerTimeout
from mpc.host.files import alone_in
from protocols.transport.certificates import Credentials
from secure_tree.exchange.libraries import from_library
from sharewood.commands.hosts import train
from sharewood.commands.hosts.reveal import reveal_half
from sharewood.commands.local.export import export
from sharewood.commands.setup.keygen import keygen
from sharewood.job import sections as hosts_sections
from sharewood.job import session
from sharewood.job.config import HostsConfig
from tests.sharewood.commands.hosting import (
    ROLES,
    both,
    both_end,
    complaint,
    dealing,
    example,
    sharewood,
    start,
    write_job,
)
from tests.sharewood.page.pages import check_page


@pytest.fixture
def place(tmp_path):
    """The example's files on loopback, smaller, with keys and data."""
    example(tmp_path, {role: f"{role}.toml" for role in ROLES}, n_estimators=4, max_depth=2)
    for path in tmp_path.glob("*.toml"):
        path.write_text(path.read_text().replace("# reveal", "reveal"))
    rng = np.random.default_rng(3)
    for name in ("a", "b", "new_a", "new_b"):
        X = rng.normal(size=(40, 3)).astype(np.float32)
        table = pd.DataFrame(X, columns=["x", "y", "z"])
        table.insert(0, "id", np.arange(40))
        if name != "new_b":
            table["defaulted"] = (X[:, 0] + X[:, 1] > 0).astype(int)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_the_example_of_two_hosts(place):
    with dealing(4, cwd=place):
        trained = both("train", "--json", "{}.report.json", cwd=place)
        said = both("predict", cwd=place)
        ranked = both("importance", "--kind", "weight", "--out", "{}.importance.csv", cwd=place)
        both("reveal", "--to", "party_b", cwd=place)
    assert all("predictions of its own rows" in text for text in said)
    for text in ranked:
        assert re.search(r"^revealed in [\d.]+ s, .* \(importance [\d.]+ s\)\n[1-9]\d* rounds, ", text, re.MULTILINE), (
            text
        )
    for text, name in zip(trained, "ab", strict=True):
        assert re.search(
            r"^trained in [\d.]+ s, including start-up and waiting \(.*online [\d.]+ s\)$", text, re.MULTILINE
        )
        assert f"wrote {place}/model_{name}.json and {place}/model_{name}.report.html" in text
    for name in ("a", "b"):
        truth, table = pd.read_csv(place / f"new_{name}.csv"), pd.read_csv(place / f"predictions_{name}.csv")
        assert list(table) == ["id", "prediction"] and (table["id"] == truth["id"]).all()
        assert ((table["prediction"] > 0.5) == (truth["x"] + truth["y"] > 0)).mean() > 0.7
        report = json.loads((place / f"party_{name}.report.json").read_text())
        assert {"data", "config", "curve", "setup"} <= set(report)
        assert report["offline"]["bytes_dealer"] > 1e3 and report["offline"]["bytes_parties"] == 0
        assert all(4 * report["online"][f"{key}_per_tree"] == report["online"][key] for key in ("rounds", "bytes"))
        assert report["memory_peak_bytes"][f"party_{name}"] > 1e8
        assert report["curve"][-1][0] == 4 and report["curve"][-1][1] < 0.5
        page = check_page((place / f"model_{name}.report.html").read_text())
        assert f"Training at party_{name}" in page and f"{report['curve'][-1][1]:.4f}" in page
        assert f"{report['online']['rounds']:,}" in page and "a training reveals no prediction" in page
        page = check_page((place / f"predictions_{name}.report.html").read_text())
        assert ("ROC: true positive rate" in page) == (name == "a")
    export(place / "revealed_b.json", place / "xgboost.json")
    X = pd.read_csv(place / "new_b.csv").drop(columns="id")
    booster = xgboost.Booster(model_file=place / "xgboost.json")
    table_of_features = pd.read_csv(place / "party_b.importance.csv", index_col="feature")["weight"]
    assert table_of_features[table_of_features > 0].to_dict() == booster.get_score(importance_type="weight")
    assert all(re.search(rf"^{name} +{value:g}$", ranked[0], re.MULTILINE) for name, value in table_of_features.items())
    plain = booster.predict(xgboost.DMatrix(X))
    assert np.abs(plain - table["prediction"]).max() < 1e-4


def test_the_plan_of_the_example(place):
    status, said, log = sharewood("plan", "--config", "party_a.toml", "--json", "plan.json", cwd=place)
    assert status == 0, log
    report = json.loads((place / "plan.json").read_text())
    assert report["data"] == {"rows": [1000, 1500], "features": [10, 10]}
    for times in report["totals"].values():
        assert all(f"{seconds:.0f}" in said for seconds in times.values())
    assert "WAN" in said and min(report["computing_seconds"].values()) > 0


def test_the_plan_prices_reasons(place):
    path = place / "party_a.toml"
    path.write_text(path.read_text().replace("[predict]", "[predict]\nreasons = 4"))
    status, said, log = sharewood("plan", "--config", "party_a.toml", "--json", "plan.json", cwd=place)
    assert status == 0, log
    report = json.loads((place / "plan.json").read_text())
    for part in (report["reasons_table"], report["reasons"]):
        assert f"{part['what']} with a dealer: {part['rounds']:,} rounds, {part['bytes']:,} bytes" in said


@pytest.mark.long
@pytest.mark.parametrize("file", ["plain.json", "plain.txt", "plain.npz"])
def test_a_plain_model_shared_between_hosts(place, file):
    rows = pd.read_csv(place / "a.csv").drop(columns="id")
    X, y = rows.drop(columns="defaulted"), rows["defaulted"]
    if file == "plain.json":
        model = xgboost.XGBClassifier(n_estimators=5).fit(X, y)
        model.save_model(place / file)
    else:
        model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=63, min_child_samples=2, verbose=-1).fit(X, y)
        model.booster_.save_model(place / "plain.txt")
        from_library(model).save(place / "plain.npz")
    with dealing(2, cwd=place):
        owner = start("share", "--config", "party_a.toml", "--party", "party_a", "--model", file, cwd=place)
        other = sharewood("share", "--config", "party_b.toml", "--party", "party_b", cwd=place)
        assert other[0] == 0 and owner.wait(60) == 0, other
        assert ": the model's objective, feature names, classes, number of trees" in other[1]
        both("predict", cwd=place)
    for name in ("a", "b"):
        truth = model.predict_proba(pd.read_csv(place / f"new_{name}.csv")[list(X)])[:, 1]
        assert np.abs(truth - pd.read_csv(place / f"predictions_{name}.csv")["prediction"]).max() < 1e-3


def test_reveal_needs_consent(place):
    path = place / "party_a.toml"
    path.write_text(path.read_text().replace('reveal_to = ["party_b"]', ""))
    with pytest.raises(ConfigError, match="has not consented"):
        reveal_half(HostsConfig.read(path), "party_a", "party_b")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('objective = "binary:logistic"', 'objective = "rank"', "objective"),
        ("n_estimators", "n_estimator", "unknown parameter n_estimator: did you mean n_estimators?"),
        ('"binary:logistic"', '"multi:softprob"', "num_class must be set for multi:ova and multi:softprob"),
        ("127.0.0.1", "127.0.0.1:", "host:port"),
        ('tls = "keys"', "", "tls must be set"),
        ('tls = "keys"', 'tls = "keys"\naudit = true\nshards = 2', "an audit must be used with one process"),
        ('tls = "keys"', 'tls = "keys"\ncheck_dealer = false', "check_dealer no longer exists: who distrusts"),
        ("[train]", '[train]\ncomparison = "keys"', "comparison is not supported: leave it out"),
        (
            "[parties.party_a]\naddress",
            "[parties.party_a]\n# address",
            "party_a.address must be set: the first",
        ),
        ("eval_epochs = 10", "eval_epochs = 0", "eval_epochs"),
        ("[train]", "[train", "not TOML"),
        ("[train]", "[train]\nnum_class = 3", "num_class must be set for multi:ova"),
        ("[predict]", '[predict]\nto = "party_c"', "predict.to must name a party, party_a or party_b, got 'party_c'"),
        ('label = "defaulted"', 'label = "defaulted"\nweight = "w"', "there is no weight column 'w'"),
        ('label = "defaulted"', 'label = "defaulted"\ntest_data = "a.csv"', "each specifies the rows for validation"),
        ("[parties.party_b]", "[parties.dealer]", "neither of them called dealer"),
        ('"a.csv"', '"none.csv"', "there is no such file"),
        ('"model_a.json"', '"no/model_a.json"', "cannot be written"),
        ('tls = "keys"', 'tls = "nokeys"', "party_a.crt: the certificate cannot be read"),
        ('label = "defaulted"', 'label = "y"', "label must be 0 or 1, got 0.25"),
    ],
)
def test_bad_configurations(place, monkeypatch, capsys, old, new, sentence):
    monkeypatch.setattr(session, "run_party", lambda *_: pytest.fail("it connects"))
    (place / "a.csv").write_text("x,y,defaulted\n1,0.25,0\n")
    text = (place / "party_a.toml").read_text()
    assert old in text
    (place / "party_a.toml").write_text(text.replace(old, new))
    arguments = "train", "--config", place / "party_a.toml", "--party", "party_a"
    assert sentence in complaint(monkeypatch, capsys, *arguments)
    assert not (place / "model_a.json").exists()


def test_a_peer_that_never_comes(place):
    path = place / "party_a.toml"
    path.write_text("patience = 0.3\n" + path.read_text())
    status, _, said = sharewood("train", "--config", path, "--party", "party_a", cwd=place)
    assert status == 3 and "party_b did not connect" in said and said.count("\n") == 1


@pytest.mark.parametrize("failure", [PeerTimeout("party_b silent for 6 s in gains"), DataError("no space left")])
@pytest.mark.parametrize(("begun", "rounds", "hint"), [(True, 0, False), (True, 2, True), (False, 2, False)])
def test_a_failure_names_checkpoints_that_this_training_can_resume_from(
    place, monkeypatch, failure, begun, rounds, hint
):
    def grow(party, parameters, rows, evaluated, checkpoints, *_):
        for number in range(rounds):
            (place / "checkpoints" / f"round_{number + 1:05d}.npz").touch()
        checkpoints.done = 0 if begun else None
        raise failure

    monkeypatch.setattr(train, "fit", grow)
    monkeypatch.setattr(session, "run_party", lambda network, rank, credentials, job, **_: job(None))
    path = place / "party_a.toml"
    path.write_text(path.read_text().replace("# checkpoints", "checkpoints"))
    (place / "checkpoints").mkdir()
    with pytest.raises(type(failure), match=str(failure)) as told:
        train.train_half(HostsConfig.read(path), "party_a", False, None)
    assert (f"kept in {place / 'checkpoints'}: continue with --resume" in str(told.value)) == hint


def test_a_folder_of_checkpoints_is_used_by_one_training(place):
    path = place / "party_a.toml"
    path.write_text(path.read_text().replace("# checkpoints", "checkpoints"))
    (place / "checkpoints").mkdir()
    with (
        alone_in(place / "checkpoints"),
        pytest.raises(ConfigError, match="another process is training in this folder"),
    ):
        train.train_half(HostsConfig.read(path), "party_a", False, None)


def test_keys_are_never_replaced(place):
    status, _, said = sharewood("keygen", "--out", "keys", "--names", "party_c", cwd=place)
    assert status == 2 and "already has certificates" in said
    assert (place / "keys" / "party_a.key").stat().st_mode & 0o077 == 0


def test_a_strangers_section(place):
    with pytest.raises(ConfigError, match="'party_c' is not one of"):
        HostsConfig.read(place / "party_a.toml").party("party_c")


def test_every_command_warns_before_a_certificate_expires(tmp_path, caplog):
    write_job(tmp_path, {"party_a": {}, "party_b": {}})
    for days, warned in ((29, True), (40, False)):
        keygen(tmp_path / f"keys_{days}", "party_a", [], days)
        text = (tmp_path / "party_a.toml").read_text().replace('"keys"', f'"keys_{days}"')
        (tmp_path / f"{days}.toml").write_text(text)
        caplog.clear()
        for _ in range(2):
            HostsConfig.read(tmp_path / f"{days}.toml").credentials("party_a")
        assert caplog.text.count("party_a.crt is valid until") == warned


def test_one_certificate_is_made_again_by_a_kept_authority(tmp_path):
    keygen(tmp_path / "keys", "party_a", ["party_b"], authority=tmp_path / "ca")
    keygen(tmp_path / "new", "party_b", authority=tmp_path / "ca")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"party_b.key", "party_b.crt", "authority.crt"}
    certificates = [(tmp_path / folder / "authority.crt").read_bytes() for folder in ("keys", "new", "ca")]
    assert len(set(certificates)) == 1
    assert Credentials.load(tmp_path / "new", "party_b")
    with pytest.raises(ConfigError, match="already has certificates"):
        keygen(tmp_path / "ca", "party_c")


NAMES_OF_SECTIONS = ("dealer", "parties", "link", "predict", "plan", "serve", "owners", "explore")


def test_every_key_of_the_configuration_has_a_meaning():
    """The configuration reference of the site is generated from these lines."""
    sections = [
        HostsConfig,
        *(
            vars(hosts_sections)[name]
            for name in ("Dealer", "LinkSection", "Owners", "PartySection", "Predict", "Serve")
        ),
    ]
    nameless = [
        f"{section.__name__}.{name}"
        for section in (*sections, hosts_sections.PlanShape)
        for name, entry in section.model_fields.items()
        if not entry.description and name not in NAMES_OF_SECTIONS
    ]
    assert nameless == []


def test_predictions_with_reasons(place):
    for path in place.glob("party_?.toml"):
        path.write_text(path.read_text().replace("[predict]", '[predict]\ngroups = {sum = ["x", "y"]}'))
    with dealing(2, cwd=place):
        both("train", cwd=place)
        said = both("predict", "--reasons", "2", "--json", "{}.explained.json", cwd=place)
    refused = both_end("predict", "--reasons", "2", "--mac", cwd=place)
    assert all("the strongest reasons of its own rows" in text for text in said)
    for name in ("a", "b"):
        table = pd.read_csv(place / f"predictions_{name}.csv", keep_default_na=False)
        assert list(table) == ["id", "prediction", "reason_1", "reason_2"]
        assert set(table["reason_1"]) <= {"sum", "z", ""}
        # What is likely to default has been raised by the columns that the label depends on.
        assert (table.loc[table["prediction"] > 0.5, "reason_1"] == "sum").mean() > 0.9
        report = json.loads((place / f"party_{name}.explained.json").read_text())
        assert report["predict"]["reasons"] == 2 and report["reasons"]["rounds"] > 0
    for status, _, error in refused:
        assert status == 2 and "reasons must be 0 with mac" in error
