"""Roles as processes over TLS: alignment, failures, bad input, models on disk."""

import math
import os
import signal

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, PeerVanished, ProtocolDesync
from protocols.baselines.secureboost import Guest, GuestModel, Host, HostModel, SecureBoostConfig
from protocols.baselines.secureboost.conversation import ASK
from protocols.runtime.processes import run_processes
from tests.protocols.baselines.secureboost.parties import QUICK, run

CONFIG = SecureBoostConfig.of(n_estimators=2, max_depth=2, guest_only="none", **QUICK)
X = np.random.default_rng(0).normal(size=(80, 4))
Y = (X.sum(axis=1) > 0).astype(float)


def guest(X=X, y=Y, config=CONFIG):
    def play(channels):
        Guest(channels).train(config, X, y)

    return play


def host(X=X):
    def play(channels):
        Host(channels["guest"]).train(X)

    return play


def dying_host(channels):
    channel = channels["guest"]
    receive = channel.receive

    def until_the_first_question(tag, limit=None):
        if tag == ASK:
            os.kill(os.getpid(), signal.SIGKILL)
        return receive(tag, limit)

    channel.receive = until_the_first_question
    Host(channel).train(X)


def test_a_host_that_dies_is_named():
    with pytest.raises(PeerVanished, match=r"^host_2: killed by SIGKILL"):
        run_processes({"guest": guest(), "host_1": host(), "host_2": dying_host}, timeout=60)


def test_the_guest_itself_names_the_host_that_died():
    def reporting_guest(channels):
        try:
            Guest(channels).train(CONFIG, X, Y)
        except PeerVanished as error:
            return str(error)

    def leaving_host(channels):
        channels["guest"].receive("secureboost.start")
        channels["guest"].close()

    results = run_processes({"guest": reporting_guest, "host_1": leaving_host}, timeout=60)
    assert "host_1 closed the connection in secureboost.start" in results["guest"]


@pytest.mark.parametrize(
    "roles, message",
    [
        ({"guest": guest(y=Y + 1), "host_1": host()}, "label must be 0 or 1 under binary:logistic, got 2"),
        ({"guest": guest(y=Y[:-1]), "host_1": host()}, "a label for each of the 80 rows, got 79"),
        ({"guest": guest(), "host_1": host(X[:-3])}, "host_1: X: 77 rows, but guest trains on 80; align the ids"),
        ({"guest": guest(), "host_1": host(np.full((80, 1), np.inf))}, "host_1: X: column 'f0', row 0: value is inf"),
        ({"guest": guest(), "host_1": host(pd.DataFrame({"a": ["x"] * 80}))}, "column 'a' must be numeric"),
    ],
)
def test_bad_input_is_one_sentence(roles, message):
    with pytest.raises(DataError, match=message) as caught:
        run_processes(roles, timeout=60)
    assert "\n" not in str(caught.value)


def test_classes_without_a_gap():
    config = SecureBoostConfig.of(objective="multi:softprob", **QUICK)
    with pytest.raises(DataError, match="class numbers 0, 1"):
        Guest({}).train(config, X, 2 * Y)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"guest_only": "never"}, "guest_only"),
        ({"max_bin": 200}, "max_bin: must be a whole number from 2 to 126 in SecureBoost, got 200"),
        ({"max_bin": 500}, "from 2 to 126 in SecureBoost, got 500"),
        ({"max_bin": 1}, "from 2 to 126"),
        ({"max_bin": "exact"}, "from 2 to 126"),
        ({"min_child_samples": 5}, "unknown parameter min_child_samples"),
        ({"key_bits": 512}, "key_bits"),
        ({"epsilon": 0}, "epsilon"),
        ({"objective": "count:poisson", "base_score": 0}, "base_score must be a count above 0"),
        ({"colour": 1}, "unknown parameter colour"),
    ],
)
def test_bad_configurations_are_named(parameters, message):
    with pytest.raises(ConfigError, match=message):
        SecureBoostConfig.of(**parameters)


