"""Prediction services as real processes over TLS, with a real HTTP client."""

import contextlib
import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, DataError
from protocols.testing import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import share_model
from secure_tree.exchange.xgboost import from_xgboost
from sharewood.job.config import HostsConfig
from sharewood.serving.service import Service
from tests.ports import free_port
from tests.sharewood.commands.hosting import ROLES, start, write_job

NAMES = ROLES[:2]
TOKEN = "a token of this test"
WAIT = 120.0


def place_job(folder, sections, pairwise=False, **tables):
    """Write the files of a job whose hosts serve on separate ports; return {party: its HTTP address}."""
    write_job(folder, sections, **tables)
    return with_services(folder, pairwise)


def with_services(folder, pairwise=False):
    """Have the hosts of a job serve on separate ports; return {party: its HTTP address}."""
    urls = {}
    for role in ROLES:
        path, port = folder / f"{role}.toml", free_port()
        text = path.read_text()
        if pairwise:
            text = re.sub(r"\[dealer\]\naddress = .*\n", 'offline = "pairwise"\not = "softspoken"\n', text)
        text = "patience = 5\n" + text
        path.write_text(f'{text}[serve]\naddress = "127.0.0.1:{port}"\nlargest_batch = 64\nahead = 8\n')
        urls[role] = f"http://127.0.0.1:{port}"
    return urls


@contextlib.contextmanager
def running(folder, *roles):
    """Run the processes of roles by name, and end them afterwards."""
    processes = {role: launch(folder, role) for role in roles}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


def launch(folder, role):
    arguments = ["dealer"] if role == "dealer" else ["serve", "--party", role]
    return start(*arguments, "--config", f"{role}.toml", cwd=folder)


def until_ready(client, url, process):
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        with contextlib.suppress(httpx.TransportError):
            if client.get(f"{url}/ready").status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail("the service did not become ready")


def ask(client, url, rows):
    return client.post(f"{url}/v1/predict", json={"rows": rows})


@pytest.fixture(scope="module")
def by_rows(tmp_path_factory):
    """Share a plain model with a feature that may be missing; return it with its twin and rows."""
    folder = tmp_path_factory.mktemp("by_rows")
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    X[::7, 0] = np.nan
    y = (np.nan_to_num(X[:, 0]) + X[:, 1] > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b b", "c"])
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, xgboost.DMatrix(frame, label=y), 4)
    booster.save_model(folder / "plain.json")
    plain = from_xgboost(json.loads((folder / "plain.json").read_text()), "plain.json")

    def share(party):
        share_model(party, plain if party.rank == 0 else None, ("a",)).save(folder / f"{party.rank}.npz")

    run_both(share)
    sections = {name: {"model": str(folder / f"{rank}.npz")} for rank, name in enumerate(NAMES)}
    return sections, booster.predict(xgboost.DMatrix(frame)), records(frame)


def records(frame):
    return [{k: None if np.isnan(v) else float(v) for k, v in row.items()} for row in frame.to_dict("records")]


