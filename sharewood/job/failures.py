"""Failures of other hosts in an operator's words; the step of the protocol is in the log at level debug."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mpc.errors import PeerFailure

log = logging.getLogger("sharewood")


@contextmanager
def told_plainly(doing: Callable[[], str]) -> Iterator[None]:
    """Let a failure of another host in the block name what this party was doing, instead of the protocol's step.

    "party_b closed the connection while trees were grown (round 13 of 60)" has the fact and what `doing` returns. Of
    nested blocks, the inner one names it.
    """
    try:
        yield
    except PeerFailure as failure:
        if failure.fact is not None and failure.args[0] != failure.fact:
            log.debug("%s", failure)
            failure.fact = f"{failure.fact} while {doing()}"
            failure.args = (failure.fact,)
        raise
