"""PETML's examples with the import line changed: two processes, PETML's tables, PETML's figures."""

import copy
import json
import logging
import multiprocessing
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, SharewoodError
from protocols.transport.certificates import make_credentials
from sharewood import operators
from tests.ports import free_port

PETML = Path(__file__).parents[3] / "shared" / "data" / "petml"
FORK = multiprocessing.get_context("fork")


def run_both(operator, config, status=0):
    """Run the operator at both parties in separate processes; return their logs."""
    config = copy.deepcopy(config)
    for name in config["common"]["parties"]:
        config["common"]["parties"][name] = {"address": [f"127.0.0.1:{free_port()}"]}
    names = list(config["common"]["parties"])
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / name for name in names]
        work = [FORK.Process(target=play, args=(operator, *pair, config)) for pair in zip(names, logs, strict=True)]
        for process in work:
            process.start()
        for process in work:
            process.join(120)
        texts = [log.read_text() for log in logs]
    assert [process.exitcode for process in work] == [status] * 2, texts
    return texts


def play(operator, name, log, config):
    sys.stderr = open(log, "w")  # noqa: SIM115  until the process ends
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
    try:
        getattr(operators, operator)(name).run(config)
    except SharewoodError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    finally:
        sys.stderr.flush()


def seed_config(data, folder, **common):
    """Return PETML's training configuration."""
    parties = {"party_a": f"{data}_server.csv", "party_b": f"{data}_client.csv"}
    return {
        "common": {
            "objective": "logitraw", "n_estimators": 10, "max_depth": 3, "reg_lambda": 1, "reg_alpha": 0.0,
            "min_child_weight": 0.1, "base_score": 0.5, "learning_rate": 0.1, "network_mode": "petnet",
            "network_scheme": "socket", "label_name": "label", "test_size": 0.3,
            "parties": {"party_a": {"address": ["127.0.0.1:50011"]}, "party_b": {"address": ["127.0.0.1:50012"]}},
            **common,
        },
        **{
            name: {
                "inputs": {"train_data": str(PETML / file)},
                "outputs": {"model_path": str(folder / f"{name}.json")},
            }
            for name, file in parties.items()
        },
    }  # fmt: skip


def predict_config(config, folder):
    kept = ("network_mode", "network_scheme", "parties", "offline")
    common = {name: config["common"][name] for name in kept if name in config["common"]}
    return {
        "common": common,
        **{
            name: {
                "inputs": {"predict_data": config[name]["inputs"]["train_data"], **config[name]["outputs"]},
                "outputs": {"inference_res_path": str(folder / f"{name}.csv")},
            }
            for name in ("party_a", "party_b")
        },
    }


def predictions(config, folder, kind):
    run_both(f"XGBoost{kind}Predict", predict_config(config, folder))
    tables = [pd.read_csv(config[name]["inputs"]["train_data"]) for name in ("party_a", "party_b")]
    margins = [pd.read_csv(folder / f"{name}.csv")["prediction"] for name in ("party_a", "party_b")]
    return np.concatenate(margins), np.concatenate([t["label"] for t in tables])


@pytest.fixture(autouse=True)
def data():
    if not PETML.exists():
        pytest.skip("needs the PETML tables beside the checkout")


@pytest.mark.parametrize("generator", [{}, {"offline": "pairwise"}], ids=["dealer", "pairwise"])
def test_iris_as_petml_ran_it(tmp_path, generator):
    config = seed_config("iris_binary_mini", tmp_path, n_estimators=1, max_depth=2, test_size=0, **generator)
    logs = run_both("XGBoostClassifierFit", config)
    assert ("started a dealer process" in logs[0]) == (not generator) and "started a dealer" not in logs[1]
    assert {p.name for p in tmp_path.iterdir()} == {"party_a.json", "party_b.json"}
    margins, labels = predictions(config, tmp_path, "Classifier")
    assert np.abs(np.unique(np.round(margins, 5)) - [0.255902, 0.612698]).max() < 1e-3
    assert ((margins > 0.5) == labels).all()


def test_with_certificates_and_no_dealer_the_two_do_it_alone(tmp_path):
    keys = tmp_path / "keys"
    for name, credentials in make_credentials(("party_a", "party_b")).items():
        credentials.save(keys, name)
    config = seed_config("iris_binary_mini", tmp_path, n_estimators=1, max_depth=2, test_size=0, tls=str(keys))
    logs = run_both("XGBoostClassifierFit", config)
    assert not any("dealer" in log for log in logs)


