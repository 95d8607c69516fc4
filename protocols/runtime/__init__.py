"""Processes and sessions: `run_local(job)` runs a job at two parties and a dealer on this machine."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocols.runtime.local import run_local

__all__ = ["run_local"]


def __getattr__(name: str) -> Any:
    """Import `run_local` when it is first used, so that the command line starts quickly."""
    if name != "run_local":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from protocols.runtime.local import run_local

    return run_local
