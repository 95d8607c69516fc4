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

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError, PeerFailure, RangeError, SharewoodError
from mpc.host.streaming import RowsInFile
from mpc.matrix.known_matrix import MatrixRows
from mpc.party import Party
from mpc.shares import BShare
from secure_tree.agreement.messages import VERSION, Consenting, Hexadecimal
from secure_tree.agreement.training import same_names
from secure_tree.data.bins import ORDER_BITS, Bins, order_key
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed
from secure_tree.data.inputs import ColumnLike, TableLike, in_memory
from secure_tree.data.table import held_rows, hold_out, read_training
from secure_tree.owners.attendance import Attendance
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
from secure_tree.public.bounds import NO_BOUNDS, Bounds, Consent, check_consent, check_until
from secure_tree.public.config import ALIASES, TrainConfig, validated
from secure_tree.public.context import OwnerFacts
from secure_tree.public.layout import joint_size, known_edges

log = logging.getLogger("sharewood")
MOST_EDGE_BITS = 16


class OwnRowsFacts(Consenting):
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

    `consent`: the fields of `Consent`, and parameters of the training that the owner accepts only with these values. By
    columns, X has further features of the parties' rows, y is None unless this owner has the labels, and `ids` are
    those of the rows, if the parties have ids. Raises ConfigError or DataError, for instance if the parties do not say
    the same.
    """
    own_terms, accepted = Consent.divided(consent)
    X = in_memory(X)
    told = [received(OwnerTerms, line, "owner.terms") for line in lines]
    if told[0] != told[1]:
        raise DataError(f"{lines[0].peer} and {lines[1].peer} sent different terms: nothing was contributed")
    config = validated(TrainConfig, told[0].config)
    _consents(config, accepted)
    if config.partition == "vertical":
        return contribute_columns(lines, told[0], config, own_terms, X, y, sample_weight, ids)
    known = {column: list(categories) for column, categories in told[0].categories.items()}
    table = read_training(X, y, sample_weight, config, known)
    same_names(table.names, tuple(told[0].names), "this owner", lines[0].peer)
    exponent, weight = exponents(config, table)
    own = OwnerFacts("", os.urandom(16).hex(), len(table.features), exponent, weight, **own_terms.facts)
    facts = {"version": VERSION, **{name: value for name, value in asdict(own).items() if name != "name"}}
    for line in lines:
        line.send("owner.facts", facts)
    send_halves(lines, "owner.labels", divide_bits(label_bits(config, table, exponent)))
    if table.weights is not None:
        send_halves(lines, "owner.weights", divide_bits(weight_bits(table.weights, weight or 0)))
    training, _ = hold_out(table, config)
    if searched := config.searched(table.names):
        send_halves(lines, "owner.counts", divide(key_counts(training.features[:, searched], config.edge_bits)))
    edges = _edges(lines, config, table.names)
    send_halves(lines, "owner.bins", divide_bits(one_hot(table.features, edges, config)))
    receipts = [line.receive("owner.receipt", FEW_BYTES) for line in lines]
    sent = sum(line.wire_sent for line in lines)
    return {"id": own.id, "rows": own.rows, "receipts": receipts, "bytes": sent}


def _edges(lines: Sequence[Line], config: TrainConfig, names: tuple[str, ...]) -> np.ndarray:
    """Return the joint edges, float32[d, K], which both parties send, unless none of them had to be searched for."""
    if config.declares_all(names):
        return np.stack(list(known_edges(config, names, joint_size(config, names, 0)).values()))
    edges = [line.receive("owner.edges") for line in lines]
    if not all(isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim == 2 for x in edges):
        raise DataError("the parties must send the joint edges: no bins were contributed")
    if not np.array_equal(*edges) or len(edges[0]) != len(names):
        raise DataError(f"{lines[0].peer} and {lines[1].peer} sent different edges: no bins were contributed")
    return edges[0]


def upload(config: TrainConfig, rows: int, names: Sequence[str], weighted: bool = False) -> int:
    """Return the bytes of the halves that an owner sends to party 1; those to party 0 are seeds."""
    bins = joint_size(config, names, 1 << 31) + has_missing(config)
    bits = rows * len(names) * bins, rows * label_width(config), rows * WEIGHT_BITS * weighted
    return (4 * len(config.searched(names)) << config.edge_bits) + sum(-(-count // 8) for count in bits)


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


# Facts, labels, weights and counts of an owner.
Heard = tuple[OwnerFacts, BShare, BShare | None, MatrixRows]


class Owners:
    """Implements `Source` with lines to owners who wait for a training."""

    def __init__(self, lines: Mapping[str, Line], bounds: Bounds = NO_BOUNDS) -> None:
        self.bounds = bounds
        self._present = Attendance(lines, bounds)
        self._digests: dict[str, str] = {}
        self._parts: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The names of the owners."""
        return list(self._present.lines)

    def open(self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]) -> Contributed:
        if party.workers:
            raise ConfigError("with shards, owners must have contributed before: run `sharewood collect`")
        refuse_unsupported(config)
        self.bounds.check_day()
        terms = {
            "version": VERSION,
            "config": config.model_dump(),
            "purpose": "training",
            "names": list(names),
            "categories": {column: list(categories) for column, categories in known.items()},
        }
        self._party, self._asked = party, not config.declares_all(names)
        self._present.each(party, lambda _, line: line.send("owner.terms", terms), _nothing)
        searched, bins = config.searched(names), int(config.max_bin) + has_missing(config)

        def heard(name: str, line: Line) -> Heard:
            facts = received(OwnRowsFacts, line, "owner.facts")
            owner = OwnerFacts(name, **facts.model_dump(exclude={"version"}))
            self.bounds.check_rows(owner)
            check_until(owner)
            if facts.rows * max(len(names) * bins, label_width(config)) > MOST_BITS:
                raise RangeError(
                    f"{name}: contributes {facts.rows} rows of {len(names)} features with {bins} bins, more than "
                    f"2^{MOST_BITS.bit_length() - 1} bits: divide them among several contributions"
                )
            labels = self._bits(line, name, "owner.labels", (label_width(config), facts.rows))
            weighted, shape = facts.weight is not None, (WEIGHT_BITS, facts.rows)
            weights = self._bits(line, name, "owner.weights", shape) if weighted else None
            shape = len(searched), 1 << config.edge_bits
            if not searched:
                return owner, labels, weights, np.zeros(shape, np.uint32)
            part = line.receive("owner.counts", 4 * math.prod(shape) + FEW_BYTES)
            return owner, labels, weights, half(party.rank, part, shape, np.uint32, name)

        def keep(part: Heard) -> Heard:
            return (*part[:3], RowsInFile.of(part[3][:])) if searched else part

        complete = self._present.each(party, heard, lambda part: _shown(part[0]), keep=keep)
        self._owners, labels, weights, counts = zip(*complete.values(), strict=True)
        check_consent(self._owners)
        held = [held_rows(config, owner.rows) for owner in self._owners]
        return Contributed(self._owners, list(labels), list(weights), list(counts), held, self, searched=searched)

    def _bits(self, line: Line, name: str, tag: str, shape: tuple[int, int]) -> BShare:
        part = line.receive(tag, math.prod(shape) // 8 + FEW_BYTES)
        self._parts[name] = part
        return BShare(half_of_bits(self._party.rank, part, shape, name), self._party.rank)

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare | None]:
        if self._asked:
            self._present.each(self._party, lambda _, line: line.send("owner.edges", edges), _nothing)
        for owner in self._owners:
            shape = owner.rows, edges.shape[0] * (edges.shape[1] + missing)

            def heard(name: str, line: Line, shape: tuple[int, int] = shape) -> BShare:
                bits = self._bits(line, name, "owner.bins", shape)
                self._digests[name] = digest_of_half(self._parts.pop(name))
                return bits

            there = owner.name in self._present.lines
            yield self._present.each(self._party, heard, _nothing, owner.name).get(owner.name) if there else None

    def refuse(self, owner: OwnerFacts, error: SharewoodError) -> None:
        self._present.leave_out(owner.name, error)
        self._present.check_enough()

    def confirm(self) -> None:
        for name, line in self._present.lines.items():
            try:
                line.send("owner.receipt", self._digests[name])
            except PeerFailure as failure:
                log.warning("%s has contributed, and gets no receipt: %s", name, failure)


def _shown(owner: OwnerFacts) -> list[str]:
    """Return what an owner must tell both parties."""
    return [f"{owner.rows} rows", *(f"{fact} {value}" for fact, value in asdict(owner).items() if fact != "rows")]


def _nothing(_: object) -> list[str]:
    return []


def refuse_unsupported(config: TrainConfig) -> None:
    """Raise ConfigError for what contributed rows do not support."""
    if config.partition == "vertical" or not config.joint or config.max_bin == "exact":
        raise ConfigError('contributed rows need partition="horizontal", edges="joint" and a number as max_bin')
    if config.edge_bits > MOST_EDGE_BITS:
        raise ConfigError(
            f"contributed rows need edge_bits of at most {MOST_EDGE_BITS}, got {config.edge_bits}: an owner counts its "
            "values by as many bits"
        )
