"""Who asks a service without its token, or too slowly, takes up none of its memory, and no place for long."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from sharewood.hosts_config import HostsConfig
from sharewood.serving import http
from sharewood.serving.service import Service
from tests.sharewood.hosting import write_job
from tests.sharewood.test_serve import TOKEN, by_rows

__all__ = ["by_rows"]


@pytest.fixture
def service(by_rows, tmp_path):
    write_job(tmp_path, by_rows[0])
    path = tmp_path / "party_a.toml"
    path.write_text(path.read_text() + "[serve]\nanswer_within = 0.2\n")
    return Service(HostsConfig.read(path), "party_a")


def asked(service, path, receive, **headers):
    """The status of a request without a body so far; `receive` is asked for what comes of the body."""
    said = []

    async def send(message):
        said.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "server": ("x", 80), "client": ("y", 1),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(http.application(service, TOKEN)(scope, receive, send))
    return said[0]["status"]


@pytest.mark.parametrize("host", ["localhost", "localhost/health?"])
@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}])
def test_without_the_token_no_body_is_read(service, given, host):
    async def receive():
        raise AssertionError("the body was read")

    assert asked(service, "/v1/predict", receive, host=host, content_length="9", **given) == 401


def test_a_body_that_does_not_come_is_refused(service):
    async def receive():
        await asyncio.sleep(60)

    named = {"host": "localhost", "authorization": f"bearer {TOKEN}"}
    assert asked(service, "/v1/predict", receive, content_length="9", **named) == 408


@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost: "], ids=["nothing", "half a head"])
@pytest.mark.parametrize("earlier", [False, True], ids=["at first", "after a request"])
def test_a_connection_without_a_request_is_closed(monkeypatch, first, earlier):
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def drip():
        config = uvicorn.Config(answer, http=http._Prompt, log_config=None, lifespan="off")
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(whole + first if earlier else first)
            if earlier:
                await reader.readuntil(b"ok")
            while not reader.at_eof():
                if first:
                    writer.write(b"x")
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(drip(), 4))
