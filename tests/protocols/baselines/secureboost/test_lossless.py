"""Training with encryption over TLS gives exactly the trees of the plaintext twin."""

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.baselines.secureboost import Guest, SecureBoostConfig
from tests.protocols.baselines.secureboost.parties import QUICK, run, twin


def table(seed, n=400, d=9, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 1] = rng.integers(0, 3, n)
    score = X.sum(axis=1) + X[:, d - 1] * X[:, 0] + rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, score


def labels(objective, score):
    if objective == "binary:logistic":
        return (score > 0).astype(float)
    if objective == "multi:softprob":
        return np.digitize(score, [-1.5, 1.5]).astype(float)
    return 20 * score if objective == "reg:squarederror" else np.rint(np.exp(0.3 * score))


@pytest.mark.parametrize(
    "objective, hosts",
    [
        ("binary:logistic", 2),
        ("binary:logistic", 1),
        ("multi:softprob", 2),
        ("reg:squarederror", 1),
        ("count:poisson", 1),
    ],
)
def test_every_split_is_that_of_the_joined_table(objective, hosts):
    X, score = table(hosts)
    y = labels(objective, score)
    config = SecureBoostConfig.of(
        objective=objective, n_estimators=3, max_depth=4, guest_only="none", reg_alpha=0.3, min_split_loss=0.05, **QUICK
    )
    blocks = np.array_split(X, hosts + 1, axis=1)
    predicted, splits = run(config, blocks, y)
    expected, joined_splits = twin(config, [X], y)
    assert splits == joined_splits
    assert np.array_equal(predicted, expected)
    assert any(line[0] >= blocks[0].shape[1] for tree in splits for line in tree if len(line) == 3)


def test_a_guest_with_labels_only_is_lossless():
    X, score = table(5, n=200, d=4)
    y = labels("binary:logistic", score)
    config = SecureBoostConfig.of(n_estimators=2, max_depth=3, **QUICK)
    predicted, splits = run(config, [X[:, :0], X], y)
    expected, joined_splits = twin(config, [X], y)
    assert splits == joined_splits and np.array_equal(predicted, expected)
    assert len(set(expected)) > 4


@pytest.mark.parametrize("guest_only", ["root", "first_tree"])
def test_a_guest_with_labels_only_cannot_own_a_split(guest_only):
    config = SecureBoostConfig.of(guest_only=guest_only)
    with pytest.raises(
        ConfigError, match=f"guest_only must be 'none' if the guest has only labels, got '{guest_only}'"
    ):
        Guest({}).train(config, np.zeros((9, 0)), np.arange(9) % 2)


def test_the_defaults_are_lossless():
    X, score = table(4, missing=0)
    y = labels("binary:logistic", score)
    config = SecureBoostConfig.of(n_estimators=3, **QUICK)
    predicted, splits = run(config, [X[:, :2], X[:, 2:]], y)
    expected, joined_splits = twin(config, [X], y)
    assert splits == joined_splits and np.array_equal(predicted, expected)
    assert any(tree[0][0] >= 2 for tree in splits)  # some host owns a root


@pytest.mark.parametrize(
    "options",
    [
        {"guest_only": "root"},
        {"guest_only": "first_tree"},
        {"guest_only": "none", "colsample_bytree": 0.5, "random_state": 7},
        {"guest_only": "none", "packing": False},
        {"guest_only": "none", "sibling_subtraction": "off"},
        {"guest_only": "none", "sibling_subtraction": "host"},
        {"guest_only": "root", "sibling_subtraction": "host", "packing": False, "encryption": "paillier", "max_bin": 8},
        {"guest_only": "root", "encryption": "paillier", "max_bin": 16},
    ],
    ids=str,
)
def test_every_option_gives_the_twins_trees(options):
    X, score = table(5, n=250, missing=0)
    y = labels("binary:logistic", score)
    config = SecureBoostConfig.of(**{"n_estimators": 2, "max_depth": 3, **QUICK, **options})
    blocks = [X[:, :3], X[:, 3:]]
    predicted, splits = run(config, blocks, y)
    expected, twin_splits = twin(config, blocks, y)
    assert splits == twin_splits
    assert np.array_equal(predicted, expected)
    owners_of_roots = [tree[0][0] < 3 for tree in splits]
    if config.guest_only == "root":
        assert all(owners_of_roots)
    if config.guest_only == "first_tree":
        assert all(line[0] < 3 for line in splits[0] if len(line) == 3)


def test_without_heu_training_by_phe_gives_the_twins_trees(monkeypatch):
    monkeypatch.setattr("protocols.baselines.secureboost.key_pairs.find_spec", lambda name: None)
    X, score = table(6, n=40, d=4)
    y = labels("binary:logistic", score)
    config = SecureBoostConfig.of(n_estimators=2, max_depth=2, max_bin=4, guest_only="none", key_bits=1024)
    predicted, splits = run(config, [X[:, :1], X[:, 1:]], y)
    expected, joined_splits = twin(config, [X], y)
    assert splits == joined_splits
    assert np.array_equal(predicted, expected)