def test_operators_that_disagree_on_the_generator_say_so(tmp_path):
    config = seed_config("iris_binary_mini", tmp_path, offline="pairwise")
    config["party_b"]["ot"] = "softspoken"
    assert all("the hosts disagree on ot" in log for log in run_both("XGBoostClassifierFit", config, status=2))


@pytest.mark.parametrize("generator", [{}, {"offline": "pairwise"}], ids=["dealer", "pairwise"])
def test_students_as_petml_ran_it(tmp_path, generator):
    common = dict(n_estimators=1, max_depth=2, test_size=0, min_child_weight=1, objective="squarederror", **generator)
    config = seed_config("students_reg_mini", tmp_path, **common)
    run_both("XGBoostRegressorFit", config)
    values, labels = predictions(config, tmp_path, "Regressor")
    assert abs(((values - labels) ** 2).mean() - 122.044) < 0.02
    leaves = {0.5 + 0.1 * leaf for leaf in (12.27381, 7.083333, 4.2)}
    assert all(min(abs(value - leaf) for leaf in leaves) < 1e-3 for value in values)


def test_joint_edges(tmp_path):
    config = seed_config("iris_binary_mini", tmp_path, edges="joint", test_size=0)
    run_both("XGBoostClassifierFit", config)
    halves = [json.loads((tmp_path / f"party_{p}.json").read_text())["half"]["facts"]["config"] for p in "ab"]
    assert [(half["edges"], half["max_bin"]) for half in halves] == [("joint", 64)] * 2
    margins, labels = predictions(config, tmp_path, "Classifier")
    assert ((margins > 0.5) == labels).all()


def test_the_seeds_classifier_example(tmp_path):
    config = seed_config("iris_binary_mini", tmp_path, eval_epochs=4)
    logs = run_both("XGBoostClassifierFit", config)
    assert all("9 of 30 rows are held out" in log for log in logs)
    assert all(f"{done} of 10 rounds of trees: error 0 on held-out rows" in log for done in (8, 10) for log in logs)
    margins, labels = predictions(config, tmp_path, "Classifier")
    assert ((margins > 0.5) == labels).mean() > 0.95


def test_ten_trees_for_regression(tmp_path):
    config = seed_config("students_reg_mini", tmp_path, objective="squarederror", min_child_weight=1, test_size=0)
    run_both("XGBoostRegressorFit", config)
    values, labels = predictions(config, tmp_path, "Regressor")
    assert 10 < ((values - labels) ** 2).mean() < 40


def test_logistic_writes_probabilities(tmp_path):
    config = seed_config("iris_binary_mini", tmp_path, objective="logistic", n_estimators=2, test_size=0)
    run_both("XGBoostClassifierFit", config)
    values, labels = predictions(config, tmp_path, "Classifier")
    assert (values > 0).all() and (values < 1).all() and ((values > 0.5) == labels).all()


def alone(config, operator=operators.XGBoostClassifierFit, party="party_a"):
    operator(party).run(config)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"objective": "poisson"}, "objective"),
        ({"reg_gamma": 1}, "unknown parameter reg_gamma"),
        ({"network_scheme": "carrier pigeon"}, "network_scheme"),
        ({"offline": "nobody"}, "offline"),
        ({"offline": "pairwise", "dealer": "127.0.0.1:5", "tls": "keys"}, "takes no dealer"),
        ({"label_name": "species"}, "there is no label column 'species'"),
        ({"parties": {"party_a": {"address": "127.0.0.1:1"}}}, "two parties"),
        ({"parties": {"party_a": {"address": "10.0.0.1:1"}, "party_b": {"address": "10.0.0.2:1"}}}, "common.tls"),
        ({"parties": {"party_a": {"address": "nowhere"}, "party_b": {"address": "127.0.0.1:1"}}}, "host:port"),
        ({"dealer": "127.0.0.1:9"}, "both common.tls and common.dealer"),
        ({"base_score": 1e3}, "base_score"),
        ({"test_size": 1}, "test_size"),
    ],
)
def test_bad_configurations(tmp_path, change, sentence):
    with pytest.raises((ConfigError, DataError), match=sentence):
        alone(seed_config("iris_binary_mini", tmp_path, **change))
    assert not list(tmp_path.iterdir())


def test_a_party_of_another_name(tmp_path):
    with pytest.raises(ConfigError, match="'party_c' is not one of"):
        alone(seed_config("iris_binary_mini", tmp_path), party="party_c")


def test_parties_that_disagree(tmp_path):
    config = seed_config("iris_binary_mini", tmp_path)
    config["party_b"]["reg_lambda"] = 2
    logs = run_both("XGBoostClassifierFit", config, status=2)
    assert all("the parties disagree on reg_lambda" in log for log in logs)
    assert not list(tmp_path.iterdir())
