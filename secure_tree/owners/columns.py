"""An owner's contribution of columns: further features of the parties' rows, or the labels, in halves.

Functionality  an owner's table -> halves of its one-hot bins at its own private edges, of the keys of these edges, of
               labels if it has them, and of a digest of its ids, if any; of the keys of its values for a prediction.
               Besides these, a party learns the numbers of rows and features, and the names of features
Messages       party -> owner: terms; owner -> party: facts, a half of all bits, a half of the digest; party -> owner: a
               receipt. One contact: nothing is cut jointly
Cost           to party 1, for n rows, d features, K edges: d K (n + 33) / 8 bytes, n / 8 for labels of two classes, 16
               for ids; for a prediction 8 n d; to party 0, seeds
Security       semi-honest parties that do not collude: a half is a seed or a one-time pad (halves.py). Nobody learns an
               owner's edges. column_admission.py has what is checked. Keys are not: an owner that sends other keys than
               those of the edges of its bins does what one with other values in the rows to predict does
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError, RangeError
from mpc.party import Party
from mpc.words import U64, Shape
from secure_tree.agreement.columns import ColumnsFacts
from secure_tree.agreement.messages import VERSION
from secure_tree.agreement.same_rows import BYTES, digest_of
from secure_tree.data.bins import ORDER_BITS, bin_rows, keys_of, make_bins
from secure_tree.data.categories import Dictionary, dictionary
from secure_tree.data.contributed_columns import ContributedColumns, ContributedKeys
from secure_tree.data.inputs import ColumnLike, TableLike, frame_of
from secure_tree.data.table import Table, held_count, hold_out, read_features, read_training
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.encoding import WEIGHT_BITS, Exponent, exponents, label_bits, label_width, weight_bits
from secure_tree.owners.halves import divide, divide_bits, half, packed_half
from secure_tree.owners.lines import FEW_BYTES, MOST_BITS, Line, OwnerTerms, digest_of_half, received, send_halves
from secure_tree.public.bounds import Consent, check_consent
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerColumns
from secure_tree.public.layout import edge_count
from secure_tree.public.names import columns_behind
from secure_tree.tree.thresholds import key_bits

# Bits of the order key of an edge.
_KEY_BITS = ORDER_BITS + 1


class Told(ColumnsFacts):
    """What an owner tells both parties, besides halves."""

    version: int
    exponent: Exponent | None
    weight: Exponent | None


def shapes(config: TrainConfig, owner: OwnerColumns) -> dict[str, Shape]:
    """Return the shapes of the bits that an owner contributes to a training, in the order in which they are sent.

    labels, weights: as in secure_tree/owners/encoding.py, if it has them. keys: those of its edges. bins, held_out:
    one-hots for each feature, at edges of the rows to train on; held-out values may lie below the first one.
    """
    d, held = len(owner.names), held_count(config, owner.rows)
    trained = owner.rows - held
    edges, missing = edge_count(config, trained), any(map(config.may_miss, owner.names))
    return {
        "labels": (label_width(config) if owner.labelled else 0, owner.rows),
        "weights": (0 if owner.weight is None else WEIGHT_BITS, owner.rows),
        "keys": (d * edges, _KEY_BITS),
        "bins": (trained, d * (edges + missing)),
        "held_out": (held, d * (edges + 1 + missing)),
    }


def contribute_columns(
    lines: Sequence[Line],
    terms: OwnerTerms,
    config: TrainConfig,
    consent: Consent,
    X: TableLike,
    y: ColumnLike | None,
    sample_weight: ColumnLike | None,
    ids: Iterable[str] | None,
) -> dict[str, Any]:
    """Contribute columns to both parties under terms that both have sent, as `contribute`."""
    if terms.purpose == "training":
        table = read_training(X, y, sample_weight, config, dictionary(X))
    else:
        table = Table(*_of_model(X, config, terms.names))
    digest = None if ids is None else digest_of(ids)
    owner = _facts(config, table, digest is not None, consent)
    told = {"version": VERSION, **ColumnsFacts.told(owner)}
    for line in lines:
        line.send("owner.facts", told)
    if digest is not None:
        send_halves(lines, "owner.ids", divide_bits(np.unpackbits(np.frombuffer(digest, np.uint8))))
    if terms.purpose == "training":
        send_halves(lines, "owner.bits", divide_bits(training_bits(config, table, owner)))
    else:
        optional = [f for f, name in enumerate(table.names) if config.may_miss(name)]
        send_halves(lines, "owner.keys", divide(keys_of(table.features, optional).T))
    receipts = [line.receive("owner.receipt", FEW_BYTES) for line in lines]
    sent = sum(line.wire_sent for line in lines)
    return {"id": owner.id, "rows": owner.rows, "receipts": receipts, "bytes": sent}


def _facts(config: TrainConfig, table: Table, ids: bool, consent: Consent) -> OwnerColumns:
    labelled, rows, id = table.labels is not None, len(table.features), os.urandom(16).hex()
    scales = exponents(config, table) if labelled else (None, None)
    return OwnerColumns("", id, rows, *scales, table.names, labelled, ids, **consent.facts)


def training_bits(config: TrainConfig, table: Table, owner: OwnerColumns) -> np.ndarray:
    """Return all bits that an owner contributes to a training, in the order of `shapes`, uint8."""
    trained, held = hold_out(table, config)
    bins = make_bins(trained.features, edge_count(config, len(trained.features)))
    size = bins.edges.shape[1] + any(map(config.may_miss, table.names))
    parts = [
        key_bits(bins.edges).T,
        _one_hot(bins.numbers, size),
        _one_hot(bin_rows(held.features, bins.cuts), size + 1),
    ]
    if table.weights is not None:
        parts.insert(0, weight_bits(table.weights, owner.weight or 0))
    if owner.labelled:
        parts.insert(0, label_bits(config, table, owner.exponent))
    return np.concatenate([part.reshape(-1) for part in parts])


def _one_hot(numbers: np.ndarray, size: int) -> np.ndarray:
    return (numbers[..., None] == np.arange(size)).astype(np.uint8)


def _of_model(X: TableLike, config: TrainConfig, names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return features float32[n, d] of rows to predict, in the model's order, and their names. Raises DataError."""
    frame = frame_of(X)
    known = {} if frame is None else columns_behind(names, [str(c) for c in frame.columns])
    if frame is not None and set(map(str, frame.columns)) == set(known):
        X = frame[list(known)]
    features, found = read_features(X, config, known=known)
    if frame is None and len(found) == len(names):
        found = tuple(names)  # an array has no names
    if found != tuple(names):
        raise DataError(f"an owner must have its features of the model, {', '.join(names)}, got {', '.join(found)}")
    return features, found


