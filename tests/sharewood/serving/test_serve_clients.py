"""Clients who are no party ask two real services by halves of rows, and whatever a client gets wrong."""

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, DataError, PeerFailure, ProtocolDesync
from protocols.testing import run_both
from secure_tree.exchange.plain_model import share_model
from secure_tree.exchange.xgboost import from_xgboost
from secure_tree.prediction.client import divide
from sharewood.client import Client, to_text, to_words
from sharewood.job.config import HostsConfig
from sharewood.serving.asking import ClientConfig
from sharewood.serving.batches import CLIENTS, BatchShape, padded
from sharewood.serving.jobs import HalfJob, Halves, Refused, Unavailable
from sharewood.serving.service import Service, settle_guesses
from sharewood.serving.turns import MOST_HALVES, Turn, paired
from tests.sharewood.commands.hosting import ROLES, sharewood, write_job
from tests.sharewood.serving.test_serve import TOKEN, WAIT, launch, place_job, running, until_ready

NAMES = ROLES[:2]
CLIENT = "shop"


def frame_of(rows, seed=5):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)).astype(np.float32), columns=["a", "b b", "c"])
    frame.loc[::7, "a"] = np.nan
    return frame


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Share a plain model; return the parties' sections, and its truth about a table."""
    folder = tmp_path_factory.mktemp("halves")
    frame = frame_of(150)
    y = (frame["a"].fillna(0) + frame["b b"] > 0).astype(int)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, xgboost.DMatrix(frame, label=y), 4)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "a test")

    def share(party):
        share_model(party, plain if party.rank == 0 else None, ("a",)).save(folder / f"{party.rank}.npz")

    run_both(share)
    sections = {name: {"model": str(folder / f"{rank}.npz")} for rank, name in enumerate(NAMES)}
    return sections, frame, booster.predict(xgboost.DMatrix(frame))


def served(folder, sections, *lines, pairwise=False, client=(), halves=True, **tables):
    """Write the files of services and of a client; return {party: its HTTP address}."""
    urls = place_job(folder, sections, pairwise, **tables)
    for name in NAMES:
        path = folder / f"{name}.toml"
        path.write_text(
            path.read_text() + "\n".join([f"halves = {str(halves).lower()}", "half_within = 1", *lines]) + "\n"
        )
    told = list(client)
    for name in NAMES:
        told += [f"[services.{name}]", f'address = "{urls[name].removeprefix("http://")}"']
        told += ['token_file = "token"'] if client else []
    (folder / "client.toml").write_text("\n".join(told) + "\n")
    return urls


@contextlib.contextmanager
def ready(folder, urls, pairwise=False, **how):
    with running(folder, *(NAMES if pairwise else ROLES)) as processes, httpx.Client(timeout=WAIT, **how) as http:
        for name in NAMES:
            until_ready(http, urls[name], processes[name])
        yield processes, http


