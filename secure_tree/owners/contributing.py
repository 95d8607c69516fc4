"""An owner's contribution of rows: what it says to both parties, and what each party hears.

Functionality  an owner's table -> halves of its labels, of the counts of its values by key, and of its bins at edges
               that both parties send; besides these, a party learns the number of rows
Messages       party -> owner: terms (parameters, features, categories); owner -> party: facts, halves of labels, of
               weights, of counts; party -> owner: joint edges; owner -> party: halves of bins; party -> owner: a
               receipt
Cost           to party 1, for n rows, d features, K bins, labels of l bits: 4 d 2^edge_bits + n d K / 8 + n l / 8
               bytes, and 20 n / 8 for weights; to party 0, seeds
Security       semi-honest parties that do not collude: a half is a seed or a one-time pad (halves.py). Owners may lie:
               bits are bits whatever they send, admission.py checks the rest, and both parties compare the facts
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError, RangeError
from mpc.host.streaming import RowsInFile
from mpc.party import Party
from mpc.shares import BShare
from secure_tree.agreement.messages import VERSION, Hexadecimal, Message
from secure_tree.agreement.training import same_names
from secure_tree.data.bins import ORDER_BITS, Bins, order_key
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.data.table import held_rows, hold_out, read_training
from secure_tree.owners.columns import contribute_columns
from secure_tree.owners.encoding import (
    WEIGHT_BITS,
    Exponent,
    exponents,
    label_bits,
    label_width,
    weight_bits,
)
from secure_tree.owners.halves import divide, divide_bits, half, half_of_bits
from secure_tree.owners.lines import FEW_BYTES, MOST_BITS, Line, OwnerTerms, digest_of_half, received, send_halves
from secure_tree.public.config import ALIASES, TrainConfig, validated
from secure_tree.public.context import OwnerFacts

MOST_EDGE_BITS = 16


class OwnRowsFacts(Message):
    """What an owner tells both parties: as in OwnerFacts."""

    version: int
    id: Hexadecimal
    rows: Annotated[int, Field(ge=1, lt=1 << 31)]
    exponent: Exponent | None
    weight: Exponent | None


def contribute(
    lines: Sequence[Line],
    X: TableLike,
    y: ColumnLike | None,
    sample_weight: ColumnLike | None = None,
    consent: Mapping[str, Any] = MappingProxyType({}),
    ids: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Contribute a table to both parties, over lines to party 0 and party 1; return id, rows, receipts, and bytes sent.

    `consent`: parameters of the training that the owner accepts only with these values. By columns, X has further
    features of the parties' rows, y is None unless this owner has the labels, and `ids` are those of the rows, if the
    parties have ids. Raises ConfigError or DataError, for instance if the parties do not say the same.
    """
    told = [received(OwnerTerms, line, "owner.terms") for line in lines]
    if told[0] != told[1]:
        raise DataError(f"{lines[0].peer} and {lines[1].peer} sent different terms: nothing was contributed")
    config = validated(TrainConfig, told[0].config)
    _consents(config, consent)
    if config.partition == "vertical":
        return contribute_columns(lines, told[0], config, X, y, sample_weight, ids)
    known = {column: list(categories) for column, categories in told[0].categories.items()}
    table = read_training(X, y, sample_weight, config, known)
    same_names(table.names, tuple(told[0].names), "this owner", lines[0].peer)
    exponent, weight = exponents(config, table)
    own = OwnerFacts("", os.urandom(16).hex(), len(table.features), exponent, weight)
    facts = {"version": VERSION, "id": own.id, "rows": own.rows, "exponent": exponent, "weight": weight}
    for line in lines:
        line.send("owner.facts", facts)
    send_halves(lines, "owner.labels", divide_bits(label_bits(config, table, exponent)))
    if table.weights is not None:
        send_halves(lines, "owner.weights", divide_bits(weight_bits(table.weights, weight or 0)))
    training, _ = hold_out(table, config)
    send_halves(lines, "owner.counts", divide(key_counts(training.features, config.edge_bits)))
    edges = [line.receive("owner.edges") for line in lines]
    if not all(isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim == 2 for x in edges):
        raise DataError("the parties must send the joint edges: no bins were contributed")
    if not np.array_equal(*edges) or len(edges[0]) != len(table.names):
        raise DataError(f"{lines[0].peer} and {lines[1].peer} sent different edges: no bins were contributed")
    send_halves(lines, "owner.bins", divide_bits(one_hot(table.features, edges[0], config)))
    receipts = [line.receive("owner.receipt", FEW_BYTES) for line in lines]
    sent = sum(line.wire_sent for line in lines)
    return {"id": own.id, "rows": own.rows, "receipts": receipts, "bytes": sent}


