"""Checkpoints: one file per round with this party's shares of its trees, and the margins to resume a training from.

A resumed training is a new attempt with new correlated randomness; only shares are carried over. Both parties resume
from the newest round that is complete at both, and delete later rounds. Every file contains the random ids of its
training and of the attempt that grew the round. The parties compare all of them, so that shares of different attempts
are never combined, even if a folder is restored from a backup. Every file also contains a MAC of this party's
configuration and data under a random key of the folder, which reveals nothing about the data without the key. The bins
are cut once per training and kept as well, because bins over shards are random.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.encryption import FileKey
from mpc.host.files import flush_folder, make_folder, read_bounded, remove, write_bytes
from mpc.party import Party
from mpc.shares import AShare, BShare, stack
from secure_tree.agreement.training import agree_on_resumption
from secure_tree.data.bins import Bins
from secure_tree.data.fingerprint import KEY_BYTES, fingerprint
from secure_tree.data.own_rows import OwnRows
from secure_tree.model.ensemble import TreeShares
from secure_tree.model.storage import Arrays, read_arrays, reading, unpack_bits, write_arrays

log = logging.getLogger("sharewood")

FORMAT = 9
_WHAT = f"checkpoint of format {FORMAT}"
_ROLE = "checkpoint"
_KEY_BYTES = 32
_NUMBERED = re.compile(r"(bins|round|margin)_([0-9]{5})\.npz(\.partial)?")
_MAC_KEY = "key"
_MARGINS_KEPT = 4
_WHOLE = ("winner", "leaves", "gains", "covers")

# Shares, or lists of shares, by name.
Parts = dict[str, Any]


def is_checkpoint(path: Path) -> bool:
    """Return whether a file of a folder of checkpoints was written by a training, by its name."""
    return bool(_NUMBERED.fullmatch(path.name)) or path.name in (_MAC_KEY, f"{_MAC_KEY}.partial")


@dataclass(frozen=True)
class Kept:
    """The content of a folder: attempts and trees of rounds 1, 2, ..., margins by number of rounds, and the bins."""

    training: str | None = None
    attempts: list[str] = field(default_factory=list)
    rounds: list[list[TreeShares]] = field(default_factory=list)
    margins: dict[int, AShare] = field(default_factory=dict)
    bins: Bins | None = None

    @property
    def points(self) -> set[tuple[int, str]]:
        """The points to resume from: a number of rounds, and a digest of the attempts that grew them."""
        grown_by = {n: " ".join(self.attempts[:n]).encode() for n in self.margins}
        return {(n, hashlib.sha256(text).hexdigest()) for n, text in grown_by.items()}


@dataclass
class Checkpoints:
    """The checkpoints of one party, in a folder of its own.

    resume: continue the training from its checkpoints, up to a larger `n_estimators` if both parties set one.
    key: encrypts the files. done: the number of rounds that the attempt began with, or None before it begins.
    """

    folder: Path
    resume: bool = False
    key: FileKey | None = field(default=None, kw_only=True)
    done: int | None = field(default=None, init=False)

    def start(self, party: Party, pairing: str, config: dict[str, Any], rows: OwnRows) -> Attempt:
        """Agree with the peer on the round to begin at. `rows` are this party's own rows, which are never sent.

        Raises ConfigError if only one party resumes or there is nothing to resume, DataError for checkpoints of another
        training.
        """
        kept, trouble, key = Kept(), None, secrets.token_bytes(_KEY_BYTES)
        resuming = self.resume and bool(self._numbers("round"))
        if resuming:
            try:
                key = self._read_key()
            except DataError as error:
                trouble = error
        # Both parties must query their rows at the same time, whatever each finds in its folder.
        own = _mac(key, config, fingerprint(rows, key[:KEY_BYTES]))
        if resuming and not trouble:
            try:
                kept = self._kept(own, party.rank)
            except DataError as error:
                trouble = error
        try:
            done = agree_on_resumption(party, self.resume, kept.training, kept.points)
        except (ConfigError, PeerFailure) as error:
            raise trouble or error from None
        if trouble:
            raise trouble
        if not self.resume:
            self._begin(key)
            return Attempt(self, pairing, pairing, own)
        if done > config["n_estimators"]:
            raise ConfigError(
                f"n_estimators must be at least {done}, the number of rounds kept, got {config['n_estimators']}"
            )
        return self._go_on(kept, pairing, own, done)

    def any_kept(self) -> bool:
        """Return whether the attempt has begun and has a round to resume from."""
        return self.done is not None and self._file("round", 1).exists()

    def save(self, number: int, attempt: Attempt, trees: list[TreeShares], margin: AShare) -> None:
        """Save round `number` (from 1), its trees, and the margin after it.

        Keep the newest margins and ever fewer of the older ones. If a party has lost its last rounds, both parties then
        still have a margin of the same round.
        """
        self._write("margin", number, attempt, _pack({"margin": margin}))
        parts: Parts = {name: stack([getattr(t, name) for t in trees]) for name in _WHOLE}
        parts["sets"] = [stack(list(of_block)) for of_block in zip(*(t.sets for t in trees), strict=True)]
        self._write("round", number, attempt, _pack(parts))
        # Margin r is removed at an age of _MARGINS_KEPT times the largest power of two that divides r.
        remove(self._file("margin", number - _MARGINS_KEPT * (number & -number)))

    def save_bins(self, attempt: Attempt, bins: Bins) -> None:
        """Save the bins of the training, without the features."""
        arrays = {"cuts": bins.cuts, "medians": bins.medians, "finer": np.array(bins.finer)}
        self._write("bins", 0, attempt, arrays)

    def _begin(self, key: bytes) -> None:
        make_folder(self.folder)
        self._forget(0)
        remove(self._file("bins", 0))
        write_bytes(self._mac_key, key)
        self.done = 0

    def _go_on(self, kept: Kept, pairing: str, own: str, count: int) -> Attempt:
        assert kept.training is not None, "there are rounds"
        trees = [tree for grown in kept.rounds[:count] for tree in grown]
        self._forget(count)
        self.done = count
        log.info("resumed after round %d of trees from the checkpoints in %s", count, self.folder)
        return Attempt(self, kept.training, pairing, own, count, trees, kept.margins[count], kept.bins)

    def _kept(self, own: str, rank: int) -> Kept:
        """Read all undamaged files.

        Raises DataError if round 1 is damaged, or if a file belongs to another training or to other data.
        """
        training, attempts, rounds = None, list[str](), list[list[TreeShares]]()
        for number in range(1, max(self._numbers("round"), default=0) + 1):
            try:
                facts, arrays = read_arrays(self._file("round", number), _WHAT, self.key, _ROLE)
            except DataError as damaged:
                if number == 1:
                    raise
                log.warning("%s; the newest complete round is %d", damaged, number - 1)
                break
            training = training or facts.get("training")
            with self._checked("round", number, facts, training, own):
                rounds.append(_trees(_unpack(arrays, rank)))
                attempts.append(facts["attempt"])
        margins: dict[int, AShare] = {}
        for number in self._numbers("margin"):
            try:
                facts, arrays = read_arrays(self._file("margin", number), _WHAT, self.key, _ROLE)
            except DataError as damaged:
                log.warning("%s; training cannot resume after round %d", damaged, number)
                continue
            with self._checked("margin", number, facts, training, own):
                margin = _unpack(arrays, rank)["margin"]
            if number <= len(attempts) and facts["attempt"] == attempts[number - 1]:
                margins[number] = margin
        facts, arrays = read_arrays(self._file("bins", 0), _WHAT, self.key, _ROLE)
        with self._checked("bins", 0, facts, training, own):
            none = np.zeros((0, len(arrays["cuts"])), np.float32)
            bins = Bins(none, arrays["cuts"], arrays["medians"], int(arrays["finer"]))
        return Kept(training, attempts, rounds, margins, bins)

    @contextmanager
    def _checked(self, kind: str, number: int, facts: dict[str, Any], training: str | None, own: str) -> Iterator[None]:
        """Interpret a file inside, after checking that it belongs here. Raises DataError."""
        path = self._file(kind, number)
        with reading(path, _WHAT):
            if facts["format"] != FORMAT:
                raise DataError(f"{path}: checkpoint format {facts['format']}, this Sharewood reads {FORMAT}")
            if not hmac.compare_digest(facts["own"], own):
                raise DataError(f"{path}: the checkpoint belongs to another configuration or other data")
            if facts["training"] != training:
                raise DataError(
                    f"{path}: the checkpoint and that of round 1 belong to different trainings: remove one of the two"
                )
            if (facts["kind"], facts["number"]) != (kind, number):
                raise DataError(f"{path}: the file is {facts['kind']} {facts['number']}, renamed: restore its name")
            yield

    def _write(self, kind: str, number: int, attempt: Attempt, arrays: Arrays) -> None:
        ids = {"training": attempt.training, "attempt": attempt.pairing, "own": attempt.own}
        facts = {"format": FORMAT, "kind": kind, "number": number, **ids}
        write_arrays(self._file(kind, number), facts, arrays, self.key, _ROLE)

    def _file(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}_{number:05d}.npz"

    @property
    def _mac_key(self) -> Path:
        return self.folder / _MAC_KEY

    def _numbers(self, kind: str) -> list[int]:
        found = (_NUMBERED.fullmatch(path.name) for path in self._entries())
        return sorted(int(match[2]) for match in found if match and match[1] == kind and not match[3])

    def _entries(self) -> list[Path]:
        try:
            return list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DataError(f"{self.folder}: the checkpoints cannot be read ({error.strerror})") from None

    def _forget(self, beyond: int) -> None:
        """Remove later rounds and partial files, the newest first, so that a crash leaves no gap."""
        found = ((path, _NUMBERED.fullmatch(path.name)) for path in self._entries())
        for path, match in sorted(((p, m) for p, m in found if m), key=lambda entry: entry[1][2], reverse=True):
            if match[3] or int(match[2]) > beyond:
                remove(path)
        flush_folder(self.folder)

    def _read_key(self) -> bytes:
        with reading(self._mac_key, "key of a checkpoints folder"):
            key = read_bounded(self._mac_key)
            if len(key) != _KEY_BYTES:
                raise ValueError(f"{len(key)} bytes")
        return key


@dataclass(frozen=True)
class Attempt:
    """One run of a training: the random ids of both, and the rounds, margin and bins that earlier runs have saved."""

    checkpoints: Checkpoints
    training: str
    pairing: str
    own: str
    done: int = 0
    trees: list[TreeShares] = field(default_factory=list)
    margin: AShare | None = None
    kept_bins: Bins | None = None

    def bins(self, rows: OwnRows, cut: Callable[[], Bins]) -> Bins:
        """Return the saved bins of the training; cut and save new ones if there are none."""
        if self.kept_bins is not None:
            return rows.with_features(self.kept_bins)
        bins = cut()
        self.checkpoints.save_bins(self, bins)
        return bins

    def save(self, number: int, trees: list[TreeShares], margin: AShare) -> None:
        """Save round `number` (from 1)."""
        self.checkpoints.save(number, self, trees, margin)


def _mac(key: bytes, config: dict[str, Any], rows: str) -> str:
    """Return a MAC of a party's data and configuration, without `n_estimators`, which may be raised on resuming."""
    fixed = {name: value for name, value in config.items() if name != "n_estimators"}
    text = json.dumps([fixed, rows], sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _trees(parts: Parts) -> list[TreeShares]:
    """Return the trees of a round."""
    return [
        TreeShares(sets=[sets[k] for sets in parts["sets"]], **{name: parts[name][k] for name in _WHOLE})
        for k in range(len(parts["leaves"]))
    ]


def _pack(parts: Parts) -> Arrays:
    """Shares, or lists of shares, by name -> arrays."""
    arrays: Arrays = {}
    for name, part in parts.items():
        for place, share in enumerate(part) if isinstance(part, list) else [("", part)]:
            if isinstance(share, BShare):
                arrays[f"bits.{name}.{place}"] = np.packbits(share.bits)
                arrays[f"shape.{name}.{place}"] = np.array(share.shape)
            else:
                arrays[f"words.{name}.{place}"] = share.words
                arrays[f"scale.{name}.{place}"] = np.array(share.scale)
    return arrays


def _unpack(arrays: Arrays, rank: int) -> Parts:
    """Invert `_pack`."""
    parts: Parts = {}
    for key, array in arrays.items():
        kind, name, place = key.split(".")
        if kind == "bits":
            bits = unpack_bits(array, arrays[f"shape.{name}.{place}"])
            share: AShare | BShare = BShare(bits, rank)
        elif kind == "words":
            share = AShare(array, rank, int(arrays[f"scale.{name}.{place}"]))
        else:
            continue
        if place:
            parts.setdefault(name, []).append(share)
        else:
            parts[name] = share
    return parts
