"""The HTTP interface of a service: predictions, health, readiness, metrics, and the page of its schema."""

import asyncio
import logging
import re
import signal
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect

from mpc.errors import ConfigError, DataError
from mpc.host.files import read_private
from mpc.host.spans import span
from protocols.runtime.loopback import NOT_THIS_MACHINE, names_this_machine
from secure_tree.functions.links import probabilities, values
from secure_tree.model.storage import read_json
from sharewood import __version__
from sharewood.client import UNPAIRED, to_text, to_words
from sharewood.job.sections import Client, Serve
from sharewood.serving.clients import Clients, OverQuota
from sharewood.serving.connections import RETRY_AFTER, protocol
from sharewood.serving.jobs import HalfJob, Job, Refused, Unavailable, UnknownIds, Unpaired
from sharewood.serving.schema import Answer, HalfOfMargins, HalfOfRows, Problem, RequestSchema, first_problem
from sharewood.serving.service import Service
from sharewood.tables.columns import ID

log = logging.getLogger("sharewood.access")
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 404, 408, 411, 413, 422, 429, 503)
}
_REFUSED: dict[str, Any] = {"model": Problem}
_PREDICT, _HALF, _MODEL = "/v1/predict", "/v1/predict_half", "/v1/model"
_MONITOR = "/v1/monitor"
_ASKED = (_PREDICT, _HALF)
_PATHS = (*_ASKED, _MODEL, _MONITOR, "/health", "/ready", "/metrics", "/docs", "/openapi.json")
# Paths that a stranger may ask; what they say to one is short.
_OPEN = ("/health", "/ready")
_JSON = re.compile(r"application/([\w.-]+\+)?json(\s*;.*)?", re.I)
# Bytes of requests that are read at the same time, in requests of the largest size.
_READ_AT_ONCE = 16


