"""Show a running training on a page: rounds of trees, metric, seconds by stage, bytes; on loopback only.

The page is at `/`; its data is at `/events`, as server-sent events in JSON, one after each round of trees. They contain
only public facts of the training, and what was revealed of held-out rows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Condition, Thread
from time import monotonic
from typing import Any

from mpc.errors import ConfigError
from protocols.runtime.loopback import NOT_THIS_MACHINE, names_this_machine
from secure_tree.public.objectives import RISING
from sharewood.report.progress import Watch

log = logging.getLogger("sharewood")
_HOST = "127.0.0.1"
_SIGN_OF_LIFE = 10.0
# Seconds that a browser has to fetch the last event.
_LAST = 1.0


class _Feed:
    """The latest state and its number."""

    def __init__(self, about: dict[str, str]) -> None:
        self._changed = Condition()
        self._number = 0
        self._began, self._about = monotonic(), about
        self._text = self._written({"done": 0, "ended": False})
        self._over = False

    def put(self, state: dict[str, Any]) -> None:
        with self._changed:
            self._number, self._text = self._number + 1, self._written(state)
            self._changed.notify_all()

    def _written(self, state: dict[str, Any]) -> str:
        """Return a state with what the training is about, the seconds since its begin, and the best round."""
        if curve := state.get("curve"):
            best = (max if state["metric"] in RISING else min)(curve, key=lambda point: point[1])
            state = state | {"best": list(best)}
        return json.dumps(state | {"about": self._about, "seconds": monotonic() - self._began})

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def states(self) -> Iterator[str | None]:
        """Yield the latest state and every later one until the end; None if nothing has changed for a while."""
        seen = -1
        while True:
            with self._changed:
                if seen == self._number and not self._over:
                    self._changed.wait(_SIGN_OF_LIFE)
                text = self._text if seen != self._number else None
                seen, over = self._number, self._over
            if text is not None or not over:
                yield text
            if over:
                return


class _Handler(BaseHTTPRequestHandler):
    """Handler of one browser's requests."""

    server: _Server

    def do_GET(self) -> None:
        if not names_this_machine(self.headers.get("Host", "")):
            self.send_error(421, NOT_THIS_MACHINE)
        elif self.path == "/":
            self._begin("text/html; charset=utf-8")
            self.wfile.write(files("sharewood.page").joinpath("live.html").read_bytes())
        elif self.path == "/events":
            self._begin("text/event-stream")
            with suppress(OSError):  # the browser has disconnected
                for state in self.server.feed.states():
                    self.wfile.write(b": still here\n\n" if state is None else f"data: {state}\n\n".encode())
        else:
            self.send_error(404)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing of single requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self, port: int, about: dict[str, str]) -> None:
        self.feed = _Feed(about)
        super().__init__((_HOST, port), _Handler)


@contextmanager
def watching(port: int | None, about: dict[str, str] | None = None) -> Iterator[Watch | None]:
    """Serve the page in the block, and yield a callable that receives the progress. Raises ConfigError.

    `about` names the party, the other one and the files of the job, as the page shows them.
    """
    if port is None:
        yield None
        return
    try:
        server = _Server(port, about or {})
    except OSError as error:
        raise ConfigError(f"--live: cannot listen at {_HOST}:{port} ({error.strerror})") from None
    thread = Thread(target=server.serve_forever, name="live", daemon=True)
    thread.start()
    log.info("the training is shown at http://%s:%d", _HOST, port)
    try:
        yield server.feed.put
    finally:
        server.feed.end()
        server.shutdown()
        thread.join(_LAST)
        server.server_close()
