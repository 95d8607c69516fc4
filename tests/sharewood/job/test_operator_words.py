"""What operators read: failures in their words, logs with zones or in JSON, metrics as they come, a bar."""

import io
import json
import logging
import re
import subprocess
import sys
import threading
from datetime import datetime
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest

from mpc.errors import PeerFailure, PeerTimeout, PeerVanished
from mpc.kernels import compiled
from protocols.runtime.dealer_host import run_dealer
from protocols.testing.two_parties import run_both
from protocols.transport.tcp import listen
from secure_tree.public.config import TrainConfig
from sharewood import logs
from sharewood.commands.setup.check import findings
from sharewood.commands.setup.init import write_first_files
from sharewood.commands.setup.keygen import keygen
from sharewood.job.config import WRITTEN, HostsConfig
from sharewood.job.failures import told_plainly
from sharewood.job.work import fit
from sharewood.logs import LogFormat, LogLevel, log_to_stderr, say, say_document
from sharewood.report.progress import Progress
from sharewood.tables.tables import TableRows
from tests.ports import free_port
from tests.sharewood.commands.hosting import COMMAND, ROLES


def small_rows():
    rng = np.random.default_rng(6)
    return [TableRows(pd.DataFrame({"x": rng.normal(size=30)}), np.tile([0.0, 1.0], 15)) for _ in (0, 1)]


PARAMETERS = {"n_estimators": 4, "max_depth": 1, "max_bin": 4, "missing": "none", "eval_epochs": 2}


@pytest.mark.parametrize("kind", [PeerVanished, PeerTimeout])
def test_a_failure_names_what_was_done_and_the_step_is_for_debugging(caplog, kind):
    caplog.set_level("DEBUG", "sharewood")
    with (
        pytest.raises(kind) as error,
        told_plainly(lambda: "a model was trained"),
        told_plainly(lambda: "trees were grown"),
    ):
        failure = kind.at("party_b closed the connection", "prefix_and.prefix_and", "Connection reset by peer")
        failure.args = (f"round 1538: {failure}",)
        raise failure
    assert str(error.value) == "party_b closed the connection while trees were grown"
    [record] = caplog.records
    assert record.levelname == "DEBUG" and "round 1538: party_b closed the connection in prefix_and" in record.message


def test_other_failures_keep_their_sentence():
    with pytest.raises(PeerFailure, match=r"^the dealer paired others$"), told_plainly(lambda: "x"):
        raise PeerFailure("the dealer paired others")


def test_a_peer_that_leaves_a_training_is_told_with_the_round():
    rows, grown = small_rows(), []

    def job(party):
        def watch(state):
            grown.append(state["done"])
            if party.rank and state["done"] == 2:
                raise RuntimeError("gone")

        fit(party, PARAMETERS, rows[party.rank], watch=watch)

    failures = []

    def kept(party):
        try:
            job(party)
        except PeerFailure as failure:
            failures.append(str(failure))
            raise

    with pytest.raises(RuntimeError):
        run_both(kept)
    assert failures == ["party 1 closed the connection while trees were grown (2 of 4 rounds were complete)"] or (
        re.fullmatch(r".* closed the connection while trees were grown \(2 of 4 rounds were complete\)", failures[0])
    )


def test_metrics_are_logged_as_they_come(caplog):
    caplog.set_level("INFO", "sharewood")
    rows, order = small_rows(), []

    def watch(state):
        order.append([r.getMessage() for r in caplog.records if "on held-out rows" in r.getMessage()])

    def job(party):
        fit(party, PARAMETERS | {"test_size": 0.4}, rows[party.rank], watch=None if party.rank else watch)

    run_both(job)
    # Before the third tree, the metrics after the second one are in the log.
    assert not order[0] and re.match(r"2 of 4 rounds of trees: logloss 0\.\d+ on held-out rows", order[2][0])
    lines = [r.getMessage() for r in caplog.records if "on held-out rows" in r.getMessage()]
    assert len(lines) == 4 and sum(line.startswith("4 of 4") for line in lines) == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch, caplog, terminal):
    caplog.set_level("INFO", "sharewood")
    monkeypatch.setattr(logs, "_form", LogFormat.text)
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    screen = sys.stderr
    party = SimpleNamespace(
        meter=SimpleNamespace(total=SimpleNamespace(rounds=7)),
        link=SimpleNamespace(wire_sent=1, wire_received=2),
        randomness=SimpleNamespace(dealt=5, has_dealer=True),
        parts={},
        workers=None,
    )
    with Progress(party, TrainConfig.of(n_estimators=3)) as shown:
        for number in range(3):
            shown(number)
        shown.evaluated(3, {"logloss": 0.25})
    lines = [record.getMessage() for record in caplog.records]
    assert lines[-1] == "3 of 3 rounds of trees: logloss 0.25 on held-out rows"
    assert ("rounds of trees" in screen.getvalue()) == terminal and len(lines) == (1 if terminal else 4)
    assert sys.stderr is screen, "the bar gives the terminal back"


