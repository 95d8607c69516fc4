"""Training with a host: histograms on ciphertexts, and splits whose feature and threshold stay at the host.

Functionality  guest: g, h and a level's sample sets; host: bins -> guest: sums of g, h per bucket, and routes
Messages       start: key and sizes; then per tree E(g, h), with the first level's question; per level the sample sets
               and the nodes to sum (guest), sums (host); the splits that the host won (guest), one bit per row (host)
Cost           per tree and host, n ciphertexts; per summed node and column, K / pairs ciphertexts
Security       semi-honest. Sums are blinded with a fresh encryption of zero, or of noise (noise.py), so the guest,
               which chose the randomness of all ciphertexts, sees only the sums
Source         Cheng et al., arXiv 1901.08755, algorithm 1; Chen et al., SecureBoost+, arXiv 2110.10927
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError, ProtocolDesync, RangeError
from protocols.baselines.secureboost import answers
from protocols.baselines.secureboost.columns import Records, bin_columns
from protocols.baselines.secureboost.config import LARGEST_MAX_BIN, SecureBoostConfig
from protocols.baselines.secureboost.conversation import DONE, answer_until_done, ask, tag
from protocols.baselines.secureboost.encoding import CiphertextLayout, Derivatives
from protocols.baselines.secureboost.encryption import Ciphertexts, PrivateKey, packed_blocks
from protocols.baselines.secureboost.key_pairs import generate_key, load_public_key
from protocols.baselines.secureboost.noise import deviation, noise
from protocols.baselines.secureboost.owners import Owner, node_sums, rows_of_nodes
from protocols.baselines.secureboost.siblings import Siblings
from protocols.transport.channel import Channel
from protocols.transport.frames import DATA_LIMIT

_START = {
    "library": str,
    "key": bytes,
    "packing": bool,
    "rows": int,
    "max_bin": int,
    "subtract": bool,
    "training": str,
    "epsilon": float,  # inf for exact sums
    "levels": int,  # of all trees together
    "colsample": float,
}


class Sealer:
    """The guest's key, and the ciphertexts of a tree's g and h, made once for all hosts, when one needs them."""

    def __init__(self, config: SecureBoostConfig, rows: int) -> None:
        self.key: PrivateKey = generate_key(config.encryption, config.key_bits)
        self.layout = CiphertextLayout.plan(rows, self.key.public.plaintext_bits, config.epsilon is not None)
        self.packing = config.packing
        self._sealed: tuple[Derivatives, bytes] | None = None

    def seal(self, derivatives: Derivatives) -> bytes:
        """Encrypt a tree: ciphertexts [n, 1] of the pairs, or [n, 2] of g and h without packing."""
        if self._sealed is None or self._sealed[0] is not derivatives:
            if self.packing:
                plaintexts = self.layout.join(derivatives.g, derivatives.h)[:, None]
            else:
                plaintexts = np.stack([derivatives.g, derivatives.h], axis=1).astype(object)
            self._sealed = derivatives, self.key.public.dump(self.key.public.encrypt(plaintexts))
        return self._sealed[1]

    def open(self, encoded: bytes, count: int) -> np.ndarray:
        """Decrypt `count` sums sealed by `Sums`: int64[count, 2]. Raises ProtocolDesync, RangeError, OverflowError."""
        public = self.key.public
        if not self.packing:
            return self.key.decrypt(public.load(encoded, count, 2)).astype(np.int64)
        blocks = packed_blocks(count, self.layout.pairs)
        digits = self.layout.split(self.key.decrypt(public.load(encoded, blocks[0][1], 1))[:, 0])
        sums = np.empty((count, 2), np.int64)
        for (start, stop), block in zip(blocks, digits, strict=False):
            sums[start:stop] = block
        return sums


class RemoteColumns(Owner):
    """A host's columns, at the guest."""

    def __init__(
        self, channel: Channel, sealer: Sealer, config: SecureBoostConfig, rows: int, trees: int, training: str
    ) -> None:
        self.name = channel.peer
        self._channel, self._sealer, self._config = channel, sealer, config
        self._levels = trees * config.max_depth
        public = sealer.key.public
        self._bins, self._records = config.max_bin, 0
        encrypted = {"library": public.library, "key": public.to_bytes(), "packing": config.packing}
        question = {
            "rows": rows,
            "max_bin": config.max_bin,
            "subtract": config.siblings == "host",
            "training": training,
        }
        epsilon = math.inf if config.epsilon is None else config.epsilon
        privacy = {"epsilon": epsilon, "levels": self._levels, "colsample": config.colsample_bytree}
        channel.send(tag("start"), {**encrypted, **question, **privacy})

    def greet(self) -> None:
        """Wait for the host's description of itself. A separate step, so that all hosts can bin at the same time."""
        answer = self._channel.receive(tag("start"))
        self.features, self._buckets = answers.description(self.name, answer, self._bins)
        questions = self._levels * self._config.columns_per_tree(self.features)
        self.deviation = deviation(self._config.epsilon, questions)

    def start_tree(self, derivatives: Derivatives, columns: np.ndarray) -> None:
        self._unsent: Derivatives | None = derivatives
        self._values = np.stack([derivatives.g, derivatives.h], axis=1)
        self._columns = columns

    def ask(self, assignment: np.ndarray, nodes: np.ndarray) -> None:
        sealed = None
        if self._unsent is not None:
            sealed, self._unsent = self._sealer.seal(self._unsent), None
        rows, place = rows_of_nodes(assignment, nodes)
        self._totals = node_sums(place, len(nodes), self._values[rows])
        question = {"sealed": sealed, "columns": self._columns, "assignment": assignment, "nodes": nodes}
        ask(self._channel, "histograms", **question)

    def histograms(self) -> np.ndarray:
        nodes, c, buckets = len(self._totals), self._columns.size, self._buckets
        answer = self._channel.receive(tag("histograms"), DATA_LIMIT)
        batches = answers.batches(self.name, answer, nodes)
        sums = np.zeros((nodes, c, self._bins + 1, 2), np.int64)
        for node, batch in enumerate(batches):
            try:
                sums[node, :, :buckets] = self._sealer.open(batch, c * buckets).reshape(c, buckets, 2)
            except (ProtocolDesync, RangeError, OverflowError) as error:
                answers.refuse(self.name, f"ciphertexts of {c * buckets} sums", f"others: {error}")
        answers.check_sums(self.name, sums, self._totals, noisy=self.deviation > 0)
        return sums

    def split(
        self, assignment: np.ndarray, nodes: np.ndarray, columns: np.ndarray, bins: np.ndarray, missing_left: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        question = {"nodes": nodes, "columns": self._columns[columns], "bins": bins, "missing_left": missing_left}
        ask(self._channel, "split", **question)
        answer = self._channel.receive(tag("split"))
        if type(answer) is not tuple or len(answer) != 2:
            answers.refuse(self.name, "split records and one bit per row", "something else")
        places = answers.records(self.name, answer[0], self._records, len(nodes))
        self._records += len(nodes)
        return places, answers.directions(self.name, answer[1], int(np.isin(assignment, nodes).sum()))

    def finish(self) -> None:
        ask(self._channel, DONE)


class Sums:
    """Answers the guest's questions, at the host, from its columns. Raises ConfigError for an epsilon above `limit`."""

    def __init__(self, features: np.ndarray, start: dict[str, Any], limit: float | None) -> None:
        if not 2 <= start["max_bin"] <= LARGEST_MAX_BIN:
            raise ProtocolDesync(f"the guest must ask for 2 to {LARGEST_MAX_BIN} bins, got {start['max_bin']}")
        self.records = Records()
        self._binned = bin_columns(features, start["max_bin"])
        self._key = load_public_key(start["library"], start["key"])
        if not (start["epsilon"] > 0 and start["levels"] > 0 and 0 < start["colsample"] <= 1):
            raise ProtocolDesync("the guest must announce an epsilon above 0, its levels, and a share of columns")
        noisy = math.isfinite(start["epsilon"])
        if limit is not None and not start["epsilon"] <= limit:
            asked = f"epsilon {start['epsilon']:g}" if noisy else "exact sums"
            raise ConfigError(f"epsilon must be at most {limit:g} for this host, and the guest asks for {asked}")
        kept = max(1, int(start["colsample"] * features.shape[1]))
        self._questions = start["levels"] * kept
        self._deviation = deviation(start["epsilon"] if noisy else None, self._questions)
        self._layout = CiphertextLayout.plan(start["rows"], self._key.plaintext_bits, noisy)
        self._packing = start["packing"]
        self._subtract = self._key.subtract if start["subtract"] else None

    @property
    def description(self) -> tuple[int, int]:
        """The number of columns, and of buckets per column."""
        return self._binned.features.shape[1], self._binned.buckets

    def histograms(
        self, sealed: bytes | None, columns: np.ndarray, assignment: np.ndarray, nodes: np.ndarray
    ) -> list[bytes]:
        """Return the blinded sums of every node and bucket of the columns, encrypted. Raises ValueError."""
        if assignment.shape != (len(self._binned.features),) or not assignment.dtype == nodes.dtype == np.int16:
            raise ValueError("one node per row is needed")
        if not nodes.size or nodes.min() < 0:
            raise ValueError("nodes to sum are needed")
        if len(set(nodes.tolist())) < nodes.size or len(set(columns.tolist())) < columns.size:
            raise ValueError("a node or a column was named twice")
        self._questions -= columns.size
        if self._questions < 0:
            raise ValueError("more sums than were announced")
        if sealed is not None:
            self._ciphertexts = self._key.load(sealed, len(assignment), 1 if self._packing else 2)
            self._siblings: Siblings[Ciphertexts] = Siblings(self._subtract)
        self._assignment = assignment
        numbers = np.ascontiguousarray(self._binned.numbers[:, columns])
        summed = self._siblings.to_sum(assignment, nodes)
        members = [assignment == node for node in summed]
        sums = self._key.bucket_sums(self._ciphertexts, members, numbers, self._binned.buckets)
        complete = self._siblings.complete(nodes, dict(zip(summed.tolist(), sums, strict=True)))
        return [self._key.dump(self._sealed(each)) for each in complete]

    def split(
        self, nodes: np.ndarray, columns: np.ndarray, bins: np.ndarray, missing_left: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Record splits; return their places, and the packed bits "goes left" of the nodes' rows."""
        places = self._binned.record(self.records, columns, bins, missing_left)
        rows, place = rows_of_nodes(self._assignment, nodes)
        return places, np.packbits(self.records.left(self._binned.features, places[place], rows))

    def _sealed(self, sums: Ciphertexts) -> Ciphertexts:
        size = self._binned.buckets
        columns = self._key.count(sums) // size
        if self._deviation:
            hidden = noise((columns, size, 2), self._deviation).reshape(-1, 2)
        else:
            hidden = np.zeros((columns * size, 2), np.int64)
        if not self._packing:
            return self._key.blind(sums, hidden.astype(object))
        return self._key.pack(sums, self._layout.pairs, self._layout.pair_bits, self._layout.join(*hidden.T))


def serve_training(channel: Channel, features: np.ndarray, limit: float | None = None) -> tuple[Records, str]:
    """Run the host's part of a training on features float32[n, d]; return the splits it won, and the training's name.

    `limit` is the largest epsilon that it accepts; with None it also accepts exact sums. Raises DataError, ConfigError.
    """
    start = channel.receive(tag("start"))
    if type(start) is not dict or {name: type(value) for name, value in start.items()} != _START:
        raise ProtocolDesync(f"{channel.peer} must start with a key and sizes")
    if start["rows"] != len(features):
        raise DataError(f"X: {len(features)} rows, but {channel.peer} trains on {start['rows']}; align the ids first")
    sums = Sums(features, start, limit)
    channel.send(tag("start"), sums.description)
    answer_until_done(channel, {"histograms": sums.histograms, "split": sums.split})
    return sums.records, start["training"]
