"""The metrics of a service, for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ServiceMeasures:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept: dict[str, Any] = {"registry": self.registry}
        self.ready = Gauge("sharewood_ready", "1 while the service can predict", **kept)
        self.sessions = Counter("sharewood_sessions", "Sessions with the other party's service", **kept)
        self.requests = Counter("sharewood_requests", "All requests by HTTP status", ["status"], **kept)
        self.predictions = Counter("sharewood_predictions", "Requests for predictions", ["client", "status"], **kept)
        self.rows = Counter("sharewood_client_rows", "Rows that clients asked for and got", ["client"], **kept)
        self.seconds = Histogram("sharewood_request_seconds", "Answered requests", buckets=_SECONDS, **kept)
        self.records = Counter(
            "sharewood_records", "Records that both services have signed, or not", ["signed"], **kept
        )
        self.queued = Gauge("sharewood_queued_rows", "Rows waiting for a batch", **kept)
        self._batches = Histogram("sharewood_batch_seconds", "Batches", ["asked_by"], buckets=_SECONDS, **kept)
        self._rows = Counter("sharewood_batch_rows", "Rows of batches, including padding", ["asked_by"], **kept)
        self._sent = Gauge("sharewood_session_sent_bytes", "Bytes sent to the other party in this session", **kept)
        self._received = Gauge(
            "sharewood_session_received_bytes", "Bytes received from the other party in this session", **kept
        )
        self._held = Gauge("sharewood_material_bytes", "Bytes of correlated randomness ready or being made", **kept)

    def batch(self, asked_by: str, rows: int, seconds: float) -> None:
        """Count one batch of padded rows, of this_party, the other_party, or clients who are no party."""
        self._batches.labels(asked_by).observe(seconds)
        self._rows.labels(asked_by).inc(rows)

    def moved(self, sent: int, received: int, held: int) -> None:
        """Set the bytes exchanged in this session so far, and those of material that is ready."""
        self._sent.set(sent)
        self._received.set(received)
        self._held.set(held)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' format."""
        return generate_latest(self.registry)