def _consents(config: TrainConfig, consent: Mapping[str, Any]) -> None:
    """Raise ConfigError if a parameter has another value than the owner consents to."""
    accepted = TrainConfig.of(**consent)
    for given in consent:
        name = ALIASES.get(given, given)
        if (value := getattr(config, name)) != getattr(accepted, name):
            raise ConfigError(
                f"this owner consents to {given} {getattr(accepted, name)!r}, and the parties train with {value!r}: "
                "nothing was contributed"
            )


def key_counts(features: np.ndarray, bits: int) -> np.ndarray:
    """Return how many non-missing values of each feature have each key of `bits` bits, uint32[d, 2^bits]."""
    keys = order_key(features) - 1 >> ORDER_BITS - bits
    present = ~np.isnan(features)
    return np.stack([np.bincount(keys[there, f], minlength=1 << bits) for f, there in enumerate(present.T)]).astype(
        np.uint32
    )


def one_hot(features: np.ndarray, edges: np.ndarray, config: TrainConfig) -> np.ndarray:
    """Return the bins of all values as one-hots, uint8[n, d, bins]."""
    size = edges.shape[1] + has_missing(config)
    return (Bins(features, edges, edges).numbers[..., None] == np.arange(size)).astype(np.uint8)


def has_missing(config: TrainConfig) -> bool:
    """Return whether bins include one of missing values."""
    return config.missing != "none"


class Owners:
    """Implements `Source` with lines to owners who wait for a training."""

    def __init__(self, lines: Mapping[str, Line]) -> None:
        self._lines = dict(sorted(lines.items()))
        self._digests: list[str] = []
        self._parts: dict[str, Any] = {}

    def open(self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]) -> Contributed:
        if party.workers:
            raise ConfigError("with shards, owners must have contributed before: run `sharewood collect`")
        refuse_unsupported(config)
        terms = {
            "version": VERSION,
            "config": config.model_dump(),
            "purpose": "training",
            "names": list(names),
            "categories": {column: list(categories) for column, categories in known.items()},
        }
        for line in self._lines.values():
            line.send("owner.terms", terms)
        self._rank = party.rank
        owners, labels, weights, counts = [], [], list[BShare | None](), []
        buckets, bins = 1 << config.edge_bits, int(config.max_bin) + has_missing(config)
        for name, line in self._lines.items():
            facts = received(OwnRowsFacts, line, "owner.facts")
            if facts.rows * len(names) * bins > MOST_BITS:
                raise RangeError(
                    f"{name}: contributes {facts.rows} rows of {len(names)} features with {bins} bins, more than "
                    f"2^{MOST_BITS.bit_length() - 1} bits: divide them among several contributions"
                )
            owners.append(OwnerFacts(name, facts.id, facts.rows, facts.exponent, facts.weight))
            labels.append(self._bits(name, "owner.labels", (label_width(config), facts.rows)))
            weighted = facts.weight is not None
            shape = WEIGHT_BITS, facts.rows
            weights.append(self._bits(name, "owner.weights", shape) if weighted else None)
            part = line.receive("owner.counts", 4 * len(names) * buckets + FEW_BYTES)
            counts.append(RowsInFile.of(half(party.rank, part, (len(names), buckets), np.uint32, name)))
        self._owners = owners
        held = [held_rows(config, owner.rows) for owner in owners]
        return Contributed(tuple(owners), labels, weights, counts, held, self)

    def _bits(self, name: str, tag: str, shape: tuple[int, int]) -> BShare:
        part = self._lines[name].receive(tag, math.prod(shape) // 8 + FEW_BYTES)
        self._parts[name] = part
        return BShare(half_of_bits(self._rank, part, shape, name), self._rank)

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare]:
        for line in self._lines.values():
            line.send("owner.edges", edges)
        for owner in self._owners:
            yield self._bits(owner.name, "owner.bins", (owner.rows, edges.shape[0] * (edges.shape[1] + missing)))
            self._digests.append(digest_of_half(self._parts.pop(owner.name)))

    def confirm(self) -> None:
        for line, digest in zip(self._lines.values(), self._digests, strict=True):
            line.send("owner.receipt", digest)


def refuse_unsupported(config: TrainConfig) -> None:
    """Raise ConfigError for what contributed rows do not support."""
    if config.partition == "vertical" or not config.joint or config.max_bin == "exact":
        raise ConfigError('contributed rows need partition="horizontal", edges="joint" and a number as max_bin')
    if config.edge_bits > MOST_EDGE_BITS:
        raise ConfigError(
            f"contributed rows need edge_bits of at most {MOST_EDGE_BITS}, got {config.edge_bits}: an owner counts its "
            "values by as many bits"
        )