def test_times_carry_their_zone(tmp_path):
    record = logging.LogRecord("sharewood", logging.INFO, "", 1, "hello", (), None)
    line = logs._Text("%(asctime)s %(message)s").format(record)
    assert datetime.fromisoformat(line.split()[0]).tzinfo is not None and line.endswith(" hello")


def test_results_and_failures_are_json_as_well(tmp_path):
    command = [*COMMAND, "--log-format", "json", "keygen", "--out", tmp_path / "k", "--names", "a"]
    made, again = (subprocess.run(command, capture_output=True, text=True) for _ in range(2))
    assert "valid for 365 days" in json.loads(made.stdout)["message"]
    entry = json.loads(again.stderr)
    assert again.returncode == 2 and entry["level"] == "error" and "already has certificates" in entry["message"]


def test_a_result_is_a_line_or_a_document(monkeypatch, capsys):
    say("done")
    monkeypatch.setattr(logs, "_form", LogFormat.json)
    say("done")
    say_document({"auc": 0.5})
    text, line, document = capsys.readouterr().out.splitlines()
    assert text == "done" and json.loads(line)["message"] == "done" and json.loads(document)["result"] == {"auc": 0.5}


def test_logging_keeps_its_levels(monkeypatch):
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(logs, "_form", LogFormat.text)
    log_to_stderr(LogLevel.info, LogFormat.json)
    assert logs.in_json() and not logs.on_terminal()


def test_the_first_compilation_is_announced_once(caplog, monkeypatch):
    monkeypatch.setattr(compiled, "_announced", bytearray(1))
    listener = compiled._Announcement()
    kernel = SimpleNamespace(py_func=SimpleNamespace(__module__="mpc.kernels.aes"))
    other = SimpleNamespace(py_func=SimpleNamespace(__module__="users.kernels"))
    listener.on_start(SimpleNamespace(data={"dispatcher": other}))
    assert not caplog.records
    for _ in range(2):
        listener.on_start(SimpleNamespace(data={"dispatcher": kernel}))
    assert [r.getMessage() for r in caplog.records] == ["compiling kernels, once on this machine: about a minute"]


def test_what_is_compiled_is_announced(caplog, monkeypatch):
    monkeypatch.setattr(compiled, "_announced", bytearray(1))

    @numba.njit
    def kernel(x):
        return x + 1

    kernel.py_func.__module__ = "mpc.kernels.new"
    assert kernel(1) == 2 and kernel(2) == 3 and len(caplog.records) == 1


@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_init_lets_both_parties_share_a_folder(tmp_path, offline):
    files = write_first_files(tmp_path, "127.0.0.1:1", "127.0.0.1:2", offline, "horizontal")
    seen = {}
    for name in ROLES[:2]:
        text = files[name].read_text()
        # Every path of the party, also in comments, and the service's address.
        found = re.findall(r'(?m)^#? ?(\w+) = "([^"]+)"', text)
        own = {key: value for key, value in found if key in (*WRITTEN, "columns", "train_data", "predict_data")}
        assert {"checkpoints", "revealed", "model", "predictions"} <= set(own)
        assert all(name in value for value in own.values()), own
        seen[name] = HostsConfig.read(files[name]).serve.address
    assert seen["party_a"] != seen["party_b"]


def test_a_dealer_that_is_checked_says_so(tmp_path, caplog):
    caplog.set_level("INFO", "sharewood")
    keygen(tmp_path / "keys", ROLES[0], list(ROLES[1:]))
    port = free_port()
    lines = ['tls = "keys"', "[dealer]", f'address = "127.0.0.1:{port}"', "[parties.party_b]", "[parties.party_a]"]
    (tmp_path / "a.toml").write_text("\n".join([*lines, f'address = "127.0.0.1:{free_port()}"']))
    config = HostsConfig.read(tmp_path / "a.toml")
    with listen(("127.0.0.1", port), config.credentials("dealer")) as listener:
        dealer = threading.Thread(target=_until_idle, args=(listener,))
        dealer.start()
        found = {f.what: f for f in findings(config, "party_a", 2.0)}
        dealer.join(20)
    assert "listens, and its certificate holds" in found["dealer"].text
    said = [record.getMessage() for record in caplog.records]
    assert "party_a checked this host" in said
    assert not any("turned away" in line or "sent party_a away" in line for line in said)
    found = {f.what: f for f in findings(config, "party_a", 2.0)}
    assert "answers, and nothing listens there yet" in found["dealer"].text


def _until_idle(listener):
    try:
        run_dealer(listener, ROLES[:2], idle=1.0)
    except PeerTimeout:
        return
