"""Spans for OpenTelemetry: how long a request, a batch or a stage took, for hosts that trace.

Without `opentelemetry-api`, the extra `tracing`, there are none; without an SDK, which the host sets up, they go
nowhere. They carry names and public numbers, never what a row, a label or a share says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment]  # there is no tracing


@contextmanager
def span(name: str, carrier: Mapping[str, str] | None = None, **public: str | int) -> Iterator[Callable[..., None]]:
    """Make a span of the block, with public attributes; the yielded function adds what is known later.

    `carrier` has the headers of a request whose sender may trace it as well, by W3C's trace context.
    """
    if trace is None:
        yield lambda **_: None
        return
    outer = propagate.extract(carrier) if carrier is not None else None
    with trace.get_tracer("sharewood").start_as_current_span(name, outer, attributes=public) as made:
        yield lambda **later: made.set_attributes(later)
