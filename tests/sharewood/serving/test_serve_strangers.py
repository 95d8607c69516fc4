"""Who asks a service without its token, or too slowly, takes up none of its memory, and no place for long."""

import asyncio
import contextlib
import json
import re
import ssl

import pytest
import uvicorn
from fastapi.testclient import TestClient
from uvicorn.server import ServerState

from mpc.errors import ConfigError
from protocols.transport.certificates import make_credentials
from sharewood.job.config import HostsConfig
from sharewood.job.sections import SHARED, Client, Serve
from sharewood.serving import connections, http
from sharewood.serving.clients import Clients, OverQuota
from sharewood.serving.service import Service
from tests.sharewood.commands.hosting import write_job
from tests.sharewood.serving.test_serve import TOKEN, by_rows

__all__ = ["by_rows"]


@pytest.fixture
def service(by_rows, tmp_path):
    write_job(tmp_path, by_rows[0])
    path = tmp_path / "party_a.toml"
    path.write_text(path.read_text() + "[serve]\nanswer_within = 0.2\n")
    return Service(HostsConfig.read(path), "party_a")


def asked(service, path, receive, method="POST", **headers):
    """The status of a request without a body so far; `receive` is asked for what comes of the body."""
    said = []

    async def send(message):
        said.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "server": ("x", 80), "client": ("y", 1),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(http.application(service, [Client(SHARED, TOKEN)])(scope, receive, send))
    return said[0]["status"]


@pytest.mark.parametrize("host", ["localhost", "localhost/health?"])
@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}])
def test_without_the_token_no_body_is_read(service, given, host):
    async def receive():
        raise AssertionError("the body was read")

    assert asked(service, "/v1/predict", receive, host=host, content_length="9", **given) == 401


def test_strangers_are_traced_but_not_as_they_ask(service, exported):
    asked(service, "/v1/predict", None, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    (made,) = exported()
    assert dict(made.attributes) == {"client": "stranger", "path": "/v1/predict", "status": 401, "rows": 0}
    assert made.parent is None


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json", "/docs", "/metrics", "/elsewhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
@pytest.mark.parametrize("given", [{}, {"authorization": f"Bearer {TOKEN}"}], ids=["stranger", "client"])
def test_only_a_prediction_has_a_body_that_is_read(service, path, method, given):
    async def receive():
        raise AssertionError("the body was read")

    status = asked(service, path, receive, method, host="localhost", content_length="15900001", **given)
    assert status in (
        (200, 503, 404) if method == "GET" and (given or path in ("/health", "/ready")) else (401, 404, 405)
    )


def test_large_bodies_together_are_bounded(service):
    """Each is within the bound of a request, but all of them at once would take the memory."""

    async def receive():
        await asyncio.sleep(60)

    application = http.application(service, [Client(SHARED, TOKEN)])
    most = service.settings.request_bytes
    said = []

    async def send(message):
        said.append(message.get("status"))

    async def all_at_once():
        headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-length": str(most)}
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/predict", "raw_path": b"/v1/predict",
            "query_string": b"", "root_path": "", "scheme": "http", "server": ("x", 80), "client": ("y", 1),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        await asyncio.gather(*[application(dict(scope), receive, send) for _ in range(20)])

    asyncio.run(all_at_once())
    assert said.count(503) == 4 and said.count(408) == 16


def test_a_body_that_does_not_come_is_refused(service):
    async def receive():
        await asyncio.sleep(60)

    named = {"host": "localhost", "authorization": f"bearer {TOKEN}"}
    assert asked(service, "/v1/predict", receive, content_length="9", **named) == 408


@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost: "], ids=["nothing", "half a head"])
@pytest.mark.parametrize("earlier", [False, True], ids=["at first", "after a request"])
def test_a_connection_without_a_request_is_closed(monkeypatch, first, earlier):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def drip():
        async with listening(answer) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(whole + first if earlier else first)
            if earlier:
                await reader.readuntil(b"ok")
            while not reader.at_eof():
                if first:
                    writer.write(b"x")
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(drip(), 4))


@contextlib.asynccontextmanager
async def listening(answer, tls=None):
    """Listen as a service does, with an application that needs no model; yield the address."""
    config = uvicorn.Config(answer, http=connections.protocol(tls), log_config=None, lifespan="off", ws="none")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()


async def slow_to_answer(scope, receive, send):
    if scope["path"] == "/slow":
        await asyncio.sleep(2)
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


HEAD = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
KINDS = {"silent": b"", "half a head": HEAD[:20], "no body": HEAD, "half a body": HEAD + b"x" * 50}


async def ask_for(address, path="/", tls=None):
    reader, writer = await asyncio.open_connection(*address, ssl=tls, server_hostname="localhost" if tls else None)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("sent", KINDS.values(), ids=KINDS)
