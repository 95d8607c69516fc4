"""A supernode's participant, made from its configuration and the run's, and one-sentence errors for bad input."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr")

from mpc.errors import ConfigError, DataError, ProtocolDesync
from protocols.baselines.federated.apps import configuration, participant
from protocols.baselines.federated.engine import HELPER, LocalFederation
from protocols.baselines.federated.keys import write_key_pair
from protocols.baselines.federated.secure_sum import SharedSum
from tests.protocols.baselines.federated.tables import GROUP_KEY, HELPER_KEY, SMALL_LLR, SMALL_VS, table


@pytest.fixture
def setting(tmp_path, monkeypatch):
    """Return run and node configuration of a client with secure sums, whose files exist."""
    X, y = table(40)
    pd.DataFrame(X).assign(y=y, id=np.arange(40)).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "public").write_bytes(HELPER_KEY.public_key().public_bytes_raw())
    (tmp_path / "private").write_bytes(HELPER_KEY.private_bytes_raw())
    (tmp_path / "group").write_bytes(GROUP_KEY)
    for i in range(2):
        write_key_pair(tmp_path / f"node-{i}", tmp_path / "clients")
    (tmp_path / "one").write_bytes((tmp_path / "clients").read_bytes().splitlines()[0])
    pd.DataFrame(X).assign(y=y, idx=np.arange(40)).to_csv(tmp_path / "numbered.csv", index=False)
    monkeypatch.chdir(tmp_path)
    run = {"system": "virtual-samples", "parameters": SMALL_VS.model_dump_json()}
    run |= {"clients": 2, "minimum": 1, "features": 5, "secure": True}
    node = {"client-id": 1, "data": str(tmp_path / "rows.csv"), "label": "y"}
    node |= {"helper-key": str(tmp_path / "public"), "group-key": str(tmp_path / "group")}
    return run, node | {"client-key": str(tmp_path / "node-1")}


@pytest.mark.parametrize(("system", "config"), [("fedxgbllr", SMALL_LLR), ("virtual-samples", SMALL_VS)])
def test_a_client_answers_with_shares_if_the_run_is_secure(setting, system, config):
    run, node = setting
    run |= {"system": system, "parameters": config.model_dump_json()}
    client, member = participant(node, run)
    assert (client, configuration(run)) == (1, config)
    step = "moments" if system == "fedxgbllr" else "prior"
    assert set(member.answer(step, {})) == {"share", "sealed"}


def test_the_helper_sums_no_fewer_than_two_clients_whatever_the_run_says(setting, tmp_path):
    run, node = setting
    client, member = participant(node, run)
    keys = {"helper-private-key": str(tmp_path / "private"), "client-keys": str(tmp_path / "clients")}
    who, helper = participant(keys, run | {"system": "fedxgbllr", "parameters": SMALL_LLR.model_dump_json()})
    assert who == HELPER
    federation = LocalFederation({client: member, HELPER: helper}, minimum=1)
    with pytest.raises(ProtocolDesync, match="at least 2 different clients"):
        SharedSum(None, 2).total(federation, federation.broadcast("prior", {}), "prior", 2)


def test_the_helper_of_virtual_samples_sums_over_all_clients(setting, tmp_path):
    run, _ = setting
    keys = {"helper-private-key": str(tmp_path / "private"), "client-keys": str(tmp_path / "clients")}
    with pytest.raises(ConfigError, match="the helper must know the keys of at least 3 clients, got 2"):
        participant(keys, run | {"clients": 3})


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (None, "--node-config has no client-keys"),
        ("nowhere", "client-keys: .*nowhere: No such file"),
        ("one", "the helper must know the keys of at least 2 clients, got 1"),
        ("rows.csv", "client-keys: .*rows.csv: line 1 must hold a key as ssh-keygen"),
        ("twice", "client-keys: .*twice: line 3 repeats a key"),
    ],
)
def test_a_helper_needs_the_keys_of_its_clients(setting, tmp_path, keys, sentence):
    run, _ = setting
    lines = (tmp_path / "clients").read_bytes()
    (tmp_path / "twice").write_bytes(lines + lines)
    given = {"client-keys": str(tmp_path / keys)} if keys else {}
    with pytest.raises(ConfigError, match=sentence):
        participant({"helper-private-key": str(tmp_path / "private")} | given, run)


@pytest.mark.parametrize(
    ("of_run", "of_node", "error", "sentence"),
    [
        ({"system": "bagging"}, {}, ConfigError, "system must be fedxgbllr or virtual-samples, got 'bagging'"),
        ({"parameters": "{"}, {}, ConfigError, "parameters must be a JSON object"),
        ({"parameters": json.dumps({"clusters": 1})}, {}, ConfigError, "clusters"),
        ({"secure": False}, {}, ConfigError, "has a helper's key, but the run asks for open sums"),
        ({}, {"client-id": -1}, ConfigError, "client-id must be 0, 1, 2, ..., got '-1'"),
        ({}, {"client-id": None}, ConfigError, "--node-config has no client-id"),
        ({}, {"group-key": None}, ConfigError, "--node-config has no group-key"),
        ({}, {"helper-key": None}, ConfigError, "--node-config has no helper-key"),
        ({}, {"client-key": None}, ConfigError, "--node-config has no client-key"),
        ({}, {"client-key": "rows.csv"}, ConfigError, "client-key: rows.csv must hold a key as ssh-keygen"),
        ({}, {"helper-key": "nowhere"}, ConfigError, "helper-key: nowhere: No such file"),
        ({}, {"group-key": __file__}, ConfigError, "must have 32 bytes, got"),
        ({}, {"data": "nowhere.csv"}, DataError, "nowhere.csv"),
        ({}, {"label": "target"}, DataError, "there is no column 'target'"),
        ({}, {"data": "numbered.csv"}, DataError, "numbered.csv: column 'idx' has a different whole number"),
    ],
)
def test_bad_configuration_is_one_sentence(setting, of_run, of_node, error, sentence):
    run, node = setting
    changed = {name: value for name, value in (node | of_node).items() if value is not None}
    with pytest.raises(error, match=sentence):
        participant(changed, run | of_run)