def test_a_host_refuses_an_unknown_step_and_a_malformed_one():
    def guest_that_asks(question):
        def play(channels):
            start = {"library": "phe", "key": ((1 << 1024) + 1).to_bytes(256, "little"), "packing": True}
            sizes = {"rows": 80, "max_bin": 8, "subtract": False, "training": "t"}
            sizes |= {"epsilon": math.inf, "levels": 4, "colsample": 1.0}
            channels["host_1"].send("secureboost.start", start | sizes)
            channels["host_1"].receive("secureboost.start")
            channels["host_1"].send(ASK, question)
            channels["host_1"].receive("secureboost.split")

        return play

    with pytest.raises(ProtocolDesync, match=r"unknown step 'shell'"):
        run_processes({"guest": guest_that_asks({"step": "shell"}), "host_1": host()}, timeout=60)
    with pytest.raises(ProtocolDesync, match=r"malformed question in secureboost\.split"):
        run_processes({"guest": guest_that_asks({"step": "split", "nodes": 1}), "host_1": host()}, timeout=60)


def test_alignment_leaves_the_common_ids_in_one_order():
    ids = {"guest": [7, 3, 9, 1, 4], "host_1": [1, 2, 3, 4, 7], "host_2": [4, 8, 1, 3]}

    def aligned_guest(channels):
        return np.array(ids["guest"])[Guest(channels).align(ids["guest"])]

    def aligned_host(name):
        return lambda channels: np.array(ids[name])[Host(channels["guest"]).align(ids[name])]

    roles = {"guest": aligned_guest, "host_1": aligned_host("host_1"), "host_2": aligned_host("host_2")}
    assert [found.tolist() for found in run_processes(roles, timeout=60).values()] == [[1, 3, 4]] * 3


@pytest.mark.parametrize(
    "ids, message", [(["a", "b", "a"], "'a' appears twice"), (["x"], "none in common"), ([], "must not be empty")]
)
def test_ids_that_cannot_be_aligned(ids, message):
    roles = {
        "guest": lambda channels: Guest(channels).align(["a", "b"]),
        "host_1": lambda channels: Host(channels["guest"]).align(ids),
    }
    with pytest.raises(DataError, match=message):
        run_processes(roles, timeout=60)


def test_majority_labels_over_the_wire():
    predicted, _ = run(CONFIG, [X[:, :2], X[:, 2:]], Y, by="majority")
    assert (predicted == Y).mean() > 0.7
    assert set(predicted) <= {0, 1}


def test_saved_models_load_and_need_the_columns_of_the_training(tmp_path):
    guest_file, host_file = tmp_path / "guest.json", tmp_path / "host.json"

    def training_guest(channels):
        party = Guest(channels)
        model = party.train(CONFIG, X[:, :2], Y)
        model.save(guest_file)
        return [party.predict(m, X[:, :2]) for m in (model, GuestModel.load(guest_file))]

    def training_host(channels):
        party = Host(channels["guest"])
        model = party.train(pd.DataFrame(X[:, 2:], columns=["a", "b"]))
        model.save(host_file)
        for m in (model, HostModel.load(host_file)):
            party.predict(m, pd.DataFrame(X[:, 2:], columns=["a", "b"]))

    before, after = run_processes({"guest": training_guest, "host_1": training_host}, timeout=60)["guest"]
    assert np.array_equal(before, after)
    with pytest.raises(DataError, match="trained on 2 columns in this order: a, b; got b"):
        Host(None).predict(HostModel.load(host_file), pd.DataFrame({"b": [1.0], "a": [2.0]}))
    with pytest.raises(DataError, match="those of the training, host_1, got none"):
        Guest({}).predict(GuestModel.load(guest_file), X[:, :2])
    with pytest.raises(DataError, match="is not the model of a SecureBoost guest"):
        GuestModel.load(host_file)
    host_file.write_text(host_file.read_text().replace("true", "false", 1))
    with pytest.raises(DataError, match="its checksum is wrong or missing"):
        HostModel.load(host_file)
    host_file.write_text("[]")
    with pytest.raises(DataError, match=r"host\.json: not a SecureBoost model"):
        HostModel.load(host_file)


def test_parts_of_two_trainings_are_never_mixed():
    def mixing_guest(channels):
        party = Guest(channels)
        first, _ = (party.train(CONFIG, X[:, :2], Y) for _ in range(2))
        party.predict(first, X[:, :2])

    def mixing_host(channels):
        party = Host(channels["guest"])
        _, second = (party.train(X[:, 2:]) for _ in range(2))
        party.predict(second, X[:, 2:])

    with pytest.raises(DataError, match="host_1: model: must be of the same training as guest's"):
        run_processes({"guest": mixing_guest, "host_1": mixing_host}, timeout=60)