def test_idle_and_slow_connections_do_not_keep_others_out(monkeypatch, sent):
    monkeypatch.setattr(connections, "MOST", 8)

    async def crowd():
        async with listening(slow_to_answer) as address:
            others = [await asyncio.open_connection(*address) for _ in range(8)]
            for _, writer in others:
                writer.write(sent)
            await asyncio.sleep(0.05)
            for _ in range(3):
                assert (await ask_for(address)).startswith(b"HTTP/1.1 200")
            assert await asyncio.wait_for(others[0][0].read(), 1) == b""  # the oldest has made room
            for _, writer in others:
                writer.close()

    asyncio.run(asyncio.wait_for(crowd(), 10))


def test_a_service_whose_places_are_all_at_work_says_so(monkeypatch):
    monkeypatch.setattr(connections, "MOST", 8)

    async def crowd():
        async with listening(slow_to_answer) as address:
            at_work = [asyncio.create_task(ask_for(address, "/slow")) for _ in range(8)]
            await asyncio.sleep(1)
            head, _, body = (await ask_for(address)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 2" in head
            assert "connections of this service are in use" in json.loads(body)["detail"]
            assert all(each.startswith(b"HTTP/1.1 200") for each in await asyncio.gather(*at_work))

    asyncio.run(asyncio.wait_for(crowd(), 10))


def test_clients_with_a_request_each_are_all_answered():
    """As many as there are places, each with one request at a time on a connection that it keeps."""
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def client(address):
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(4):
            writer.write(whole)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()

    async def crowd():
        async with listening(slow_to_answer) as address:
            await asyncio.gather(*[client(address) for _ in range(250)])

    asyncio.run(asyncio.wait_for(crowd(), 60))


def contexts(folder):
    """Return the contexts of a server with a certificate, and of a client that trusts it."""
    credentials = make_credentials(["localhost"])["localhost"]
    credentials.save(folder, "localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "localhost.crt", folder / "localhost.key")
    return server, ssl.create_default_context(cadata=credentials.authority.decode())


def test_a_key_that_others_can_read_is_refused(tmp_path):
    contexts(tmp_path)
    (tmp_path / "localhost.key").chmod(0o644)
    settings = Serve(certificate=tmp_path / "localhost.crt", key=tmp_path / "localhost.key")
    with pytest.raises(ConfigError, match="private key"):
        http._tls(settings)


@pytest.mark.parametrize("encrypted", [False, True])
def test_clients_that_do_not_read_keep_nobody_waiting(tmp_path, caplog, encrypted):
    server, client = contexts(tmp_path) if encrypted else (None, None)

    async def long_answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": scope["path"] == "/long"})
            if scope["path"] != "/long":
                return

    async def crowd():
        async with listening(long_answer, server) as address:
            named = {"ssl": client, "server_hostname": "localhost"} if encrypted else {}
            deaf = [await asyncio.open_connection(*address, limit=1, **named) for _ in range(5)]
            for _, writer in deaf:
                writer.write(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.sleep(0.2)
            for _ in range(10):
                assert (await ask_for(address, tls=client)).startswith(b"HTTP/1.1 200")
            for _, writer in deaf:
                writer.transport.abort()
            await asyncio.sleep(0.2)

    with caplog.at_level("INFO"):
        asyncio.run(asyncio.wait_for(crowd(), 20))
    assert "Exception in ASGI" not in caplog.text and "handler is closed" not in caplog.text


def test_a_head_without_end_is_cut_off():
    async def endless():
        async with listening(slow_to_answer) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000)
            try:
                answer = await asyncio.wait_for(reader.read(), 5)
            except ConnectionResetError:
                answer = b""
            assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")

    asyncio.run(endless())


def test_a_connection_that_is_silent_before_tls_counts_and_ends(monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "MOST", 8)
    server, client = contexts(tmp_path)

    async def crowd():
        async with listening(slow_to_answer, server) as address:
            others = [await asyncio.open_connection(*address) for _ in range(8)]
            for _ in range(2):
                assert (await ask_for(address, tls=client)).startswith(b"HTTP/1.1 200")
            assert await asyncio.wait_for(others[0][0].read(), 1) == b""
            for _, writer in others:
                writer.close()
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
        async with listening(slow_to_answer, server) as address:
            reader, writer = await asyncio.open_connection(*address)
            assert await asyncio.wait_for(reader.read(), 3) == b""
            writer.close()

    asyncio.run(asyncio.wait_for(crowd(), 20))


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:8080", True), ("127.0.0.1:8080", True), ("[::1]:8080", True), ("localhost", True),
        ("attacker.example:8080", False), ("localhost.attacker.example", False), ("127.0.0.1.attacker.example", False),
        ("", False), ("10.0.0.1:8080", False), ("localhost:8080@attacker.example", False), ("localhost/x", False),
    ],
)  # fmt: skip
def test_without_tokens_only_names_of_this_machine_are_answered(service, host, known):
    client = TestClient(http.application(service, None), base_url="http://localhost")
    assert client.get("/health", headers={"Host": host}).status_code == (200 if known else 421)
    trusted = TestClient(http.application(service, [Client(SHARED, TOKEN)]), base_url="http://localhost")
    assert trusted.get("/health", headers={"Host": host}).status_code == 200


