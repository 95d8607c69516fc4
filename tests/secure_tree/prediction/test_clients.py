"""Predictions for clients who are no party: as a party gets them, in few bytes, and to nobody else."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc import party as of_party
from mpc.errors import ConfigError, DataError, PeerFailure, ProtocolDesync, SharewoodError
from mpc.matrix.fixed_operand import fix, multiply_fixed
from mpc.party import Party
from mpc.protocol.evidence import Bits, public, word
from mpc.rounds import Begun, exchange_words, replying
from mpc.shares import AShare
from mpc.sharing import rerandomise
from protocols.runtime import run_local
from protocols.testing.enumeration import Deck, play
from protocols.testing.exhaustive import check
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.data.bins import keys_of
from secure_tree.exchange.plain_model import share_model
from secure_tree.exchange.xgboost import from_xgboost
from secure_tree.prediction import predict
from secure_tree.prediction.answering import WHAT, offer_of, released_margins
from secure_tree.prediction.client import Offer, ask, divide
from secure_tree.prediction.predict import cost_of_rows, fix_model, margins, margins_of_own, margins_of_shared
from secure_tree.prediction.routers import own_rows
from secure_tree.public.numerics import MARGIN_SCALE
from tests.secure_tree.opened import contributing, train_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table

KINDS = {
    "two classes": {},
    "one against the others": {"objective": "multi:ova", "num_class": 3},
    "numbers": {"objective": "reg:squarederror"},
    "counts": {"objective": "count:poisson"},
    "missing": {"missing": ("f1",)},
    "missing everywhere": {"missing": "all"},
}


def labels(X, kind):
    if "num_class" in kind:
        return np.digitize(np.nan_to_num(X[:, 0]), [-0.5, 0.5]).astype(float)
    if "reg" in kind.get("objective", ""):
        return 40 * X[:, 0] + 1000
    return np.rint(np.exp(X[:, 0]) if kind.get("objective") else np.nan_to_num(X[:, 0]) > 0)


def answered(models, clients, source=None):
    """Return what clients get, by name; both parties run in threads."""
    lines, said = contributing({name: one if callable(one) else _asks(one) for name, one in clients.items()})
    more = {"source": source} if source else {}
    try:
        results, parties = run_both(lambda party: models[party.rank].predict_for(party, lines[party.rank]), **more)
    finally:
        for line in (*lines[0].values(), *lines[1].values()):
            line.close()
    assert results[0] == results[1]
    return {name: one.result() for name, one in zip(clients, said, strict=True)}, parties


def _asks(rows):
    return lambda lines: ask(lines, rows)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("by_columns", [False, True])
def test_a_client_gets_what_a_party_gets(kind, by_columns):
    X, _ = table(70, 4, seed=3)
    if "missing" in kind:
        X[::3, 1] = np.nan
    y = labels(X, kind)
    if by_columns:
        tables, of = (X[:, :2], X[:, 2:]), (y, None)
        kind = {**kind, "partition": "vertical"}
        if kind.get("missing") == ("f1",):
            kind["missing"] = ("a1",)
        tables = tuple(pd.DataFrame(x, columns=[f"{p}0", f"{p}1"]) for p, x in zip("ab", tables, strict=True))
        own = tables
    else:
        tables, of = halves(X, y, 30)
        own = X, X[:0]
    training = train_both(tables, of, n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.5, **kind)
    regresses = not training.config.logistic
    what = "predict" if regresses else "predict_proba"
    expected, _ = run_both(lambda p: getattr(training.models[p.rank], what)(p, own[p.rank], "thresholds"))
    got, _ = answered(training.models, {"shop": X, "app": X[5:6]})
    assert np.array_equal(got["shop"], expected[0]) and np.array_equal(got["app"], expected[0][5:6])
    assert len(np.unique(got["shop"])) > 2


def test_without_a_dealer():
    X, y = table(40, 3, seed=4)
    models = train_both(*halves(X, y, 20), n_estimators=2, max_depth=2, max_bin=8).models
    expected = answered(models, {"shop": X})[0]["shop"]
    assert np.array_equal(answered(models, {"shop": X}, made_by_both)[0]["shop"], expected)


def test_categories_by_name():
    rng = np.random.default_rng(2)
    colours = np.array(["red", "green", "blue"])[rng.integers(0, 3, 90)]
    X = pd.DataFrame({"x": rng.normal(size=90), "c": pd.Categorical(colours, ["red", "green", "blue"])})
    y = ((X["c"] == "red") + X["x"] > 0.5).astype(float)
    X.loc[::9, "c"] = None
    tables = X[:40].reset_index(drop=True), X[40:].reset_index(drop=True)
    models = {}

    def train(party):
        own = slice(40) if party.rank == 0 else slice(40, 90)
        model = SecureXGBClassifier(n_estimators=2, max_depth=3, missing=("c",))
        models[party.rank] = model.fit(party, tables[party.rank], y[own])
        return model.predict_proba(party, (tables[0], X[:0])[party.rank], "thresholds")

    expected, _ = run_both(train)
    columns = {"c": [None if c != c else c for c in tables[0]["c"]], "x": list(tables[0]["x"]), "more": list(range(40))}
    got, _ = answered(models, {"frame": tables[0], "columns": columns})
    assert np.array_equal(got["frame"], expected[0]) and np.array_equal(got["columns"], expected[0])


def test_softmax_of_a_shared_model():
    X, _ = table(60, 3, seed=2)
    y = labels(X, {"num_class": 3})
    parameters = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}
    booster = xgboost.train(parameters, xgboost.DMatrix(X, label=y), 3)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "a test")
    models = {}

    def share(party):
        model = share_model(party, plain if party.rank == 0 else None)
        models[party.rank] = SecureXGBClassifier(**model.config.model_dump())
        models[party.rank].model = model

    run_both(share)
    got, _ = answered(models, {"shop": X})
    assert np.abs(got["shop"] - booster.predict(xgboost.DMatrix(X))).max() < 1e-3


@pytest.fixture(scope="module")
def models():
    X, y = table(60, 3, seed=5)
    return train_both(*halves(X, y, 30), n_estimators=4, max_depth=3, max_bin=8, learning_rate=0.5).models


def job(party):
    X, y = table(80, 3, seed=6)
    own = slice(40 * party.rank, 40 * party.rank + 40)
    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8).fit(party, X[own], y[own])
    expected = model.predict_proba(party, X[:9] if party.rank == 0 else X[:0], "thresholds")
    before = len(party.revealed)
    return expected, model.predict_for(party, party.clients), party.revealed[before:], party.released


@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_clients_as_processes(offline):
    X, _ = table(80, 3, seed=6)
    first, second, got = run_local(job, clients={"shop": X[:9], "app": X[2:4]}, offline=offline)
    assert np.array_equal(got["shop"], first[0]) and np.array_equal(got["app"], first[0][2:4])
    assert first[1:] == second[1:] == ({"app": 2, "shop": 9}, [], [WHAT])


def test_names_are_distinct():
    with pytest.raises(ConfigError, match="must have names of their own, got shop twice"):
        run_local(job, clients={"shop": np.zeros((1, 3))}, owners={"shop": np.zeros((1, 3))})


def test_importing_the_client_needs_numpy_only():
    heavy = "numba", "torch", "scipy", "pandas", "sklearn", "pydantic", "cryptography", "httpx"
    code = f"import sys, sharewood.client; print([m for m in {heavy!r} if m in sys.modules])"
    for module in ("sharewood.client", "secure_tree.prediction.client"):
        said = subprocess.run([sys.executable, "-c", code.replace("sharewood.client", module)], capture_output=True)
        assert said.stdout == b"[]\n", said


def meter_of(models, rows):
    """Return (rounds, payload bytes each way) once for a session and for rows, and the bytes of a client's messages."""
    X, keys = table(rows, 3, seed=7)[0], None
    keys = divide(keys_of(X, ()))

    def measured(party):
        total, before = party.meter.total, []
        operand = party.run(fix_model(party, models[party.rank].model.ensemble, 4, 1))
        before.append((total.rounds, total.sent // 8))
        half = released_margins(party, models[party.rank].model, operand, AShare(keys[party.rank], party.rank))
        before.append((total.rounds, total.sent // 8))
        return [before[0], tuple(b - a for a, b in zip(*before, strict=True)), keys[party.rank].nbytes, half.nbytes]

    return run_both(measured)[0]


@pytest.mark.parametrize(
    ("rows", "pinned"),
    [(1, (6, 516)), (16, (6, 4408))],
)
def test_rounds_and_bytes_of_a_query(models, rows, pinned):
    first, second = meter_of(models, rows)
    assert first == second == [(1, 8 * 3 * 28), pinned, 8 * 3 * rows, 8 * rows]
    stated = cost_of_rows(rows, 3, 4, 3)
    assert (stated.rounds, stated.bits[0] // 8) == pinned


def test_the_first_message_may_go_with_another(models):
    """What a service opens in its turn: the other five rounds follow, and the margins are the same."""
    X, _ = table(5, 3, seed=7)
    keys = keys_of(X, ())
    shares = divide(keys)

    def job(party):
        model = models[party.rank].model
        operand = party.run(fix_model(party, model.ensemble, 4, 1))
        own = AShare(shares[party.rank], party.rank)
        whole = released_margins(party, model, operand, own)
        steps = margins_of_shared(party, model.ensemble, operand, own, 1)
        begun, before = Begun(steps), party.meter.total.rounds
        theirs = party.link.exchange_public("test", begun.opening)
        for wrong, said in ((theirs[:-1], "opening has 1 bytes too few"), (theirs + b"x", "has 1 bytes too many")):
            with pytest.raises(ProtocolDesync, match=said):
                party.run(begun.rest(wrong))
        margins = party.release(party.run(begun.rest(theirs)), what=WHAT)
        return whole, margins, party.meter.total.rounds - before

    (first, first_again, rounds), (second, second_again, _) = run_both(job)[0]
    assert np.array_equal(first + second, first_again + second_again) and rounds == 5
    assert not np.array_equal(first, first_again)


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize(("method", "following"), [("thresholds", 5), ("bins", 3)])
def test_a_party_begins_with_rows_that_it_knows(models, owner, method, following):
    """The owner sends what needs nothing of the other party's; the first of the rounds that follow goes one way."""
    X, _ = table(5, 3, seed=8)
    X[0, 0], X[1, 1] = -np.inf, np.inf

    def job(party):
        model = models[party.rank].model
        layout = replace(model.facts.layout, rows=(5 * (owner == 0), 5 * (owner == 1)))
        fixed = party.run(fix_model(party, model.ensemble, 5, 1, layout if method == "bins" else None))
        features = X.astype(np.float32)[: 5 if party.rank == owner else 0]
        own = own_rows(party, layout, owner, 5, features, model.cuts, method)
        known = party.run(margins(party, model.ensemble, layout, model.cuts, features, method, 1))

        def steps():
            return margins_of_own(party, model.ensemble, fixed, own, owner, 1)

        whole = party.run(steps())
        before = party.meter.total.rounds
        if party.rank == owner:
            begun = Begun(steps())
            party.link.send("test", begun.opening)
            again = party.run(begun.rest())
        else:
            opening = party.link.receive("test")
            again = party.run(replying(steps(), opening))
        rounds = party.meter.total.rounds - before
        if party.rank != owner:
            for wrong in (b"", opening[:-1]):
                with pytest.raises(ProtocolDesync, match=r"the other party's opening has \d+ bytes too few"):
                    party.run(replying(steps(), wrong))
        return whole.words, again.words, known.words, rounds

    (first, first_again, plain, rounds), (second, second_again, other, others) = run_both(job)[0]
    assert np.array_equal(first + second, first_again + second_again) and rounds == others == following
    assert np.array_equal(first + second, plain + other)


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize(("method", "following"), [("thresholds", 6), ("bins", 4)])
def test_a_party_begins_with_rows_of_which_each_knows_some_columns(source, owner, method, following):
    """The requester's opening goes with its turn; the other party's first message goes with that of the next round."""
    X, y = table(60, 5, seed=9)
    X[::7, 1], X[::5, 4] = np.nan, np.nan
    parts, labels = columns(X, y, 2)
    training = train_both(parts, labels, partition="vertical", missing=["f1", "f2"], n_estimators=3, max_bin=8)
    tables = [part[:6].astype(np.float32) for part in parts]

    def job(party):
        model, features = training.models[party.rank].model, tables[party.rank]
        layout = replace(model.facts.layout, rows=(6, 6))
        fixed = party.run(fix_model(party, model.ensemble, 6, 1, layout if method == "bins" else None))
        own = own_rows(party, layout, owner, 6, features, model.cuts, method)
        known = party.run(margins(party, model.ensemble, layout, model.cuts, features, method, 1))

        def steps():
            return margins_of_own(party, model.ensemble, fixed, own, None, 1)

        whole, before = party.run(steps()), party.meter.total.rounds
        if source is made_by_both:
            # Material that both make when they take it cannot be taken by one party first.
            again = party.run(steps())
        elif party.rank == owner:
            begun = Begun(steps())
            party.link.send("test", begun.opening)
            again = party.run(begun.rest())
        else:
            again = party.run(replying(steps(), party.link.receive("test")))
        return whole.words, again.words, known.words, party.meter.total.rounds - before

    results, _ = run_both(job, source=source)
    (first, first_again, plain, rounds), (second, second_again, other, others) = results
    assert np.array_equal(first + second, first_again + second_again) and rounds == others == following
    assert np.array_equal(first + second, plain + other)


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("most", [4, 8, 1 << 16])
def test_secret_paths_serve_batches_of_any_size(monkeypatch, source, most):
    """They are fixed in parts of as many rounds as fit for the largest batch; a small batch takes several at a time."""
    X, _ = table(60, 3, seed=11)
    X = X.astype(np.float32)
    parameters = {"objective": "multi:softprob", "num_class": 3, "max_depth": 12, "min_child_weight": 0}
    booster = xgboost.train(parameters, xgboost.DMatrix(X, label=np.arange(60) % 3), 5)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "a test")
    leaves = plain.leaves.shape[1]
    # Two rounds of trees for four rows, one for more: batches of 6, 6 and 3 trees, of parts of 6 or of 3.
    monkeypatch.setattr(predict, "BATCH", 2 * 3 * leaves * 4)
    assert plain.paths is not None and len(plain.leaves) == 15
    X[0, 1] = np.nan
    shares = divide(keys_of(X[:4], (0, 1, 2)))

    def job(party):
        half = share_model(party, plain if party.rank == 0 else None, ("f0", "f1", "f2"))
        fixed = party.run(fix_model(party, half.ensemble, most, 3))
        steps = margins_of_shared(party, half.ensemble, fixed, AShare(shares[party.rank], party.rank), 3)
        return len(fixed.paths.turns), (party.run(steps).words, half.facts.margin_unit)

    (first, (a, unit)), (second, (b, _)) = run_both(job, source=source)[0]
    assert first == second == (3 if most == 4 else 5)
    found = (a + b).astype(np.int64) * unit / (1 << MARGIN_SCALE)
    np.testing.assert_allclose(found.T, booster.predict(xgboost.DMatrix(X[:4]), output_margin=True), atol=1e-4)


def test_the_cost_of_a_row_has_no_product_of_features_and_nodes():
    """20 trees of depth 4 and 20 features: about 2.7 kB each way per row, of which 160 bytes depend on the features."""
    many, few = (cost_of_rows(64, columns, 20, 4).bits[0] / 8 / 64 for columns in (20, 1))
    assert many - few == 8 * 19 and many < 2700


def in_steps(party, matrix, seed, x):
    """A client's row times a fixed matrix; then the halves of the answer, each of which a coalition sees."""
    operand = yield from fix.steps(party, matrix)
    own = AShare(seed if party.rank == 0 else x - seed, party.rank)
    answer = yield from multiply_fixed.steps(party, own, operand)
    half = rerandomise(party, answer).words & np.uint64(3)
    (theirs,) = yield from exchange_words([half], [64])
    return half + theirs


in_steps.reveals = ("answer",)


def test_nothing_leaks_to_a_client_with_a_party():
    """Enumerated over Z_4, with the row, the client's seed and both halves of its answer in the view of each party."""
    verdict = check(
        in_steps, word(2, 1, 1), public(2, 1, 1), public(2, 1, 1), ideal=lambda m, seed, x: x @ m, ring=Bits(2)
    )
    assert verdict.proven, verdict


def distributions():
    """Enumerate the halves that `Party.release` hands out, over Z_4: by secret, by how it was shared."""
    cases, ring = np.arange(1 << 6, dtype=np.uint64), Bits(2)
    deck = Deck(cases, (), ring)
    shares = [deck.draw((cases.size,), ring, np.dtype(np.uint64)) for _ in (0, 1)]

    def steps(rank, party):
        yield from ()
        return party.release(AShare(shares[rank], rank), what="x")

    halves, _ = play(steps, deck, np.dtype(np.uint64))
    seen = {}
    for case in range(cases.size):
        first, second, a, b = (int(words[case]) % 4 for words in (*shares, *halves))
        assert (a + b) % 4 == (first + second) % 4
        seen.setdefault((first + second) % 4, {}).setdefault(first, []).append((a, b))
    return [[sorted(set(pairs)) for pairs in by_share.values()] for by_share in seen.values()]


def test_a_client_learns_the_sum_of_its_halves_only(monkeypatch):
    for by_share in distributions():
        assert len(by_share) == 4 and all(pairs == by_share[0] and len(pairs) == 4 for pairs in by_share)
    monkeypatch.setattr(of_party, "rerandomise", lambda party, x: x)
    assert all(by_share[0] != by_share[1] for by_share in distributions()), "a planted leak is found"


def test_keys_beyond_all_values_harm_only_their_row(models):
    """Any words end at one leaf per tree, and the other rows of the batch are predicted as without them."""
    X, _ = table(40, 3, seed=8)
    rng = np.random.default_rng(9)
    keys = keys_of(X, ())
    strange = keys.copy()
    strange[::2] = rng.integers(0, 1 << 64, keys[::2].shape, np.uint64)
    strange[0], strange[2] = 1 << 63, 1 << 34

    def margins(given):
        shares = divide(given)

        def job(party):
            ensemble = models[party.rank].model.ensemble
            operand = party.run(fix_model(party, ensemble, 4, 1))
            own = party.run(margins_of_shared(party, ensemble, operand, AShare(shares[party.rank], party.rank), 1))
            return own.words, ensemble.leaves.words, ensemble.base.words

        (a, leaves, base), (b, leaves_b, base_b) = run_both(job)[0]
        return (a + b)[0], leaves + leaves_b, (base + base_b)[0]

    honest, leaves, base = margins(keys)
    given, _, _ = margins(strange)
    assert np.array_equal(given[1::2], honest[1::2])
    trees = [set(map(int, tree)) for tree in leaves]
    reached = {int(base)}
    for tree in trees:
        reached = {(total + weight) % (1 << 64) for total in reached for weight in tree}
    assert set(map(int, given[::2])) <= reached


def sends(*messages):
    """A client that sends each party one of two messages, or leaves."""

    def play(lines):
        for line, message in zip(lines, messages, strict=True):
            line.receive("client.offer")
            if message is None:
                line.close()
            else:
                line.send("client.rows", message)
        for line, message in zip(lines, messages, strict=True):
            if message is not None:
                line.receive("client.margins")

    return play


ID, ROW = "a" * 32, np.zeros((2, 3), np.uint64)
GOOD = {"id": ID, "half": ROW}


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ((GOOD, None), "shop"),
        ((None, GOOD), "shop"),
        ((GOOD, {**GOOD, "id": "b" * 32}), "shop: must send both parties halves of the same rows under one id"),
        ((GOOD, {**GOOD, "half": ROW[:1]}), "shop: must send both parties halves of the same rows"),
        ((GOOD, {**GOOD, "half": ROW[:, :2]}), "shop: a half must have 2 x 3 words"),
        ((GOOD, {**GOOD, "half": ROW.astype(float)}), "shop: a half must have 2 x 3 words"),
        ((GOOD, {**GOOD, "half": [1, 2]}), "shop: a half must have 1 x 3 words"),
        ((GOOD, {**GOOD, "half": None}), "shop: a half must have"),
        (({**GOOD, "more": 1}, GOOD), "shop: must send an id and a half"),
        (({**GOOD, "id": "x"}, GOOD), "shop: must send an id and a half"),
        (({**GOOD, "id": 7}, GOOD), "shop: must send an id and a half"),
        (([1, 2], GOOD), "shop: must send an id and a half"),
    ],
)
def test_a_client_that_errs_is_named(models, messages, sentence):
    lines, said = contributing({"app": _asks(table(9, 3, seed=1)[0]), "shop": sends(*messages)})

    def job(party):
        try:
            models[party.rank].predict_for(party, lines[party.rank])
        except SharewoodError as error:
            for line in (*lines[party.rank].values(), party.link):
                line.close()
            return str(error)

    errors, parties = run_both(job)
    assert all(errors) and any(sentence in error for error in errors), errors
    assert all(isinstance(each.exception(timeout=30), PeerFailure) for each in said)
    assert all(party.released == [] for party in parties)


def test_parties_that_disagree_get_nothing(models):
    """A client compares what both say before it sends a half."""
    told = offer_of(models[0].model).facts()

    class Line:
        peer = "party"

        def __init__(self, said):
            self._said = said

        def receive(self, tag, limit=None):
            return self._said

        def send(self, tag, tree):
            pytest.fail("a half was sent")

    for other, sentence in (
        ({**told, "model": "b" * 32}, "do not serve the same model"),
        ({**told, "unit": told["unit"] * 2}, "do not serve the same model"),
    ):
        with pytest.raises(DataError, match=sentence):
            ask([Line(told), Line(other)], np.zeros((1, 3)))
    for both in (None, {}, {**told, "missing": [7]}, {**told, "unit": float("nan")}, {**told, "classes": 0}, [1]):
        with pytest.raises(DataError):
            ask([Line(both), Line(both)], np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (np.zeros((2, 4)), "rows must have the model's 3 features"),
        (np.zeros(3), "rows must have the model's 3 features"),
        ([[1, "x", 2]], "rows must be numbers"),
        (np.full((2, 3), np.nan), "column f0, row 0: value is missing".replace("f0", "'f0'")),
        (np.array([[0, 1e39, 0]]), "column 'f1', row 0: value is missing, infinite"),
        ({"f0": [1.0], "f1": [1.0]}, "rows have no column 'f2'"),
        ({"f0": [1.0], "f1": [1.0, 2.0], "f2": [1.0]}, "columns must be numbers or categories"),
    ],
)
def test_rows_that_do_not_fit(models, rows, sentence):
    with pytest.raises(DataError, match=sentence):
        offer_of(models[0].model).keys(rows)


def test_categories_that_the_model_does_not_have():
    offer = Offer("a" * 32, ("x", "c=red", "c=blue"), (), "binary:logistic", 1, True, False, 1.0, 9)
    assert offer.keys({"x": [1.5], "c": ["red"]}).shape == (1, 3)
    with pytest.raises(DataError, match="column 'c': value must be one of red, blue, got 'violet'"):
        offer.keys({"x": [1.5], "c": ["violet"]})
    with pytest.raises(DataError, match="predicts numbers"):
        Offer(*[*vars(offer).values()][:3], "reg:squarederror", 1, False, False, 1.0, 9).probabilities(np.zeros(1))


def test_equal_names_of_two_parties_take_an_array():
    offer = Offer("a" * 32, ("x", "y", "x"), (), "binary:logistic", 1, True, False, 1.0, 9)
    assert offer.keys([[1, 2, 3]]).shape == (1, 3)
    with pytest.raises(DataError, match="the model has several features 'x': pass an array in its order"):
        offer.keys({"x": [1.0], "y": [2.0]})


def test_what_clients_cannot_have(models):
    for arguments, sentence in (
        ({"method": "bins"}, 'clients\' rows need method "thresholds"'),
        ({"mac": True}, "mac must be false for clients' rows"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            run_both(lambda party, given=arguments: models[party.rank].predict_for(party, {}, **given))
    with pytest.raises(DataError, match="not fitted"):
        run_both(lambda party: SecureXGBRegressor().predict_for(party, {}))


def audited(party):
    X, y = table(40, 3, seed=6)
    model = SecureXGBClassifier(n_estimators=1, max_depth=1, max_bin=4).fit(party, X, y)
    return model.predict_for(party, party.clients)


def test_an_audit_is_refused():
    with pytest.raises(ConfigError, match="audit must be false where clients get predictions"):
        run_local(audited, clients={"shop": np.zeros((1, 3))}, audit=True, timeout=120)


def test_a_client_that_dies_ends_the_job():
    def dies(lines):
        lines[0].receive("client.offer")
        lines[0].send("client.rows", GOOD)
        os._exit(9)

    with pytest.raises((PeerFailure, SharewoodError), match="shop"):
        run_local(job, clients={"shop": dies}, timeout=120)


def test_release_is_no_reveal():
    def job(party: Party):
        half = party.release(party.share(np.arange(5) if party.rank else None, owner=1), what="five numbers")
        return half, party.revealed, party.released

    (first, second), parties = run_both(job)
    assert np.array_equal(first[0] + second[0], np.arange(5)) and len(np.unique(first[0])) == 5
    assert first[1:] == second[1:] == ([], ["five numbers"]) and all(p.meter.total.rounds <= 2 for p in parties)
