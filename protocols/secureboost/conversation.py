"""How the guest asks a host: named steps, a dictionary each, until the guest ends it.

A host that gets a question out of shape raises ProtocolDesync; it never runs anything but the named steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpc.errors import ProtocolDesync
from protocols.transport.channel import Channel
from protocols.transport.frames import DATA_LIMIT

ASK = "secureboost.ask"
DONE = "done"


def tag(step: str) -> str:
    return f"secureboost.{step}"


def ask(channel: Channel, step: str, **question: object) -> None:
    """The guest's question; the host answers with the same step's tag, except to DONE."""
    channel.send(ASK, {"step": step, **question})


def answer_until_done(channel: Channel, steps: Mapping[str, Callable[..., Any]]) -> None:
    """At the host: answer the guest's questions with the functions of that name."""
    while True:
        question = channel.receive(ASK, DATA_LIMIT)
        step = question.pop("step", None) if type(question) is dict else None
        if step == DONE:
            return
        if type(step) is not str or step not in steps:
            raise ProtocolDesync(f"{channel.peer} asked for the unknown step {step!r}")
        try:
            answer = steps[step](**question)
        except (TypeError, IndexError, KeyError, AttributeError, ValueError) as error:
            raise ProtocolDesync(f"{channel.peer} sent a malformed question in {tag(step)}: {error}") from error
        channel.send(tag(step), answer)
