"""A federation over Flower: the same steps and messages, in a simulation or between real processes.

Every message is one Flower `query` of a RecordDict: "arrays", the message itself, as an ArrayRecord (numpy's own
format, never pickle), and "envelope", a ConfigRecord with the step, the client's id, and the sentence of a refusal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MessageType, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from mpc.errors import PeerFailure, PeerTimeout, ProtocolDesync, SharewoodError
from protocols.baselines.federated.engine import HELPER, Federation, Message, Participant

HELLO = "hello"
_POLL_SECONDS = 0.1


def client_app_of(participant_of: Callable[[Context], tuple[int, Participant]]) -> ClientApp:
    """Return a ClientApp that answers as its node's participant; `participant_of` returns the id and the participant.

    Flower may run each message in a new process, so a participant's memory is kept in Flower's context.
    """
    app = ClientApp()

    @app.query()
    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        step = str(message.content.config_records["envelope"]["step"])
        client, reply, refusal = HELPER, Message(), ""
        try:
            client, participant = participant_of(context)
            if step != HELLO:
                if "memory" in context.state:
                    participant.memory = _read(context.state.array_records["memory"])
                reply = participant.answer(step, _read(message.content.array_records["arrays"]))
                context.state["memory"] = _record(participant.memory)
        except SharewoodError as error:
            refusal = str(error)
        envelope = ConfigRecord({"client": client, "refusal": refusal})
        return FlowerMessage(RecordDict({"arrays": _record(reply), "envelope": envelope}), reply_to=message)

    return app


class FlowerFederation(Federation):
    """The nodes of a Flower run. Waits for `clients` nodes and, with `helper`, for the helper.

    A node that does not answer within `timeout` seconds, or whose process fails, has dropped out of that step; a node
    that refuses, with a sentence, ends the training. Raises PeerTimeout if the nodes do not join within
    `join_timeout` seconds, ProtocolDesync if two have the same id.
    """

    def __init__(
        self,
        grid: Grid,
        clients: int,
        minimum: int,
        helper: bool = False,
        timeout: float = 600.0,
        join_timeout: float = 120.0,
    ) -> None:
        self._grid, self._timeout = grid, timeout
        wanted = clients + helper
        give_up = time.monotonic() + join_timeout
        while len(nodes := list(grid.get_node_ids())) < wanted:
            if time.monotonic() > give_up:
                raise PeerTimeout(f"{len(nodes)} of {wanted} nodes joined within {join_timeout:g} seconds")
            time.sleep(_POLL_SECONDS)
        self._nodes: dict[int, int] = {}
        for node, (client, _) in self._round(HELLO, dict.fromkeys(nodes, Message())).items():
            if client in self._nodes:
                raise ProtocolDesync(f"two nodes have the name {_name(client)}")
            self._nodes[client] = node
        super().__init__((i for i in self._nodes if i != HELPER), minimum)

    def _deliver(self, step: str, messages: Mapping[int, Message]) -> dict[int, Message]:
        addressed = {self._nodes[i]: message for i, message in messages.items() if i in self._nodes}
        return dict(self._round(step, addressed).values())

    def _round(self, step: str, messages: Mapping[int, Message]) -> dict[int, tuple[int, Message]]:
        """Run a round; return by Flower's node id the client's id and its message."""
        envelope = ConfigRecord({"step": step})
        outgoing = [
            FlowerMessage(RecordDict({"arrays": _record(m), "envelope": envelope}), node, MessageType.QUERY)
            for node, m in messages.items()
        ]
        replies: dict[int, tuple[int, Message]] = {}
        for reply in self._grid.send_and_receive(outgoing, timeout=self._timeout):
            if reply.has_error():
                continue
            back = reply.content.config_records["envelope"]
            client, refusal, node = back["client"], back["refusal"], reply.metadata.src_node_id
            if not isinstance(client, int) or not isinstance(refusal, str):
                raise ProtocolDesync(f"step {step!r}: an envelope without a client's id")
            if refusal:
                who = next((_name(known) for known, place in self._nodes.items() if place == node), "a node")
                raise PeerFailure(f"{who} refused step {step!r}: {refusal}")
            replies[node] = client, _read(reply.content.array_records["arrays"])
        return replies


def _name(client: int) -> str:
    return "the helper" if client == HELPER else f"client {client}"


def _record(message: Message) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in message.items()})


def _read(record: ArrayRecord) -> Message:
    return {name: array.numpy() for name, array in record.items()}
