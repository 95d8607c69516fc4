"""Whatever two services say, a client gets its predictions or one sentence, in time: never a wrong number."""

import base64
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from mpc.errors import SharewoodError
from sharewood.client import Client, to_text
from sharewood.commands.setup.check import of_client
from sharewood.serving.asking import ask_services
from tests.ports import free_port
from tests.sharewood.commands.hosting import complaint

OFFER = {
    "model": "a" * 32, "names": ["u", "v"], "missing": [1], "objective": "binary:logistic", "classes": 1,
    "logistic": True, "counts": False, "unit": 2.0**-20, "most": 4,
}  # fmt: skip
ROWS = np.array([[1.0, 2.0], [3.0, np.nan]])


def sound(path, body):
    """Answer as a service that adds the first words of both halves of a row."""
    if path == "/v1/model":
        return 200, OFFER
    if path == "/ready":
        return 200, {"status": "ready"}
    words = np.frombuffer(base64.b64decode(body["half"]), "<u8").reshape(-1, 3)
    return 200, {"model": OFFER["model"], "half": to_text(words[:, :1])}


@contextlib.contextmanager
def services(folder, *play, timeout=5):
    """Two services that answer as `play(path, body)` says; yield the file of a client, and what each was asked."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            said = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked[self.server].append(self.path)
            status, answer = self.server.play(self.path, json.loads(said) if said else None)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    asked, lines = {}, [f"timeout = {timeout}"]
    for name, one in zip("ab", play, strict=True):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.play, server.daemon_threads, asked[server] = one, True, []
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        lines += [f"[services.{name}]", f'address = "127.0.0.1:{server.server_address[1]}"']
    (folder / "client.toml").write_text("\n".join(lines) + "\n")
    try:
        yield folder / "client.toml", list(asked.values())
    finally:
        for server in asked:
            server.shutdown()
            server.server_close()


def says(where, status, answer):
    return lambda path, body: (status, answer) if path == where else sound(path, body)


def slow(path, body):
    time.sleep(3)
    return sound(path, body)


MODEL, HALF = "/v1/model", "/v1/predict_half"


def test_what_sound_services_answer(tmp_path):
    with services(tmp_path, sound, sound) as (file, _), Client(file) as client:
        assert client.predict_margin(ROWS).shape == (2,) and client.predict_margin(np.tile(ROWS, (5, 1))).shape == (10,)
        assert [finding.what for finding in of_client(file, None, 5.0) if not finding.error] == ["a", "b", "model"]


@pytest.mark.parametrize(
    ("play", "sentence"),
    [
        (says(MODEL, 200, {**OFFER, "model": "b" * 32}), "a and b do not serve the same model: nothing was sent"),
        (says(MODEL, 404, {"detail": "Not Found"}), "does not answer clients who are no party"),
        (says(MODEL, 200, b"[" * 100_000), "b at 127.0.0.1"),
        (says(MODEL, 200, b"\xff"), "b at 127.0.0.1"),
        (says(MODEL, 500, {"detail": ["x"]}), "b: status 500"),
        (says(HALF, 200, {"model": "b" * 32, "half": to_text(np.zeros((2, 1), np.uint64))}), "have a new model"),
        (says(HALF, 200, ["half"]), "have a new model"),
        (says(HALF, 200, {"model": "a" * 32, "half": to_text(np.zeros((1, 1), np.uint64))}), "b: a half must have 1 x"),
        (says(HALF, 200, {"model": "a" * 32, "half": to_text(np.zeros((3, 2), np.uint64))}), "b: a half must have 1 x"),
        (says(HALF, 200, {"model": "a" * 32, "half": ""}), "b: a half must have 1 x 2 words"),
        (says(HALF, 200, {"model": "a" * 32, "half": "?"}), "b: a half must have"),
        (says(HALF, 200, {"model": "a" * 32, "half": 7}), "b: a half must have"),
        (says(HALF, 200, {"model": "a" * 32}), "b: a half must have"),
        (says(HALF, 422, {"detail": "half: must have 1 to 4 rows"}), "b: half: must have 1 to 4 rows"),
        (says(HALF, 302, {}), "b: status 302"),
        (slow, "b at 127.0.0.1:.*: timed out"),
    ],
)
def test_what_a_strange_service_answers(tmp_path, play, sentence):
    with services(tmp_path, sound, play, timeout=1) as (file, _), Client(file) as client:
        began = time.monotonic()
        with pytest.raises(SharewoodError, match=sentence):
            client.predict_proba(ROWS)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "change",
    [
        {"names": 7}, {"missing": [2]}, {"missing": ["x"]}, {"classes": 0}, {"unit": "x"}, {"unit": float("inf")},
        {"objective": "x"}, {"most": 0}, {"more": 1}, {"classes": 1.5}, {"classes": 1 << 80}, {"most": "4"},
        {"most": 2.5}, {"logistic": "no"}, {"model": None},
    ],
    ids=str,
)  # fmt: skip
def test_offers_on_which_both_agree_but_that_none_makes(tmp_path, change):
    strange = says(MODEL, 200, {**OFFER, **change})
    with services(tmp_path, strange, strange) as (file, asked), Client(file) as client:
        with pytest.raises(SharewoodError, match="must say which model they serve, and sent something else"):
            client.predict_proba(ROWS)
        assert asked == [[MODEL]] * 2


def test_a_table_for_a_model_with_equal_names_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("u\n1\n")
    strange = says(MODEL, 200, {**OFFER, "names": ["u", "u"]})
    with services(tmp_path, strange, strange) as (file, asked):
        with pytest.raises(SharewoodError, match="the model has several features 'u'"):
            ask_services(file, tmp_path / "rows.csv", tmp_path / "out.csv")
        assert asked == [[MODEL]] * 2
    assert not (tmp_path / "out.csv").exists()


def test_a_client_hears_of_a_new_model(tmp_path):
    """The first answer is refused, since the model has changed; the next one is that of the new model."""
    now = dict(OFFER)

    def changing(path, body):
        if path == MODEL:
            return 200, dict(now)
        status, answer = sound(path, body)
        return (422, {"detail": "half: must have 1 to 4 rows of 4 words"}) if now != OFFER else (status, answer)

    with services(tmp_path, changing, changing) as (file, asked), Client(file) as client:
        client.predict_proba(ROWS)
        now["model"] = "b" * 32
        with pytest.raises(SharewoodError, match="half: must have 1 to 4 rows of 4 words"):
            client.predict_proba(ROWS)
        with pytest.raises(SharewoodError):
            client.predict_proba(ROWS)
        assert [[path for path in one if path == MODEL] for one in asked] == [[MODEL] * 2] * 2


def test_the_check_of_a_client_whom_nobody_answers(tmp_path, monkeypatch, capsys):
    lines = [f'[services.{name}]\naddress = "127.0.0.1:{free_port()}"\n' for name in "ab"]
    (tmp_path / "client.toml").write_text("".join(lines))
    found = list(of_client(tmp_path / "client.toml", None, 1.0))
    assert [finding.what for finding in found] == ["a", "b"]
    assert all(finding.error.exit_status == 3 and "Connection refused" in finding.text for finding in found)
    (tmp_path / "other.toml").write_text("")
    words = "check", "--config", tmp_path / "other.toml", "--rows", "x.csv"
    assert "--rows needs the file of a client" in complaint(monkeypatch, capsys, *words)
