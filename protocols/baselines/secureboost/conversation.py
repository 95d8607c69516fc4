"""Questions of the guest to a host: named steps, each with a dictionary, until the guest sends DONE.

A host that receives a malformed question raises ProtocolDesync; it runs only the named steps.
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
    """Send a question, at the guest; the host answers with the tag of the step, except to DONE."""
    channel.send(ASK, {"step": step, **question})


def answer_until_done(channel: Channel, steps: Mapping[str, Callable[..., Any]]) -> None:
    """Answer the guest's questions, at the host, with the functions of these names."""
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
