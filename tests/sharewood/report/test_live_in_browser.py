"""The page of a training in a real browser: headless Chromium, if it is installed."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from sharewood.report import live
from tests.ports import free_port

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
STATE = {
    "done": 2,
    "rounds": 5,
    "ended": False,
    "seconds_left": 3.0,
    "bytes": 2_500_000,
    "metric": "logloss",
    "curve": [[1, 0.625], [2, 0.5]],
    "stages": {"histograms": {"seconds": 1.5, "rounds": 40, "bytes": 2_000_000}},
}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def document(port, profile):
    """Return the page in the browser once no request is open and 20 virtual seconds have passed."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=20000"]
    command = [CHROMIUM, *flags, "--dump-dom", f"http://127.0.0.1:{port}/"]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout


def test_a_training_that_has_ended(tmp_path):
    port = free_port()
    about = {"party": "a<b>", "other": "b", "data": "x.csv"}
    with live.watching(port, about) as watch:
        watch({**STATE, "done": 5, "ended": True})
        page = document(port, tmp_path)
    assert re.search("The training has ended after 0 min [0-9]{2} s; 2.5 MB with the other party.</p>", page)
    assert '<span id="party"> at a&lt;b&gt;, with b</span>' in page and '<p id="files">data: x.csv</p>' in page
    assert "best: 0.50000 after 2" in page
    assert '<p id="lost" hidden="">' in page
    assert "<td>histograms</td><td>1.50</td><td>40</td><td>2.00</td>" in page
    assert "logloss on held-out rows: 0.50000 after 2 rounds of trees" in page and 'points="20,5 40,95"' in page
    assert '<span id="high">0.6250</span><span id="low">0.5000</span>' in page and '<span id="rounds">5</span>' in page


def test_a_training_whose_host_goes_away(tmp_path, monkeypatch):
    """The page reports the lost connection beside its last state."""
    port, asked, original = free_port(), Event(), live._Feed.states

    def states(feed):
        asked.set()
        return original(feed)

    monkeypatch.setattr(live._Feed, "states", states)
    with ThreadPoolExecutor(1) as pool:
        with live.watching(port) as watch:
            watch(STATE)
            reading = pool.submit(document, port, tmp_path)
            assert asked.wait(100)
        page = reading.result()
    assert re.search("2 of 5 rounds of trees in 0 min [0-9]{2} s, about 3 s left; 2.5 MB with the other party.", page)
    assert '<p id="lost">There is no connection to the training' in page