def test_what_strangers_see(service, caplog):
    """Neither features of the model nor names of other hosts; who asks is in the log, and nothing of the data is."""
    service._waits("party_b at 192.0.2.7 has left")
    named = [Client("crm", TOKEN, rows_per_minute=3), Client("web", "another token of 1")]
    client = TestClient(http.application(service, named), base_url="http://localhost")
    own = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/ready").json() == {"detail": "this service makes no predictions now"}
    assert "party_b at 192.0.2.7 has left" in client.get("/ready", headers=own).json()["detail"]
    for path in ("/openapi.json", "/docs", "/metrics", "/v1/predict"):
        assert client.get(path).status_code == 401
    assert "b b" in client.get("/openapi.json", headers=own).text
    assert client.get("/v1/predict/", headers=own, follow_redirects=False).status_code == 404

    row = {"a": 40.25, "b b": 1, "c": 2}
    with caplog.at_level("INFO", "sharewood.access"):
        answers = [client.post("/v1/predict", json={"rows": [row] * n}, headers=own) for n in (2, 2, 1)]
        client.post("/v1/predict", json={"rows": [row]}, headers={"Authorization": "Bearer wrong"})
    assert [answer.status_code for answer in answers] == [503, 429, 503]
    assert "crm may ask for 3 rows per minute, of which 1 are left: this request has 2" in answers[1].json()["detail"]
    assert 0 < int(answers[1].headers["Retry-After"]) <= 60
    lines = [record.getMessage() for record in caplog.records if record.name == "sharewood.access"]
    shape = r"client=(\w+) address=testclient method=POST path=/v1/predict rows=(\d) status=(\d+) ms=\d+"
    found = [re.fullmatch(shape, line).groups() for line in lines]
    assert found == [("crm", "2", "503"), ("crm", "2", "429"), ("crm", "1", "503"), ("stranger", "0", "401")]
    counted = client.get("/metrics", headers=own).text
    assert 'sharewood_predictions_total{client="crm",status="503"} 2.0' in counted
    assert 'sharewood_predictions_total{client="stranger",status="401"} 2.0' in counted


def test_the_last_monitoring_is_shown_and_never_a_new_one(service, tmp_path):
    path = tmp_path / "monitored.json"
    section = service.config.party(service.name).model_copy(update={"monitored": path})
    service.config = service.config.model_copy(update={"parties": {**service.config.parties, service.name: section}})
    client = TestClient(http.application(service, [Client(SHARED, TOKEN)]), base_url="http://localhost")
    own = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/v1/monitor").status_code == 401
    answer = client.get("/v1/monitor", headers=own)
    assert answer.status_code == 404 and "run sharewood monitor" in answer.json()["detail"]
    for psi in (0.01, 0.3):
        path.write_text(f'{{"statistics": {{"scores": {psi}}}}}')
        assert client.get("/v1/monitor", headers=own).json()["statistics"] == {"scores": psi}
    assert service.queued == 0


@pytest.mark.parametrize("value", [True, "1.5", [1], {}, "NaN"])
def test_numbers_are_numbers(service, value):
    client = TestClient(http.application(service, None), base_url="http://localhost")
    answer = client.post("/v1/predict", json={"rows": [{"a": 1, "b b": value, "c": 2}]})
    assert answer.status_code == 422 and "b b" in answer.json()["detail"]


def test_a_quota_begins_anew_with_each_period():
    clock = [0.0]
    clients = Clients(None, lambda: clock[0])
    one, other = Client("one", "", rows_per_minute=5, rows_per_day=8), Client("other", "", rows_per_minute=5)
    clients.charge(one, 5)
    clients.charge(other, 5)
    with pytest.raises(OverQuota, match=r"5 rows per minute, of which 0 are left: this request has 1; .* in 60 s"):
        clients.charge(one, 1)
    clock[0] = 60.0
    clients.charge(one, 3)
    with pytest.raises(OverQuota, match="8 rows per day, of which 0 are left"):
        clients.charge(one, 1)
    clients.charge(other, 5)
    clock[0] = 86_400.0
    clients.charge(one, 5)
