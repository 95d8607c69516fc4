"""Prediction with a host: batched per level over all trees; each party sees only its own nodes.

Messages   guest -> host: the splits that are reached, and their rows; host -> guest: one bit per row   (each level)
Security   semi-honest. The host learns which rows reach each of its nodes, the guest which way they go there
Source     Cheng et al., arXiv 1901.08755, section 5 (federated inference)
"""

from __future__ import annotations

import numpy as np

from mpc.errors import DataError, ProtocolDesync
from protocols.baselines.secureboost import answers
from protocols.baselines.secureboost.columns import Records
from protocols.baselines.secureboost.conversation import DONE, answer_until_done, ask, tag
from protocols.baselines.secureboost.owners import SplitOwner
from protocols.transport.channel import Channel


class RemoteRouter(SplitOwner):
    """A host's splits, at the guest."""

    def __init__(self, channel: Channel, rows: int, training: str) -> None:
        self._channel = channel
        channel.send(tag("predict"), (rows, training))

    def ask(self, records: np.ndarray, rows: np.ndarray) -> None:
        distinct, counts = np.unique(records, return_counts=True)
        question = {"reached": distinct.astype(np.int32), "counts": counts.astype(np.int32)}
        ask(self._channel, "route", **question, rows=rows.astype(np.int32))
        self._asked = rows.size

    def left(self) -> np.ndarray:
        return answers.directions(self._channel.peer, self._channel.receive(tag("route")), self._asked)

    def finish(self) -> None:
        ask(self._channel, DONE)


def serve_routing(channel: Channel, records: Records, features: np.ndarray, training: str) -> None:
    """Run the host's part of a prediction for its rows, features float32[n, d]. Raises DataError."""
    asked = channel.receive(tag("predict"))
    if type(asked) is not tuple or [type(part) for part in asked] != [int, str]:
        raise ProtocolDesync(f"{channel.peer} must start a prediction with a number of rows and a training's name")
    if asked[0] != len(features):
        raise DataError(f"X: {len(features)} rows, but {channel.peer} predicts {asked[0]}; align the ids first")
    if asked[1] != training:
        raise DataError(f"model: must be of the same training as {channel.peer}'s: load the parts of one training")

    def route(reached: np.ndarray, counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if counts.sum(dtype=np.int64) != rows.size or min(part.min() for part in (reached, counts, rows)) < 0:
            raise ValueError("one split per row is needed")
        return np.packbits(records.left(features, np.repeat(reached, counts), rows))

    answer_until_done(channel, {"route": route})
