"""The HTTP interface of a service: predictions, health, readiness, metrics, and the page of its schema."""

import asyncio
import hmac
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from mpc.errors import ConfigError, DataError
from secure_tree.links import probabilities, values
from sharewood import __version__
from sharewood.columns import ID
from sharewood.serving.jobs import Job, Unavailable, UnknownIds
from sharewood.serving.schema import Answer, Problem, Requests
from sharewood.serving.service import Service

RETRY_AFTER = 2
# Seconds until whoever connects has sent the head of a request.
HEAD_SECONDS = 10.0
_CONNECTIONS = 256
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 404, 408, 411, 413, 422, 503)
}
_WITHOUT_TOKEN = ("/health", "/ready", "/docs", "/openapi.json")


def application(service: Service, token: str | None) -> FastAPI:
    """Return the HTTP application of a service. If `token` is set, clients send `Authorization: Bearer TOKEN`."""
    columns, settings = service.config.columns(service.name), service.settings
    id_column = (columns.named("id") or ID) if service.by_id else None
    requests = Requests(service.names, columns, service.model.config, id_column, settings.request_rows)
    bearer = HTTPBearer(auto_error=False)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(title=f"Sharewood at {service.name}", version=__version__, lifespan=running)

    @app.middleware("http")
    async def bounded(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        # Before anything of the body is read; `request.url` would follow the client's header Host.
        given = request.headers.get("authorization", "")
        if token and request.scope["path"] not in _WITHOUT_TOKEN and not _names(token, given):
            return _problem(401, "the header Authorization must be Bearer and this service's token")
        if request.method == "POST":
            length = request.headers.get("content-length", "")
            if not length.isdecimal():
                return _problem(411, "a request must have the header Content-Length")
            if int(length) > settings.request_bytes:
                return _problem(413, f"a request must have at most {settings.request_bytes} bytes, got {length}")
            try:
                await asyncio.wait_for(request.body(), settings.answer_within)
            except (TimeoutError, ClientDisconnect):
                return _problem(408, f"the body of a request must come within {settings.answer_within:g} s")
        answer = await go_on(request)
        service.measures.requests.labels(answer.status_code).inc()
        return answer

    @app.exception_handler(RequestValidationError)
    async def refused(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:]))
        return _problem(422, f"{where or 'body'}: {first['msg']}"[:1000])

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", responses={503: {"model": Problem}})
    async def ready() -> Response:
        """Whether the service can predict; if not, which host it waits for, and for how long."""
        waits = service.waits
        return _problem(503, waits) if waits else JSONResponse({"status": "ready"})

    @app.get("/metrics", dependencies=[Depends(bearer)])
    async def metrics() -> Response:
        """Counters for Prometheus."""
        service.measures.queued.set(service.queued)
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4")

    async def predict(body: Any) -> Answer:
        """Predictions of the rows, revealed to the requesting party only."""
        began = time.perf_counter()
        try:
            features, ids = requests.read(body)
        except DataError as error:
            raise HTTPException(422, str(error)) from None
        margins = await _margins(service, Job(features, ids))
        service.measures.seconds.observe(time.perf_counter() - began)
        shown, output = _shown(service, margins)
        return Answer(model=service.model.facts.pairing, output=output, predictions=shown.tolist())

    if service.answers:
        # FastAPI reads the schema of the model from the annotation.
        predict.__annotations__["body"] = requests.schema
        app.post("/v1/predict", dependencies=[Depends(bearer)], response_model=Answer, responses=_REFUSALS)(predict)
    return app


def _names(token: str, header: str) -> bool:
    """Whether a header Authorization has the token."""
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


async def _margins(service: Service, job: Job) -> np.ndarray:
    try:
        service.ask(job)
        return await asyncio.wait_for(asyncio.wrap_future(job.margins), service.settings.answer_within)
    except TimeoutError:
        raise _later(f"there was no answer within {service.settings.answer_within:g} s") from None
    except Unavailable as why:
        raise _later(str(why)) from None
    except UnknownIds as why:
        raise HTTPException(404, str(why)) from None


def _shown(service: Service, margins: np.ndarray) -> tuple[np.ndarray, str]:
    """Convert a margin to the configured output."""
    config = service.model.config
    if not config.logistic:
        return values(config, margins), "value"
    if service.config.predict.output == "margin":
        return margins, "margin"
    each = probabilities(config, margins)
    return each if config.num_class else each[:, 1], "probability"


def _later(why: str) -> HTTPException:
    return HTTPException(503, why, {"Retry-After": str(RETRY_AFTER)})


def _problem(status: int, why: str) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else None
    return JSONResponse({"detail": why}, status, headers)


class _Prompt(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # known at run time
    """A connection that is closed where no head of a request comes within HEAD_SECONDS: an idle one takes a place."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_head()

    def _await_head(self) -> None:
        self.loop.call_later(HEAD_SECONDS, self._look, self.cycle)

    def _look(self, before: object) -> None:
        if self.cycle is before:
            self.transport.close()


def run(service: Service) -> None:
    """Serve until SIGTERM or SIGINT, which let requests in flight finish. Raises ConfigError."""
    settings = service.settings
    host, port = settings.place
    tls: dict[str, Any] = (
        {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.key} if settings.certificate else {}
    )
    config = uvicorn.Config(
        application(service, settings.token()),
        host=host,
        port=port,
        http=_Prompt,
        ws="none",
        log_config=None,
        access_log=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=int(settings.answer_within) + 1,
        **tls,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # uvicorn handles the signals, and raises them again at the end
    try:
        uvicorn.Server(config).run()
    except SystemExit:
        raise ConfigError(f"serve.address: cannot listen at {settings.address}; the log says why") from None