@pytest.mark.parametrize("pairwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_services_predict_their_own_rows(by_rows, tmp_path, pairwise):
    sections, truth, rows = by_rows
    urls = place_job(tmp_path, sections, pairwise)
    with running(tmp_path, *(NAMES if pairwise else ROLES)) as processes, httpx.Client(timeout=WAIT) as client:
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
        for name, count in (("party_a", 1), ("party_b", 1), ("party_a", 3), ("party_b", 200)):
            answer = ask(client, urls[name], rows[:count])
            assert answer.status_code == 200, answer.text
            assert answer.json()["output"] == "probability"
            np.testing.assert_allclose(answer.json()["predictions"], truth[:count], atol=1e-3)
        with ThreadPoolExecutor(8) as pool:
            asked = [(NAMES[i % 2], slice(i * 10, i * 10 + i + 1)) for i in range(20)]
            answers = list(pool.map(lambda each: ask(client, urls[each[0]], rows[each[1]]), asked))
        for (_, some), answer in zip(asked, answers, strict=True):
            np.testing.assert_allclose(answer.json()["predictions"], truth[some], atol=1e-3)
        counted = client.get(f"{urls['party_b']}/metrics").text
        assert 'sharewood_requests_total{status="200"} 1' in counted
        assert 'sharewood_batch_rows_total{asked_by="other_party"}' in counted
        if not pairwise:
            check_refusals(client, urls["party_a"], rows)
            check_restarts(client, urls, processes, tmp_path, rows, truth)


def check_refusals(client, url, rows):
    """A request that does not fit the published schema is refused with one sentence."""
    asked = client.get(f"{url}/openapi.json").json()["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    row = asked["application/json"]["schema"]["properties"]["rows"]["items"]
    assert list(row["properties"]) == ["a", "b b", "c"] and row["required"] == ["b b", "c"]
    assert client.get(f"{url}/docs").status_code == 200 and client.get(f"{url}/health").status_code == 200
    for body, sentence in [
        ([], "rows: List should have at least 1 item"),
        ([{"a": 1.0, "c": 1.0}], "rows.0.b b: Field required"),
        ([rows[0] | {"d": 1.0}], "rows.0.d: Extra inputs are not permitted"),
        ([rows[0] | {"c": "red"}], "rows.0.c: Input should be a valid number"),
        ([rows[0] | {"c": 1e39}], "column 'c', row 0: value is infinite, or beyond float32"),
        (rows[:1] * 10_001, "at most 10000"),
    ]:
        answer = ask(client, url, body)
        assert answer.status_code == 422 and sentence in answer.json()["detail"], answer.text
    content = b'{"rows": [{"a": 1, "b b": NaN, "c": 1}]}'
    for kind, sentence in [
        ("application/json", "rows.0.b b: Input should be a finite number"),
        ("Application/Problem+JSON; charset=utf-8", "rows.0.b b: Input should be a finite number"),
        ("text/plain", "the header Content-Type must be application/json"),
        ("text/plain; application/json", "the header Content-Type must be application/json"),
        (None, "the header Content-Type must be application/json"),
    ]:
        headers = {"Content-Type": kind} if kind else {}
        answer = client.post(f"{url}/v1/predict", content=content, headers=headers)
        assert answer.status_code == 422 and answer.json()["detail"] == sentence
    assert client.post(f"{url}/v1/predict", content=iter([b"{}"])).status_code == 411
    assert client.post(f"{url}/v1/predict", content=b" " * 16_000_001).status_code == 413


def check_restarts(client, urls, processes, folder, rows, truth):
    """If either side restarts, the other reports it meanwhile, and predicts again afterwards."""
    for leaving, other, ending in (("party_b", "party_a", signal.SIGTERM), ("party_a", "party_b", signal.SIGKILL)):
        with ThreadPoolExecutor(1) as pool:
            if ending == signal.SIGTERM:
                before = batches(client, urls[leaving])
                waiting = pool.submit(ask, client, urls[leaving], rows)
                while batches(client, urls[leaving]) == before and not waiting.done():
                    time.sleep(0.02)
            processes[leaving].send_signal(ending)
            _, log = processes[leaving].communicate(timeout=WAIT)
            if ending == signal.SIGTERM:
                assert processes[leaving].returncode == 0, log
                np.testing.assert_allclose(waiting.result().json()["predictions"], truth, atol=1e-3)
        deadline = time.monotonic() + WAIT
        while (answer := ask(client, urls[other], rows[:1])).status_code == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "2", answer.text
        assert leaving in answer.json()["detail"] and "(for " in client.get(f"{urls[other]}/ready").json()["detail"]
        processes[leaving] = launch(folder, leaving)
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
            answer = ask(client, urls[name], rows[:5])
            np.testing.assert_allclose(answer.json()["predictions"], truth[:5], atol=1e-3)


def batches(client, url):
    """Return the number of its own batches that the service has predicted."""
    text = client.get(f"{url}/metrics").text
    return int(float(re.search(r'^sharewood_batch_seconds_count\{asked_by="this_party"\} (\S+)$', text, re.M)[1]))


@pytest.mark.parametrize("mac", [False, True], ids=["", "macs"])
def test_rows_named_by_id(tmp_path, mac):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 2] > 0).astype(int)
    frames = [pd.DataFrame(X[:, :2], columns=["a0", "a1"]), pd.DataFrame(X[:, 2:], columns=["b0", "b1"])]

    def train(party):
        model = SecureXGBClassifier(partition="vertical", n_estimators=2, max_depth=2, max_bin=8, learning_rate=0.9)
        model.fit(party, frames[party.rank], y if party.rank == 0 else None).save(tmp_path / f"{party.rank}.npz")
        return model.predict_proba(party, frames[party.rank], "thresholds")

    truth = run_both(train)[0][0][:, 1]
    ids = [f"customer {i}" for i in range(60)]
    frames[1].assign(id=ids).iloc[::-1].to_csv(tmp_path / "b.csv", index=False)
    sections = {"party_a": {"model": "0.npz", "label": "y"}, "party_b": {"model": "1.npz", "predict_data": "b.csv"}}
    urls = place_job(tmp_path, sections, train={"partition": "vertical"}, predict={"mac": mac})
    for name in NAMES:
        path = tmp_path / f"{name}.toml"
        path.write_text(path.read_text() + 'token_file = "token"\n')
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    rows = [{"id": one, **record} for one, record in zip(ids, records(frames[0]), strict=True)]
    url, named = urls["party_a"], {"Authorization": f"Bearer {TOKEN}"}
    with running(tmp_path, *ROLES) as processes, httpx.Client(timeout=WAIT) as client:
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
        assert ask(client, url, rows[:1]).status_code == 401
        assert client.get(f"{url}/metrics").status_code == 401
        client.headers = named
        for some in (slice(0, 1), slice(3, 40)):
            np.testing.assert_allclose(ask(client, url, rows[some]).json()["predictions"], truth[some], atol=1e-3)
        strange = {**rows[0], "id": "nobody"}
        answer = ask(client, url, [rows[1], strange, strange])
        assert answer.status_code == 404
        assert answer.json()["detail"] == "party_b has no row with id 'nobody' and 1 more"
        assert ask(client, url, [strange]).status_code == 404
        np.testing.assert_allclose(ask(client, url, rows).json()["predictions"], truth, atol=1e-3)
        assert ask(client, urls["party_b"], rows[:1]).status_code == 404
        processes["party_b"].send_signal(signal.SIGTERM)
        assert "nobody" not in processes["party_b"].communicate(timeout=WAIT)[1]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('address = "0.0.0.0:8080"', "serve.address must be on loopback"),
        ('address = "8080"', "must be host:port"),
        ("largest_batch = 100", "largest_batch must be a power of two, got 100"),
        ('key = "x"', "certificate and key must be set together"),
        ("queue_rows = 5", "queue_rows must be at least request_rows"),
        ('token_file = "short"', "must have at least 16 characters, got 3"),
        ('token_file = "none"', "cannot be read"),
        ('token_file = "open"', "a token must be readable only by its owner, got mode 0644: chmod 600"),
        ('token_file = "letters"', "letters: the token must be printable ASCII"),
        ('[serve.clients.crm]\ntoken_file = "short"', "serve.clients.crm.token_file: "),
        ('[serve.clients.shared]\ntoken_file = "long"', "clients must not be named shared"),
        (
            'token_file = "long"\n[serve.clients.crm]\ntoken_file = "long"',
            "every client must have a token of its own",
        ),
    ],
)
def test_settings_that_are_refused(by_rows, tmp_path, lines, sentence):
    write_job(tmp_path, by_rows[0], serve={})
    for name, text in {"short": "abc", "open": TOKEN, "letters": "schl\u00fcssel von sharewood", "long": TOKEN}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    path = tmp_path / "party_a.toml"
    path.write_text(path.read_text() + lines)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        HostsConfig.read(path).serve.known()


def test_halves_of_the_other_party_are_refused(by_rows, tmp_path):
    write_job(tmp_path, {"party_a": by_rows[0]["party_b"], "party_b": {}})
    with pytest.raises(DataError, match="must be the half of party_a"):
        Service(HostsConfig.read(tmp_path / "party_a.toml"), "party_a")


def test_an_audit_is_refused(by_rows, tmp_path):
    write_job(tmp_path, by_rows[0])
    path = tmp_path / "party_a.toml"
    path.write_text("audit = true\n" + path.read_text())
    with pytest.raises(ConfigError, match="audit must be false for sharewood serve"):
        Service(HostsConfig.read(path), "party_a")
