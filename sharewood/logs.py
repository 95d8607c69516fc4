"""Logs and results of a command, as text or as one JSON object per line. Times carry their offset from UTC."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

import typer


class LogLevel(StrEnum):
    """What `--log-level` takes."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LogFormat(StrEnum):
    """What `--log-format` takes."""

    text = "text"
    json = "json"


class _Text(logging.Formatter):
    """Local time in ISO 8601 with its offset from UTC, and the message."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class _Json(logging.Formatter):
    """Time in UTC, level, logger, message, process, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = _entry(record.created, record.levelname.lower(), record.name, record.getMessage())
        entry["process"] = record.process
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment: a bar replaces it while it is shown."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Keep to `sys.stderr`."""


_form = LogFormat.text


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Log messages from `level` on; for libraries, only warnings."""
    global _form
    _form = form
    handler = _Stderr()
    handler.setFormatter(_Json() if form is LogFormat.json else _Text("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("sharewood").setLevel(level.value.upper())


def in_json() -> bool:
    """Return whether logs and results are JSON."""
    return _form is LogFormat.json


def on_terminal() -> bool:
    """Return whether logs are text for a person at a terminal, who sees a bar better than many lines."""
    return not in_json() and sys.stderr is not None and sys.stderr.isatty()


def say(text: str) -> None:
    """Print a result of the command to standard output."""
    typer.echo(_result("message", text) if in_json() else text)


def say_document(document: dict[str, Any]) -> None:
    """Print the figures of a result as JSON, instead of tables."""
    typer.echo(_result("result", document))


def complain(text: str) -> None:
    """Print the sentence with which a command fails, on standard error."""
    entry = _entry(datetime.now(UTC).timestamp(), "error", "sharewood", text)
    print(json.dumps(entry, ensure_ascii=False) if in_json() else f"sharewood: {text}", file=sys.stderr, flush=True)


def _result(key: str, value: object) -> str:
    entry = _entry(datetime.now(UTC).timestamp(), "info", "sharewood", "")
    return json.dumps({**{k: v for k, v in entry.items() if k != "message"}, key: value}, ensure_ascii=False)


def _entry(created: float, level: str, name: str, message: str) -> dict[str, Any]:
    time = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    return {"time": time, "level": level, "logger": name, "message": message}
