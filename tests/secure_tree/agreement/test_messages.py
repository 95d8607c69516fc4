"""Lies about public facts raise a one-sentence error at the honest party, whatever they are."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, ProtocolDesync, RangeError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.agreement import training
from secure_tree.agreement.messages import VERSION
from secure_tree.exchange.plain_model import PlainModel, reveal_model, share_model
from tests.lies import beside, check_lies

SMALL = dict(n_estimators=1, max_depth=1, max_bin=4, test_size=0.3)
RNG = np.random.default_rng(5)
LABELS = np.tile([0.0, 1.0], 10)
TRAINING = ("training.terms", "training.facts", "training.numbers")


def frame(rank, vertical=False):
    columns = {"x": RNG.normal(size=20), "kind": pd.Categorical(["a", "bc"[rank]] * 10)}
    if vertical:
        columns = {f"{name}{rank}": column for name, column in columns.items()}
    return pd.DataFrame(columns)


TABLES = [frame(rank) for rank in (0, 1)]
COLUMNS = [frame(rank, vertical=True) for rank in (0, 1)]


def by_rows(party):
    model = SecureXGBClassifier(**SMALL, subsample=0.5, colsample_bytree=0.5)
    return model.fit(party, TABLES[party.rank], LABELS, np.full(20, 0.5) if party.rank else None)


def by_columns(party):
    y = None if party.rank else LABELS
    return SecureXGBClassifier(**SMALL, partition="vertical", missing=("x0",)).fit(party, COLUMNS[party.rank], y)


@pytest.fixture(scope="module")
def models():
    return run_both(by_columns)[0]


@pytest.mark.parametrize("job", [by_rows, by_columns])
def test_lies_about_a_training(job):
    assert check_lies(job, TRAINING, 120, seed=1) > 80


def test_lies_about_a_model(models):
    def predict(party):
        models[party.rank].predict_margin(party, COLUMNS[party.rank])

    def ask(party):
        models[party.rank].feature_importance(party, "weight")

    def reveal(party):
        reveal_model(party, models[party.rank].model, 1)

    for job, step in ((predict, "prediction.facts"), (ask, "importance.facts"), (reveal, "reveal.facts")):
        assert check_lies(job, (step,), 40, seed=2) > 30


def plain_model():
    ones = np.ones((2, 1))
    return PlainModel(
        "binary:logistic", ("a", "b"), (0.0,), np.array([[0], [1]]), ones, ones > 0, ones * [1, 2], ones, ones
    )


def test_lies_about_a_model_that_is_shared():
    def job(party):
        share_model(party, plain_model() if party.rank else None, "all")

    assert check_lies(job, ("share.facts", "share.shape"), 60, seed=3) > 40


def lie(job, step, change):
    """Return the error of the honest party 1 after one change of party 0's message."""
    error, _ = beside(job, 0, step, lambda tree: {**tree, **change})
    return error


@pytest.mark.parametrize(
    ("step", "change", "kind", "sentence"),
    [
        ("training.terms", {"version": 3}, ConfigError, "the other party runs version 3 of Sharewood's messages"),
        (
            "training.terms",
            {"config": {"depth": 3}},
            ConfigError,
            "the other party's parameters: unknown parameter depth",
        ),
        ("training.facts", {"rows": 10**12}, ProtocolDesync, "rows: Input should be less than"),
        ("training.facts", {"rows": 30_000_000}, RangeError, "do not fit the 64-bit arithmetic"),
        (
            "training.facts",
            {"names": ["x"], "indicators": []},
            DataError,
            "both must have the same features, and only this party has",
        ),
        ("training.facts", {"exponent": 5000}, ProtocolDesync, "exponent"),
        ("training.facts", {"validation_rows": 1}, DataError, "a party must hold out at least 5 rows or none, got 1"),
        (
            "training.facts",
            {"names": ["x\x1b]0;owned\x07\r\nsharewood: done", "y"]},
            ProtocolDesync,
            "a name must have no control characters, got 'x\\x1b]0;owned\\x07\\r\\nsharewood: done'",
        ),
        ("training.terms", {"categories": {"kind": ["a", "\u202eb"]}}, ProtocolDesync, "no control characters"),
        ("training.facts", {"labelled": False}, DataError, "both parties of horizontal data must have labels"),
        ("training.numbers", {"digests": {"scales": "0" * 64}}, ConfigError, "the parties differ in the"),
    ],
)
def test_what_the_honest_party_says(step, change, kind, sentence):
    error = lie(by_rows, step, change)
    assert type(error) is kind and sentence in str(error)


@pytest.mark.parametrize(
    "what", ["tables of functions", "public facts", "scales", "samples of features", "held-out rows"]
)
def test_a_public_number_that_differs_is_refused_by_name(what, monkeypatch):
    true, parties = training.of_training, iter((0, 1))

    def of_training(context):
        return true(context) | ({what: "0" * 64} if next(parties) == 0 else {})

    monkeypatch.setattr(training, "of_training", of_training)
    with pytest.raises(ConfigError, match=f"the parties differ in the {what}, which must be the same at both"):
        run_both(by_rows)


def test_the_version_is_part_of_every_message():
    said = []

    def job(party):
        exchange = party.link.exchange_public
        party.link.exchange_public = lambda tag, tree: said.append((tag, tree.get("version"))) or exchange(tag, tree)
        by_rows(party)

    run_both(job)
    assert {tag for tag, _ in said} == set(TRAINING) and {version for _, version in said} == {VERSION}
