"""Logs of a command, as text or as one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum


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


class _Json(logging.Formatter):
    """Time in UTC, level, logger, message, process, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Log messages from `level` on; for libraries, only warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form is LogFormat.json else logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("sharewood").setLevel(level.value.upper())
