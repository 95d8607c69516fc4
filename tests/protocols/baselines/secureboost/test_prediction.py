"""Prediction with hosts for rows outside the training: batched, and each party sees only its own nodes."""

import numpy as np
import pytest

from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.baselines.secureboost.boost import boost
from protocols.baselines.secureboost.columns import bin_columns
from protocols.baselines.secureboost.conversation import ASK
from protocols.baselines.secureboost.owners import OwnColumns, OwnRouter
from protocols.runtime.processes import run_processes
from tests.protocols.baselines.secureboost.parties import QUICK

CONFIG = SecureBoostConfig.of(n_estimators=4, max_depth=3, guest_only="none", **QUICK)
BLOCKS = [slice(0, 2), slice(2, 5), slice(5, 8)]


def table(seed, rows):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 8)).astype(np.float32)
    y = (X.sum(axis=1) + rng.normal(size=rows) > 0).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.fixture(scope="module")
def told():
    """Return what each party of a training and a prediction keeps, asks or is asked."""
    X, y = table(0, 300)
    fresh, _ = table(1, 50)

    def guest(channels):
        party = Guest(channels)
        model = party.train(CONFIG, X[:, BLOCKS[0]], y)
        owner, record = (np.stack([getattr(t, part) for t in model.ensemble.trees]) for part in ("owner", "record"))
        predicted = {by: party.predict(model, fresh[:, BLOCKS[0]], by=by) for by in ("weight", "majority")}
        return {"owner": owner, "record": record, "columns": model.records.column, **predicted}

    def host(block):
        def play(channels):
            party = Host(channels["guest"])
            model = party.train(X[:, block])
            questions = asked(channels["guest"])
            for _ in range(2):
                party.predict(model, fresh[:, block])
            return {"columns": model.records.column, "questions": questions}

        return play

    return run_processes({"guest": guest, "host_1": host(BLOCKS[1]), "host_2": host(BLOCKS[2])}, timeout=120)


def asked(channel):
    """Record the questions received over the channel."""
    receive, questions = channel.receive, []

    def noted(tag, limit=None):
        message = receive(tag, limit)
        if tag == ASK:
            questions.append(dict(message))
        return message

    channel.receive = noted
    return questions


def test_unseen_rows_get_the_twins_predictions(told):
    X, y = table(0, 300)
    fresh, _ = table(1, 50)
    own = OwnColumns(bin_columns(X, CONFIG.max_bin))
    ensemble = boost(CONFIG, y, [own])
    router = OwnRouter(own.records, fresh)
    assert np.array_equal(told["guest"]["weight"], ensemble.predict([router], len(fresh)))
    assert np.array_equal(told["guest"]["majority"], ensemble.majority_label([router], len(fresh)))


def test_one_question_per_level_for_all_trees_and_only_about_the_hosts_nodes(told):
    for number, name in enumerate(("host_1", "host_2"), 1):
        questions = told[name]["questions"]
        routes = [question for question in questions if question["step"] == "route"]
        assert len(questions) - len(routes) == 2  # DONE, once per prediction
        assert 2 <= len(routes) <= 2 * CONFIG.max_depth
        assert all(set(question) == {"step", "reached", "counts", "rows"} for question in routes)
        own = told["guest"]["record"][told["guest"]["owner"] == number]
        assert set(np.concatenate([question["reached"] for question in routes])) <= set(own)


def test_only_its_owner_keeps_a_split(told):
    for number, (name, block) in enumerate(zip(told, BLOCKS, strict=True)):
        kept = told[name]["columns"]
        assert len(kept) == (told["guest"]["owner"] == number).sum() > 0
        assert all(0 <= column < block.stop - block.start for column in kept)