class OwnersOfColumns:
    """Implements `Source` with lines to owners who wait. ids: the digest of the parties' ids of rows, if any."""

    def __init__(self, lines: Mapping[str, Line], ids: bytes | None = None) -> None:
        self._lines = dict(sorted(lines.items()))
        self._digests: list[str] = []
        self.ids = ids

    def open(self, party: Party, config: TrainConfig, known: Dictionary, names: tuple[str, ...]) -> ContributedColumns:
        owners = self._met(config, "training", dict.fromkeys(self._lines, ()))
        check_consent(owners.values())
        ids, bits, parts = [], [], []
        for name, owner in owners.items():
            parts.append(shapes(config, owner))
            if (count := sum(map(math.prod, parts[-1].values()))) > MOST_BITS:
                raise RangeError(
                    f"{name}: contributes {owner.rows} rows of {len(owner.names)} features, more than "
                    f"2^{MOST_BITS.bit_length() - 1} bits: divide its columns among several contributions"
                )
            ids.append(self._half_of_bits(party, name, "ids", 8 * BYTES) if owner.ids else None)
            bits.append(self._half_of_bits(party, name, "bits", count))
        return ContributedColumns(config, party.rank, owners, parts, bits, ids, self)

    def keys(self, party: Party, model: SharedModel) -> ContributedKeys:
        """Get the keys of the owners' values of the rows to predict. Raises ConfigError, DataError."""
        wanted = features_by_owner(model)
        if lacking := sorted(wanted.keys() - self._lines.keys()):
            raise ConfigError(f"{', '.join(lacking)} must contribute, whose columns the model has")
        self._lines = {name: self._lines[name] for name in sorted(wanted)}
        owners, parts, ids = self._met(model.config, "prediction", wanted), [], []
        for name, owner in owners.items():
            if owner.names != wanted[name]:
                raise DataError(f"{name}: must have its features of the model")
            ids.append(self._half_of_bits(party, name, "ids", 8 * BYTES) if owner.ids else None)
            shape = len(owner.names) + sum(map(model.config.may_miss, owner.names)), owner.rows
            part = self._lines[name].receive("owner.keys", 8 * math.prod(shape) + FEW_BYTES)
            parts.append(half(party.rank, part, shape, U64, name))
            self._digests.append(digest_of_half(part))
        return ContributedKeys(party.rank, owners, parts, ids, self)

    def confirm(self) -> None:
        for line, digest in zip(self._lines.values(), self._digests, strict=True):
            line.send("owner.receipt", digest)

    def _met(self, config: TrainConfig, purpose: str, names: Mapping[str, Sequence[str]]) -> dict[str, OwnerColumns]:
        """Send terms to all owners, and return what they say of themselves."""
        for name, line in self._lines.items():
            line.send(
                "owner.terms",
                {
                    "version": VERSION,
                    "config": config.model_dump(),
                    "purpose": purpose,
                    "names": list(names[name]),
                    "categories": {},
                },
            )
        return {name: received(Told, line, "owner.facts").of_owner(name) for name, line in self._lines.items()}

    def _half_of_bits(self, party: Party, name: str, what: str, count: int) -> np.ndarray:
        part = self._lines[name].receive(f"owner.{what}", count // 8 + FEW_BYTES)
        packed = packed_half(party.rank, part, count, name)
        if what == "bits":
            self._digests.append(digest_of_half(part))
        return packed


def features_by_owner(model: SharedModel) -> dict[str, tuple[str, ...]]:
    """Return the features of each owner of a model, in the order of the model; owners of labels only have none."""
    facts, out = model.facts, dict[str, tuple[str, ...]]()
    start = len(facts.names) - sum(facts.owner_widths)
    for (name, _, _), width in zip(facts.owners, facts.owner_widths, strict=False):  # by rows, there are no widths
        out[name] = facts.names[start : start + width]
        start += width
    return {name: features for name, features in out.items() if features}
