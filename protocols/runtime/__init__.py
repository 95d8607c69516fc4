"""Processes and sessions: `run_local(job)` runs a job at two parties and a dealer on this machine."""

from protocols.runtime.local import run_local

__all__ = ["run_local"]