@pytest.mark.parametrize("pairwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_clients_beside_the_parties_own(model, tmp_path, pairwise):
    """Clients of halves and of either party ask at the same time; then each kind of error; then a service restarts."""
    sections, frame, truth = model
    urls = served(tmp_path, sections, pairwise=pairwise)
    rows = [{k: None if v != v else v for k, v in row.items()} for row in frame.to_dict("records")]
    with ready(tmp_path, urls, pairwise) as (processes, http), Client(tmp_path / "client.toml") as client:
        for count in (1, 3, 150):
            np.testing.assert_allclose(client.predict_proba(frame[:count])[:, 1], truth[:count], atol=1e-3)
        assert np.array_equal(client.predict(frame.to_numpy()), truth > 0.5)
        assert client.predict_proba(frame[:0]).shape == (0, 2)

        def many(number):
            some = slice(7 * number, 7 * number + number % 3 + 1)
            if number % 3:
                with Client(tmp_path / "client.toml") as own:
                    got = own.predict_proba(frame[some])[:, 1]
            else:
                got = http.post(f"{urls[NAMES[number % 2]]}/v1/predict", json={"rows": rows[some]}).json()[
                    "predictions"
                ]
            np.testing.assert_allclose(got, truth[some], atol=1e-3)

        with ThreadPoolExecutor(6) as pool:
            assert len(list(pool.map(many, range(18)))) == 18
        counted = http.get(f"{urls['party_b']}/metrics").text
        assert 'sharewood_batch_rows_total{asked_by="clients"}' in counted
        if not pairwise:
            check_errors(client, http, urls, frame, truth)
            check_a_restart(client, processes, http, urls, tmp_path, frame, truth)


def post(http, url, id, half):
    return http.post(f"{url}/v1/predict_half", json={"id": id, "half": half})


def check_errors(client, http, urls, frame, truth):
    offer, (a, b) = client.offer(), urls.values() if len(urls) == 2 else [urls[name] for name in NAMES]
    halves = [to_text(half) for half in divide(offer.keys(frame[:2]))]
    # A half at one service only, and an id that was used.
    began = time.monotonic()
    alone = post(http, a, "0" * 32, halves[0])
    assert alone.status_code == 504 and time.monotonic() - began < 20
    assert alone.json()["detail"] == "the other half of this request has not arrived at party_b in 1 s"
    for id in ("0" * 32,):
        again = post(http, a, id, halves[0])
        assert again.status_code == 409 and "the id of a request must be new" in again.json()["detail"]
    # Two clients with one id: one of them is refused, at whichever service comes second.
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(post, http, url, "1" * 32, half) for url, half in ((a, halves[0]), (a, halves[0]))]
        asked += [pool.submit(post, http, b, "1" * 32, halves[1])]
        said = sorted(one.result().status_code for one in asked)
    assert said == [200, 200, 409]
    # Halves of different lengths are refused at both.
    longer = to_text(np.zeros((3, offer.width), np.uint64))
    with ThreadPoolExecutor(2) as pool:
        uneven = list(pool.map(lambda each: post(http, each[0], "2" * 32, each[1]), ((a, halves[0]), (b, longer))))
    for answer in uneven:
        assert answer.status_code == 409 and "do not have the same number of rows" in answer.json()["detail"]
    # No halves at all.
    for half in ("", "?", halves[0][:-4], to_text(np.zeros((65, offer.width), np.uint64)), "A" * 64 + "\u00e9"):
        answer = post(http, a, os.urandom(16).hex(), half)
        assert (
            answer.status_code == 422
            and f"half: must have 1 to 64 rows of {offer.width} words" in answer.json()["detail"]
        )
    for body in ({"id": "x", "half": halves[0]}, {"half": halves[0]}, {"id": "3" * 32, "half": 7}, [1]):
        assert http.post(f"{a}/v1/predict_half", json=body).status_code == 422
    assert http.post(f"{a}/v1/predict_half", content=b" " * 16_000_001).status_code == 413
    # Garbage that has the right length is predicted as whatever it is, beside a row that is not.
    garbage = [to_text(np.random.default_rng(k).integers(0, 1 << 64, (2, offer.width), np.uint64)) for k in (0, 1)]
    with ThreadPoolExecutor(3) as pool:
        strange = pool.map(lambda each: post(http, each[0], "4" * 32, each[1]), zip((a, b), garbage, strict=True))
        honest = pool.submit(client.predict_proba, frame[:9])
        assert [answer.status_code for answer in strange] == [200, 200]
        np.testing.assert_allclose(honest.result()[:, 1], truth[:9], atol=1e-3)
    # Halves of answers are not constant: each is uniform by itself.
    words = set()
    for number in range(4):
        id = f"{number:032x}".replace("0", "f", 1)
        with ThreadPoolExecutor(2) as pool:
            both = list(
                pool.map(lambda each, id=id: post(http, each[0], id, each[1]), zip((a, b), halves, strict=True))
            )
        one, other = (to_words(answer.json()["half"], 2) for answer in both)
        np.testing.assert_allclose(offer.probabilities(offer.margins([one, other]))[:, 1], truth[:2], atol=1e-3)
        words.update(map(int, one.reshape(-1)))
    assert len(words) == 8


