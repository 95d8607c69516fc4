"""Reasons from real services, beside XGBoost's contributions and the command `predict`; and what a batch costs."""

import contextlib
import json
import signal
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, ProtocolDesync
from protocols.testing import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import share_model
from secure_tree.exchange.xgboost import from_xgboost
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.reasons.request import requested
from sharewood.job.config import HostsConfig
from sharewood.serving.batches import CLIENTS, MOST_EXPLAINED, Batches, BatchShape
from sharewood.serving.jobs import Job, Queue
from sharewood.serving.service import Service
from sharewood.serving.turns import ServiceFacts, Turn, agree_on_service, take_turn
from tests.secure_tree.prediction.test_reasons import contribs, exported, in_order, trained
from tests.sharewood.commands.hosting import ROLES, both, dealing, write_job
from tests.sharewood.serving.test_serve import WAIT, place_job, records, running, until_ready

NAMES = ROLES[:2]
GROUPS = {"debts": ["b b", "c"]}


def frame_of(rows, seed=5):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 4)).astype(np.float32), columns=["a", "b b", "c", "d"])
    frame.loc[::7, "a"] = np.nan
    return frame


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Share a plain model of two or three classes; return {classes: (the parties' sections, the booster)}."""
    found = {}
    frame = frame_of(400)
    score = frame["a"].fillna(0) + frame["b b"] - frame["d"] / 2
    for classes in (2, 3):
        folder = tmp_path_factory.mktemp("model")
        several = {"objective": "multi:softprob", "num_class": 3} if classes > 2 else {"objective": "binary:logistic"}
        y = pd.qcut(score, classes, labels=False)
        booster = xgboost.train({"max_depth": 3, **several}, xgboost.DMatrix(frame, label=y), 4)
        plain = from_xgboost(json.loads(booster.save_raw("json")), "plain.json")

        def share(party, plain=plain, folder=folder):
            share_model(party, plain if party.rank == 0 else None, ("a",)).save(folder / f"{party.rank}.npz")

        run_both(share)
        found[classes] = {name: {"model": str(folder / f"{rank}.npz")} for rank, name in enumerate(NAMES)}, booster
    return found


@contextlib.contextmanager
def served(folder, sections, pairwise=False, **tables):
    """Run the services, and yield the processes, {party: its address} and a client."""
    urls = place_job(folder, sections, pairwise, **tables)
    with running(folder, *(NAMES if pairwise else ROLES)) as processes, httpx.Client(timeout=WAIT) as client:
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
        yield processes, urls, client


def asked(client, url, rows, reasons=None):
    body = {"rows": rows} if reasons is None else {"rows": rows, "reasons": reasons}
    return client.post(f"{url}/v1/predict", json=body)


def grouped(contributions):
    """Add up the contributions of the columns in GROUPS, and name the others."""
    joined = [contributions[:, 1] + contributions[:, 2], contributions[:, 0], contributions[:, 3]]
    return np.stack(joined, axis=1), ["debts", "a", "d"]


@pytest.mark.parametrize("pairwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_services_give_the_reasons_of_their_own_rows(model, tmp_path, pairwise):
    sections, booster = model[2]
    frame = frame_of(70, seed=8)
    frame.assign(id=range(70)).to_csv(tmp_path / "new.csv", index=False)
    for name in NAMES:
        sections[name] |= {"predict_data": "new.csv", "predictions": f"{name}.csv"}
    rows, data = records(frame), xgboost.DMatrix(frame)
    truth, (values, names) = booster.predict(data), grouped(booster.predict(data, pred_contribs=True))
    expected = [list(in_order(of_row, names, 3)) for of_row in values]
    with served(tmp_path, sections, pairwise, **{"predict": {"reasons": 3}, "predict.groups": GROUPS}) as (
        processes,
        urls,
        client,
    ):
        for name, some, top in (("party_a", slice(0, 1), 3), ("party_b", slice(1, 3), 1), ("party_a", slice(70), 3)):
            answer = asked(client, urls[name], rows[some], top)
            assert answer.status_code == 200, answer.text
            assert answer.json()["reasons"] == [of_row[:top] for of_row in expected[some]]
            np.testing.assert_allclose(answer.json()["predictions"], truth[some], atol=1e-3)
            assert "reasons" not in asked(client, urls[name], rows[some]).json()
        with ThreadPoolExecutor(8) as pool:
            work = [(NAMES[i % 2], slice(i, 2 * i + 1), 3 if i % 3 else None) for i in range(16)]
            answers = list(pool.map(lambda one: asked(client, urls[one[0]], rows[one[1]], one[2]), work))
        for (_, some, top), answer in zip(work, answers, strict=True):
            np.testing.assert_allclose(answer.json()["predictions"], truth[some], atol=1e-3)
            assert answer.json().get("reasons") == (expected[some] if top else None)
        check_refusals(client, urls["party_a"], rows)
        for name in NAMES:
            processes[name].send_signal(signal.SIGTERM)
        logs = [processes[name].communicate(timeout=WAIT)[1] for name in NAMES]
    assert not any("debts" in log or "Traceback" in log for log in logs)
    with contextlib.nullcontext() if pairwise else dealing(1, cwd=tmp_path):
        both("predict", cwd=tmp_path)
    table = pd.read_csv(tmp_path / "party_b.csv", keep_default_na=False)
    written = table[["reason_1", "reason_2", "reason_3"]].to_numpy().tolist()
    assert [[one for one in of_row if one] for of_row in written] == expected


def check_refusals(client, url, rows):
    """Odd numbers of reasons are refused with one sentence."""
    for reasons, sentence in [
        (0, "reasons: Input should be greater than or equal to 1"),
        (-1, "reasons: Input should be greater than or equal to 1"),
        (4, "reasons: Input should be less than or equal to 3"),
        (10**9, "reasons: Input should be less than or equal to 3"),
        (10**40, "reasons: "),
        ("3", "reasons: Input should be a valid integer"),
        (2.0, "reasons: Input should be a valid integer"),
        (True, "reasons: Input should be a valid integer"),
        ([3], "reasons: Input should be a valid integer"),
        ({"a": 1}, "reasons: Input should be a valid integer"),
    ]:
        answer = asked(client, url, rows[:1], reasons)
        assert answer.status_code == 422 and answer.json()["detail"].startswith(sentence), answer.text
        assert answer.json()["detail"].count("\n") == 0


def test_numbers_if_both_services_say_so(model, tmp_path):
    sections, booster = model[3]
    frame = frame_of(30, seed=9)
    theirs = booster.predict(xgboost.DMatrix(frame), pred_contribs=True)[..., :-1]
    predicted = booster.predict(xgboost.DMatrix(frame)).argmax(axis=1)
    said = {"reasons": 2, "show": "numbers", "toward": "lower"}
    with served(tmp_path, sections, predict=said) as (_, urls, client):
        answer = asked(client, urls["party_b"], records(frame), 2).json()
    assert np.array(answer["predictions"]).argmax(axis=1).tolist() == predicted.tolist()
    for of_row, values in zip(answer["reasons"], theirs[np.arange(30), predicted], strict=True):
        assert tuple(name for name, _ in of_row) == in_order(values, list(frame), 2, -1)
        np.testing.assert_allclose([number for _, number in of_row], np.sort(values)[: len(of_row)], atol=1e-5)


@pytest.mark.parametrize("method", ["bins", "thresholds"])
def test_reasons_of_rows_named_by_id(tmp_path, method):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 2] + X[:, 3] > 0).astype(int)
    frames = [pd.DataFrame(X[:, :2], columns=["a0", "a1"]), pd.DataFrame(X[:, 2:], columns=["b0", "b1"])]

    def train(party):
        model = SecureXGBClassifier(partition="vertical", n_estimators=3, max_depth=2, max_bin=8, learning_rate=0.9)
        model.fit(party, frames[party.rank], y if party.rank == 0 else None).save(tmp_path / f"{party.rank}.npz")
        return model, model.contributions(party, frames[party.rank], 2, groups={"all_b1": ["b1"]}, method=method)

    trained_by_both = run_both(train)[0]
    expected = [list(names) for names in trained_by_both[0][1]]
    assert {"data of party_b", "all_b1", "a0"} <= {name for names in expected for name in names}
    ids = [f"customer {i}" for i in range(80)]
    frames[1].assign(id=ids).iloc[::-1].to_csv(tmp_path / "b.csv", index=False)
    sections = {"party_a": {"model": "0.npz", "label": "y"}, "party_b": {"model": "1.npz", "predict_data": "b.csv"}}
    said = {"predict": {"reasons": 2, "method": method}, "predict.groups": {"all_b1": ["b1"]}}
    rows = [{"id": one, **record} for one, record in zip(ids, records(frames[0]), strict=True)]
    with served(tmp_path, sections, train={"partition": "vertical"}, **said) as (_, urls, client):
        for some in (slice(0, 1), slice(3, 40), slice(80)):
            assert asked(client, urls["party_a"], rows[some], 2).json()["reasons"] == expected[some]
        strange = {**rows[0], "id": "nobody"}
        answer = asked(client, urls["party_a"], [rows[1], strange], 2)
        assert (answer.status_code, answer.json()) == (404, {"detail": "party_b has no row with id 'nobody'"})
        assert asked(client, urls["party_b"], rows[:1], 2).status_code == 404


@pytest.mark.parametrize("source", ["dealer", "made by both"])
@pytest.mark.parametrize("kind", ["depth 4", "classes"])
def test_what_a_batch_costs(kind, source):
    models, _, _ = trained(kind)
    model, masks = models[0].model, source == "dealer"
    request = requested(model, None, 2, {}, "names", "higher")
    plain, explaining = (
        Batches(model, "thresholds", [0, 1], 64),
        Batches(model, "thresholds", [0, 1], 64, False, request),
    )
    for rows in (1, 64):
        without = plain.demand(BatchShape(0, rows), masks)
        beside = explaining.demand(BatchShape(0, rows), masks)
        # What is not explained costs what it costs where nothing is.
        assert (beside.rounds, beside.sent, beside.received) == (without.rounds, without.sent, without.received)
        assert [type(one) for one in beside.requests] == [type(one) for one in without.requests]
        # Two more rounds for the ranks, and a message with the names; without a dealer, values are fixed for the batch.
        more = explaining.demand(BatchShape(0, rows, True), masks).rounds - without.rounds
        assert more == (3 if masks else 5)


def test_a_batch_reveals_to_the_owner_only_and_hides_what_is_not_shown():
    models, tables, _ = trained("depth 4")
    booster, names = exported(models), list(models[0].model.facts.names)
    shown = np.array([1, 0, 1, 1])

    def job(party):
        model = models[party.rank].model
        request = requested(model, None, 3, {}, "names", "higher")
        batches = Batches(model, "thresholds", [0, 1], 4, False, request)
        prepared = batches.prepare(party)
        own = tables[party.rank][: 4 if party.rank == 1 else 0]
        return batches.predict(party, BatchShape(1, 4, True), own, shown, prepared)

    (nothing, found), parties = run_both(job)
    assert nothing.reasons.size == 0 and nothing.margins.size == 0 and parties[0].revealed == []
    assert parties[1].revealed == ["predictions of its own rows", "the strongest reasons of its own rows"]
    assert (found.reasons[0, 1] == -1).all() and found.margins[0, 1] == 0
    theirs = contribs(booster, tables[1][:4])[:, :-1]
    for row in (0, 2, 3):
        assert tuple(names[f] for f in found.reasons[0, row] if f >= 0) == in_order(theirs[row], names, 3)


def test_shapes_with_reasons_are_made_ahead_up_to_a_size():
    models, _, _ = trained("depth 2")
    model = models[0].model
    batches = Batches(model, "thresholds", [0, 1], 1024, False, requested(model, None, 2, {}, "names", "higher"))
    ahead = set(batches.ahead(1 << 31, True))
    assert max(one.rows for one in ahead if one.reasons) == MOST_EXPLAINED == batches.explains
    assert max(one.rows for one in ahead if not one.reasons) == 1024
    assert not any(one.reasons for one in Batches(model, "thresholds", [0, 1], 1024).ahead(1 << 31, True))
    assert all(one.owner != CLIENTS for one in ahead)


def test_a_queue_keeps_both_kinds_apart():
    queue, made = (
        Queue(100),
        [Job(np.zeros((n, 1), np.float32), top=top) for n, top in ((3, 0), (5, 2), (2, 0), (4, 1))],
    )
    for job in made:
        queue.add(job)
    taken = []
    while parts := queue.batch(64, 4):
        assert len({bool(part.job.top) for part in parts}) == 1
        assert sum(map(len, parts)) <= (4 if parts[0].job.top else 64)
        taken.append([(made.index(part.job), part.rows.start, part.rows.stop) for part in parts])
    assert taken == [[(0, 0, 3), (2, 0, 2)], [(1, 0, 4)], [(3, 0, 4)], [(1, 4, 5)]] and queue.rows == 0


def test_a_job_cuts_reasons_to_what_it_asks_for():
    job = Job(np.zeros((2, 1), np.float32), top=1, margins=Future())
    job.add(np.zeros(1), [("a", "b")], [], "party_b")
    job.add(np.zeros(1), [()], [], "party_b")
    assert job.margins.done() and job.reasons == [("a",), ()]


def turn(rows, reasons):
    return Turn.of(rows=rows, reasons=reasons, ids=[], halves={}, leaves=False)


def test_a_turn_must_fit_the_settings():
    def job(party, theirs):
        return take_turn(party, theirs if party.rank else turn(1, True), 64, [0, 1], False, explained=16)

    (first, _), _ = run_both(lambda party: job(party, turn(16, True)))
    assert first == (turn(1, True), turn(16, True))
    with pytest.raises(ProtocolDesync, match="at most 16 rows, a power of two, got 32"):
        run_both(lambda party: job(party, turn(32, True)))
    with pytest.raises(ProtocolDesync, match="at most 0 rows"):
        run_both(lambda party: take_turn(party, turn(1, bool(party.rank)), 64, [0, 1], False))


def test_services_must_agree_on_reasons(model):
    sections, _ = model[2]

    def job(party):
        half = SharedModel.load(sections[NAMES[party.rank]]["model"])
        facts = ServiceFacts.of(largest_batch=1, ahead=0, halves=False, reasons=4 * party.rank)
        agree_on_service(
            party, half, HostsConfig.model_fields["predict"].get_default(call_default_factory=True), None, facts
        )

    with pytest.raises(ConfigError, match=r"disagree on predict\.reasons: "):
        run_both(job)


@pytest.mark.parametrize(
    ("predict", "error", "sentence"),
    [
        ({"reasons": 65}, ConfigError, "predict.reasons"),
        ({"reasons": -1}, ConfigError, "predict.reasons"),
        ({"reasons": 2, "show": "all"}, ConfigError, "predict.show"),
        ({"reasons": 2, "mac": True}, ConfigError, "reasons must be 0 with mac"),
        ({"reasons": 2, "groups": {"x": ["a", "b b"], "y": ["a"]}}, ConfigError, "in one group at most, got 'a'"),
        ({"reasons": 2, "groups": {"x": ["income"]}}, ConfigError, "in one group at most, got 'income'"),
        ({"reasons": 2, "groups": {"x": []}}, ConfigError, "must have a column, got none for 'x'"),
        ({"reasons": 2, "groups": {"a": ["c"]}}, ConfigError, "must not have the name of a column outside"),
    ],
)
def test_settings_that_are_refused(model, tmp_path, predict, error, sentence):
    groups = {"predict.groups": predict.pop("groups")} if "groups" in predict else {}
    write_job(tmp_path, model[2][0], predict=predict, **groups)
    with pytest.raises(error, match=sentence):
        Service(HostsConfig.read(tmp_path / "party_a.toml"), "party_a")


def test_without_reasons_a_request_for_them_is_refused(model, tmp_path):
    with served(tmp_path, model[2][0]) as (_, urls, client):
        answer = asked(client, urls["party_a"], records(frame_of(1)), 4)
        assert answer.status_code == 422
        sentence = "reasons: this service gives none, because its configuration has predict.reasons = 0"
        assert answer.json()["detail"] == sentence
