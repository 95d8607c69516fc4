"""The page of a running training, as an HTTP client reads it."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError
from sharewood.commands.hosts import train
from sharewood.report.live import watching
from tests.ports import free_port
from tests.sharewood.commands.hosting import in_threads, write_job

ABOUT = {"party": "party_a", "other": "party_b", "data": "a.csv"}


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(5)
    train = {"n_estimators": 5, "max_depth": 2, "max_bin": 4, "test_size": 0.3, "eval_epochs": 2}
    sections = {f"party_{p}": {"train_data": f"{p}.csv", "model": f"{p}.npz"} for p in "ab"}
    write_job(tmp_path, sections, train=train)
    for p in "ab":
        X = rng.normal(size=(40, 2)).round(3)
        frame = pd.DataFrame(X, columns=["x", "y"]).assign(label=(X[:, 0] > 0).astype(int))
        frame.to_csv(tmp_path / f"{p}.csv", index=False)
    return tmp_path


def events(url, first):
    """Return all states of the stream; `first` is called once it has begun."""
    told = []
    with httpx.stream("GET", f"{url}/events", timeout=60) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
                first()
                first = int
    return told


def test_a_client_follows_a_training(place, monkeypatch):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    original, states = train.fit, []

    def fit(party, *arguments):
        *others, watch, minimum, before, owners = arguments
        return original(party, *others, watch if party.rank == 0 else None, minimum, before, owners)

    monkeypatch.setattr(train, "fit", fit)
    with ThreadPoolExecutor(1) as pool, watching(port, ABOUT) as watch:
        page = httpx.get(url)
        assert page.status_code == 200 and "EventSource" in page.text and "http" not in page.text
        assert httpx.get(url, headers={"Host": "example.org"}).status_code == 421
        assert httpx.get(f"{url}/model").status_code == 404
        begun = []
        reading = pool.submit(events, url, lambda: begun.append(True))
        while not begun:
            assert not reading.done(), reading.result()

        def seen(state):
            states.append(state)
            watch(state)

        report, _ = in_threads(monkeypatch, place, train.train_half, False, None, seen)
    told = reading.result(60)
    seconds = [state.pop("seconds") for state in told]
    assert seconds == sorted(seconds) and all(state.pop("about") == ABOUT for state in told)
    best = [state.pop("best", None) for state in told]
    assert best[-1] == list(min(report.curve, key=lambda point: point[1])), "by log loss"
    assert told[0] == {"done": 0, "ended": False}
    # A slow reader may miss a state, but never the last one, and sees states in order.
    later = json.loads(json.dumps(states))
    places = [later.index(state) for state in told[1:]]
    assert places == sorted(places) and told[-1] == later[-1]
    assert [state["done"] for state in states] == [1, 2, 3, 4, 5, 5]
    assert [len(state["curve"]) for state in states] == [0, 0, 1, 1, 2, 3]
    last = told[-1]
    assert last["ended"] and last["curve"] == [list(point) for point in report.curve] and last["bytes"] > 1e4
    assert set(last["stages"]) == set(report.costs.parts) and last["seconds_left"] == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_port_that_is_taken():
    port = free_port()
    with watching(port), pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{port}"), watching(port):
        pass


def test_nothing_is_served_unasked(monkeypatch):
    monkeypatch.setitem(sys.modules, "http.server", None)
    with watching(None) as watch:
        assert watch is None