def check_a_restart(client, processes, http, urls, folder, frame, truth):
    """While a service is away, clients hear so in a sentence; afterwards they are answered again."""
    processes["party_b"].send_signal(signal.SIGKILL)
    processes["party_b"].communicate(timeout=WAIT)
    with pytest.raises(PeerFailure, match="party_b"):
        client.predict(frame[:1])
    processes["party_b"] = launch(folder, "party_b")
    for name in NAMES:
        until_ready(http, urls[name], processes[name])
    np.testing.assert_allclose(client.predict_proba(frame[:5])[:, 1], truth[:5], atol=1e-3)
    # A half that waits as its service ends is told why.
    half = to_text(divide(client.offer().keys(frame[:1]))[0])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, http, urls["party_a"], "5" * 32, half)
        time.sleep(0.3)
        processes["party_b"].send_signal(signal.SIGTERM)
        answer = waiting.result()
    assert answer.status_code in (503, 504) and "party_b" in answer.json()["detail"]


def test_the_command_over_tls_with_tokens(model, tmp_path):
    sections, frame, truth = model
    serving = [f'{what} = "keys/{{}}.{suffix}"' for what, suffix in (("certificate", "crt"), ("key", "key"))]
    urls = served(tmp_path, sections, "@", client=['tls = "keys"', 'columns = "schema.toml"'])
    for name in NAMES:
        path = tmp_path / f"{name}.toml"
        lines = "\n".join(line.format(name) for line in serving) + f'\n[serve.clients.{CLIENT}]\ntoken_file = "token"\n'
        path.write_text(path.read_text().replace("@\n", lines + "rows_per_minute = 160\n"))
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "other").write_text("some other token of this test")
    (tmp_path / "other").chmod(0o600)
    (tmp_path / "schema.toml").write_text(
        'id = "id"\na = { type = "numeric", missing = true }\n"b b" = "numeric"\nc = "numeric"\nz = "ignore"\n'
    )
    frame.assign(id=[f"r{i}" for i in range(len(frame))], z=1).to_csv(tmp_path / "new.csv", index=False)
    query = "query", "--config", "client.toml", "--rows", "new.csv", "--out", "out.csv"
    urls = {name: url.replace("http:", "https:") for name, url in urls.items()}
    with ready(tmp_path, urls, verify=False):
        status, said, error = sharewood(*query, cwd=tmp_path)
        assert status == 0 and "out.csv: predictions of 150 rows" in said, (said, error)
        check_the_check(tmp_path)
        written = pd.read_csv(tmp_path / "out.csv")
        assert written["id"].tolist() == [f"r{i}" for i in range(150)]
        np.testing.assert_allclose(written["prediction"], truth, atol=1e-3)
        status, _, error = sharewood(*query, cwd=tmp_path)
        assert status == 2 and "shop may ask for 160 rows per minute" in error, error
        told = (tmp_path / "client.toml").read_text()
        swapped = told.replace("services.party_a", "services.x").replace("services.party_b", "services.party_a")
        (tmp_path / "client.toml").write_text(swapped.replace("services.x", "services.party_b"))
        status, _, error = sharewood(*query, cwd=tmp_path)
        assert status == 3 and "certificate" in error.lower(), error
        (tmp_path / "client.toml").write_text(told.replace('token_file = "token"', 'token_file = "other"', 1))
        status, _, error = sharewood(*query, cwd=tmp_path)
        assert status == 2 and "party_a: the header Authorization must be Bearer" in error, error