def application(service: Service, known: Sequence[Client] | None) -> FastAPI:
    """Return the HTTP application of a service. If its clients have tokens, they send `Authorization: Bearer TOKEN`."""
    columns, settings = service.config.columns(service.name), service.settings
    bearer = HTTPBearer(auto_error=False)
    clients, bodies = Clients(known), _Bodies(settings.request_bytes, settings.answer_within)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(title=f"Sharewood at {service.name}", version=__version__, lifespan=running, redirect_slashes=False)

    @app.middleware("http")
    async def logged(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        began, path = time.perf_counter(), request.scope["path"]
        asks = request.state
        asks.client, asks.rows = clients.who(request.headers.get("authorization", "")), 0
        who, shown = asks.client.name if asks.client else "stranger", path if path in _PATHS else "other"
        # A stranger has no say in what is traced.
        with span("request", request.headers if asks.client else None, client=who, path=shown) as described:
            answer = await admitted(request, path, go_on)
            described(status=answer.status_code, rows=asks.rows)
        service.measures.requests.labels(answer.status_code).inc()
        if path in _ASKED:
            service.measures.predictions.labels(who, answer.status_code).inc()
        log.log(
            logging.DEBUG if path in _OPEN else logging.INFO,
            "client=%s address=%s method=%s path=%s rows=%d status=%d ms=%.0f",
            who,
            request.client.host if request.client else "-",
            request.method,
            shown,
            asks.rows,
            answer.status_code,
            1000 * (time.perf_counter() - began),
        )
        return answer

    async def admitted(request: Request, path: str, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        """Check what can be checked before anything of the body is read."""
        # `request.url` would follow the client's header Host.
        if not clients.have_tokens and not names_this_machine(request.headers.get("host", "")):
            return _problem(421, NOT_THIS_MACHINE)
        if path not in _OPEN and request.state.client is None:
            return _problem(401, "the header Authorization must be Bearer and a token of this service")
        if path not in _ASKED or request.method != "POST":
            return await go_on(request)  # which reads no body
        async with bodies.read(request) as problem:
            return problem or await go_on(request)

    @app.exception_handler(RequestValidationError)
    async def refused(_: Request, error: RequestValidationError) -> Response:
        return _problem(422, first_problem(error.errors(), within=1))

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", responses={503: {"model": Problem}})
    async def ready(request: Request) -> Response:
        """Whether the service can predict; if not, clients learn which host it waits for, and for how long."""
        if waits := service.waits:
            return _problem(503, waits if request.state.client else "this service makes no predictions now")
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", dependencies=[Depends(bearer)])
    async def metrics() -> Response:
        """Counters for Prometheus."""
        service.measures.queued.set(service.queued)
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4")

    @app.get(_MONITOR, dependencies=[Depends(bearer)], responses={404: _REFUSED})
    async def monitored() -> dict[str, Any]:
        """The statistics that `sharewood monitor` has revealed last; never new ones."""
        path = service.config.party(service.name).monitored
        if path is None or not path.exists():
            raise HTTPException(404, "nothing has been revealed: run sharewood monitor with a file `monitored`")
        return read_json(path, "file of sharewood monitor")

    def charged(request: Request, rows: int) -> None:
        request.state.rows = rows
        try:
            clients.charge(request.state.client, rows)
        except OverQuota as why:
            raise HTTPException(429, str(why), {"Retry-After": str(why.again)}) from None

    def counted(request: Request, began: float) -> None:
        service.measures.seconds.observe(time.perf_counter() - began)
        service.measures.rows.labels(request.state.client.name).inc(request.state.rows)

    if refusal := service.refusal:

        @app.post(_PREDICT, dependencies=[Depends(bearer)], status_code=404, description=refusal)
        async def no_rows() -> Problem:
            return Problem(detail=refusal)

    else:
        id_column = (columns.named("id") or ID) if service.by_id or service.served else None
        top = service.config.predict.reasons
        requests = RequestSchema(service.names, columns, service.model.config, id_column, settings.request_rows, top)

        @app.post(
            _PREDICT,
            dependencies=[Depends(bearer)],
            response_model_exclude_none=True,
            responses=_REFUSALS,
            openapi_extra={"requestBody": requests.described},
        )
        async def predict(request: Request) -> Answer:
            """Predictions of the rows, revealed to the requesting party only."""
            began = time.perf_counter()
            # A page of another site can send a request with another type, without the browser asking the service first.
            if not _JSON.fullmatch(request.headers.get("content-type", "")):
                raise HTTPException(422, "the header Content-Type must be application/json")
            try:
                features, ids, each = requests.read(await request.body())
            except DataError as error:
                raise HTTPException(422, str(error)) from None
            charged(request, len(features))
            job = Job(features, ids, each, client=request.state.client.name)
            margins = await _margins(service, job)
            counted(request, began)
            shown, output = _shown(service, margins)
            reasons: Any = [list(of_row) for of_row in job.reasons] if job.top else None
            predictions = shown.tolist()
            return Answer(model=service.model.facts.pairing, output=output, predictions=predictions, reasons=reasons)

    if not settings.halves:
        return app
    offer = service.offer

    @app.get(_MODEL, dependencies=[Depends(bearer)])
    async def model() -> dict[str, Any]:
        """What a client must know to divide rows into halves."""
        return offer.facts()

    @app.post(_HALF, dependencies=[Depends(bearer)], responses={**_REFUSALS, 409: _REFUSED, 504: _REFUSED})
    async def predict_half(body: HalfOfRows, request: Request) -> HalfOfMargins:
        """A half of predictions, for a half of rows; the other service must get the other half under the same id."""
        if body.reasons is not None:
            raise HTTPException(422, "reasons: there are none for halves of rows; ask the party that has the rows")
        began, keys = time.perf_counter(), to_words(body.half, offer.width)
        if keys is None or not 1 <= len(keys) <= offer.most:
            raise HTTPException(
                422, f"half: must have 1 to {offer.most} rows of {offer.width} words of 64 bits, in base64"
            )
        charged(request, len(keys))
        margins = await _margins(service, HalfJob(body.id, keys, client=request.state.client.name))
        counted(request, began)
        return HalfOfMargins(model=offer.model, half=to_text(margins))

    return app


class _Bodies:
    """Reads the bodies of requests: each of bounded size and time, and together of bounded size."""

    def __init__(self, largest: int, within: float) -> None:
        self._largest, self._within, self._held = largest, within, 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[Response | None]:
        """Read a body, which is counted until the end of the block; yield a refusal, or None."""
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            yield _problem(411, "a request must have the header Content-Length")
            return
        size = int(length[:20])
        if size > self._largest:
            yield _problem(413, f"a request must have at most {self._largest} bytes, got {size}")
        elif self._held + size > _READ_AT_ONCE * self._largest:
            yield _problem(503, "this service is reading too many large requests")
        else:
            self._held += size
            try:
                await asyncio.wait_for(request.body(), self._within)
                problem = None
            except (TimeoutError, ClientDisconnect):
                problem = _problem(408, f"the body of a request must come within {self._within:g} s")
            try:
                yield problem
            finally:
                self._held -= size


async def _margins(service: Service, job: Job | HalfJob) -> np.ndarray:
    """Wait for the answer to a job; before, for the other half of a half."""
    within, answer = service.settings.half_within, asyncio.wrap_future(job.margins)
    with _told(service):
        service.ask(job)
        if isinstance(job, HalfJob):
            done, _ = await asyncio.wait([answer], timeout=within)
            if not done:
                service.expire(job)
        return await asyncio.wait_for(answer, service.settings.answer_within)


@contextmanager
def _told(service: Service) -> Iterator[None]:
    """Tell the client why there is no answer to a job."""
    try:
        yield
    except TimeoutError:
        raise _later(f"there was no answer within {service.settings.answer_within:g} s") from None
    except Unavailable as why:
        raise _later(str(why)) from None
    except UnknownIds as why:
        raise HTTPException(404, str(why)) from None
    except Unpaired as why:
        raise HTTPException(UNPAIRED, str(why)) from None
    except Refused as why:
        raise HTTPException(409, str(why)) from None


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


def run(service: Service) -> None:
    """Serve until SIGTERM or SIGINT, which let requests in flight finish. Raises ConfigError."""
    settings = service.settings
    host, port = settings.place
    config = uvicorn.Config(
        application(service, settings.known()),
        host=host,
        port=port,
        http=protocol(_tls(settings)),  # type: ignore[arg-type]  # uvicorn only calls it
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.answer_within) + 1,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # uvicorn handles the signals, and raises them again at the end
    try:
        uvicorn.Server(config).run()
    except SystemExit:
        raise ConfigError(f"serve.address: cannot listen at {settings.address}; the log says why") from None


def _tls(settings: Serve) -> ssl.SSLContext | None:
    """Return the context for HTTPS, if it is configured. Raises ConfigError."""
    if settings.certificate is None or settings.key is None:
        return None
    read_private(settings.key, "private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")
    except (OSError, ValueError) as error:  # among them those of TLS
        raise ConfigError(f"serve: {settings.certificate} and {settings.key} cannot be used ({error})") from None
    return context