def check_the_check(folder):
    """`sharewood check` says that all is well without asking for predictions, and otherwise what a client must do."""
    check = "check", "--config", "client.toml", "--seconds", 5, "--rows"
    status, said, error = sharewood(*check, "new.csv", cwd=folder)
    assert status == 0 and "error" not in said, (said, error)
    assert "authority.crt, which signed the services' certificates, is valid until" in said
    assert said.count("answers, its certificate holds, and it predicts for this client") == 2
    assert "ok      model: both serve " in said and "with 3 features" in said
    assert "ok      rows: new.csv has 150 rows that fit" in said
    (folder / "few.csv").write_text("a,c\n1,2\n")
    status, said, _ = sharewood(*check, "few.csv", cwd=folder)
    assert status == 2 and "error   rows: few.csv has no columns 'id' and 'b b', which schema.toml declares" in said, (
        said
    )
    told = (folder / "client.toml").read_text()
    place = next(line for line in told.splitlines() if line.startswith("address"))
    for old, new, code, sentence in (
        ('token_file = "token"', 'token_file = "other"', 2, "party_a: the header Authorization must be Bearer"),
        ('token_file = "token"', 'token_file = "none"', 2, "error   client: "),
        ("services.party_b", "services.party_c", 3, "error   party_c: party_c at 127.0.0.1:"),
        (place, 'address = "127.0.0.1:1"', 3, "error   party_a: party_a at 127.0.0.1:1: [Errno 111]"),
    ):
        (folder / "client.toml").write_text(told.replace(old, new, 1))
        status, said, error = sharewood(*check, "new.csv", cwd=folder)
        assert status == code and sentence in said and "model" not in said, (said, error)
    (folder / "client.toml").write_text(told)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[services.party_b]", "[services.party_b.more]", "services"),
        ("address", "place", "services.party_a.address must be set"),
        ('address = "127', 'address = "x 127', "an address must be host:port"),
        ("[services.party_a]", "color = 1\n[services.party_a]", "color"),
    ],
)
def test_a_file_of_a_client_is_checked(tmp_path, old, new, sentence):
    text = '[services.party_a]\naddress = "127.0.0.1:1"\n[services.party_b]\naddress = "127.0.0.1:2"\n'
    (tmp_path / "client.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=sentence):
        ClientConfig.read(tmp_path / "client.toml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there must be two services"),
        ('[services.a]\naddress = "127.0.0.1:1"\n', "there must be two services"),
        ("services = 7\n", "there must be two services"),
        ('timeout = "long"\n', "timeout must be above 0 and at most 86400 s, got 'long'"),
        ("timeout = inf\n", "timeout must be above 0"),
        (
            '[services.a]\naddress = "127.0.0.1:x"\n[services.b]\naddress = "127.0.0.1:1"\n',
            "there must be two services",
        ),
        (
            '[services.a]\naddress = "192.0.2.1:1"\n[services.b]\naddress = "127.0.0.1:1"\n',
            "services.a is not on this machine: set tls",
        ),
        ('tls = "none"\n[services.a]\naddress = "192.0.2.1:1"\n[services.b]\naddress = "1:1"\n', "authority.crt"),
    ],
)
def test_a_client_that_cannot_begin(tmp_path, text, sentence):
    (tmp_path / "client.toml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        Client(tmp_path / "client.toml")


def test_nobody_listens(tmp_path):
    (tmp_path / "client.toml").write_text('[services.a]\naddress = "127.0.0.1:1"\n[services.b]\naddress = "[::1]:1"\n')
    with Client(tmp_path / "client.toml") as client, pytest.raises(PeerFailure, match=r"a at 127\.0\.0\.1:1"):
        client.predict(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("predict", "sentence"),
    [({"method": "bins"}, "clients' rows need method"), ({"mac": True}, "mac must be false for clients' rows")],
)
def test_what_clients_cannot_have(model, tmp_path, predict, sentence):
    write_job(tmp_path, model[0], predict=predict, serve={"halves": True})
    with pytest.raises(ConfigError, match=sentence):
        Service(HostsConfig.read(tmp_path / "party_a.toml"), "party_a")


def turn(**halves):
    return Turn.of(rows=0, ids=[], halves={key[1] * 32: rows for key, rows in halves.items()}, leaves=False)


def test_both_services_choose_the_same_requests():
    first, second = turn(_a=3, _b=5, _c=2, _d=1), turn(_d=1, _c=2, _b=4, _a=3, _e=9)
    ids = [letter * 32 for letter in "abcde"]
    assert paired((first, second), 64) == ([ids[0], ids[2], ids[3]], [ids[1]])
    assert paired((first, second), 4) == ([ids[0], ids[3]], [ids[1]])
    assert paired((turn(), second), 4) == ([], [])


class Stock:
    """A party's lots: how many of each shape are ready, and the order in which they are taken and made."""

    def __init__(self, shapes):
        self.number = itertools.count()
        self.lots = {shape: deque([next(self.number)]) for shape in shapes}

    def take(self, shape):
        kept = self.lots.get(shape)
        return kept.popleft() if kept else None

    def renew(self, shape):
        self.lots[shape].append(next(self.number))


@pytest.mark.parametrize("guesses", list(itertools.product([None, 1, 2, 3, 4], repeat=2)))
def test_guesses_keep_the_lots_of_both_services_alike(guesses):
    """Whatever each guesses, both take the same lots of the same shapes, and make new ones in the same order."""
    shapes = [BatchShape(CLIENTS, 1 << k) for k in range(3)]
    stocks = Stock(shapes), Stock(shapes)
    turns = tuple(
        Turn.of(rows=0, ids=[], halves={f"{p:032x}": rows or 1}, opening=b"x" if rows else b"", leaves=False)
        for p, rows in enumerate(guesses)
    )
    for stock, rows in zip(stocks, guesses, strict=True):
        if rows:
            stock.take(BatchShape(CLIENTS, padded(rows)))
    for rank, stock in enumerate(stocks):
        settle_guesses(rank, stock, turns)
    assert stocks[0].lots == stocks[1].lots and all(len(lots) == 1 for lots in stocks[0].lots.values())


def test_a_guess_for_which_nothing_is_ready_ends_the_session():
    turns = turn(_a=1), Turn.of(rows=0, ids=[], halves={"b" * 32: 9}, opening=b"x", leaves=False)
    with pytest.raises(ProtocolDesync, match="for which no material is ready"):
        settle_guesses(0, Stock([BatchShape(CLIENTS, 1)]), turns)


def test_waiting_halves_are_bounded():
    halves, row = Halves(2, 3), np.zeros((1, 4), np.uint64)
    first, second = HalfJob("a" * 32, row), HalfJob("b" * 32, row.repeat(2, axis=0))
    halves.add(first)
    halves.add(second)
    second.late = True
    assert halves.fresh and halves.waiting() == ({"a" * 32: first, "b" * 32: second}, ["b" * 32]) and not halves.fresh
    for job, kind in ((HalfJob("a" * 32, row), Refused), (HalfJob("c" * 32, row), Unavailable)):
        with pytest.raises(kind):
            halves.add(job)
    halves.take([first])
    assert halves.fresh and halves.waiting() == ({"b" * 32: second}, ["b" * 32])
    halves.take([second])
    assert not halves.fresh and halves.waiting() == ({}, [])
    with pytest.raises(Refused, match="must be new"):
        halves.add(HalfJob("a" * 32, row))
    with pytest.raises(Unavailable, match="too many requests"):
        halves.add(HalfJob("d" * 32, row.repeat(4, axis=0)))
    halves.fail(Unavailable("it ends"))
    assert isinstance(second.margins.exception(), Unavailable) and not first.margins.done()
    with pytest.raises(DataError):
        Turn.of(rows=0, ids=[], halves={f"{k:032x}": 1 for k in range(MOST_HALVES + 1)}, leaves=False)
    assert threading.active_count() < 50


@pytest.mark.parametrize("pairwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_model_of_deep_trees_is_served(tmp_path, pairwise):
    """Its paths are a matrix that is fixed for each batch, of either party and of clients."""
    frame = frame_of(150)
    y = np.arange(150) % 2  # not to be learnt, so that the trees are deep
    parameters = {"objective": "binary:logistic", "max_depth": 12, "min_child_weight": 0}
    booster = xgboost.train(parameters, xgboost.DMatrix(frame, label=y), 4)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "a test")
    assert plain.paths is not None

    def share(party):
        share_model(party, plain if party.rank == 0 else None, ("a",)).save(tmp_path / f"{party.rank}.npz")

    run_both(share)
    sections = {name: {"model": str(tmp_path / f"{rank}.npz")} for rank, name in enumerate(NAMES)}
    urls, truth = served(tmp_path, sections, pairwise=pairwise), booster.predict(xgboost.DMatrix(frame))
    rows = [{k: None if v != v else v for k, v in row.items()} for row in frame.to_dict("records")]
    with ready(tmp_path, urls, pairwise) as (_, http), Client(tmp_path / "client.toml") as client:
        for some in (slice(0, 1), slice(1, 4), slice(4, 24), slice(24, 25)):
            np.testing.assert_allclose(client.predict_proba(frame[some])[:, 1], truth[some], atol=1e-3)
            for name in NAMES:
                answer = http.post(f"{urls[name]}/v1/predict", json={"rows": rows[some]}).json()
                np.testing.assert_allclose(answer["predictions"], truth[some], atol=1e-3)
