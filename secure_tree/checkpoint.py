"""A file per round: this party's shares of the trees so far and of the margin, from which a killed training goes on.

A resumed training is a new attempt with new correlated randomness; only shares are carried over. Both parties go on
from the newest round that both have whole, and forget what lies beyond it. Every file bears the random ids of its
training and of the attempt that grew the round: the parties compare them all, so that halves of two attempts never
meet, not even where a folder comes from a backup. It also bears a MAC of this party's configuration and data under a
random key of the folder: it says nothing about the data to whoever has the file without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpc.encryption import FileKey
from mpc.errors import ConfigError, DataError
from mpc.files import flush_folder, make_folder, remove, write_bytes
from mpc.party import Party
from mpc.shares import AShare, BShare, stack
from secure_tree.agreement.training import agree_on_resumption
from secure_tree.ensemble import TreeShares
from secure_tree.storage import Arrays, read_arrays, reading, unpack_bits, write_arrays

log = logging.getLogger("sharewood")

FORMAT = 6
_WHAT = f"checkpoint of format {FORMAT}"
_ROLE = "checkpoint"
_KEY_BYTES = 32
_NUMBERED = re.compile(r"(round|margin)_([0-9]{5})\.npz(\.partial)?")
_MARGINS_KEPT = 4
_WHOLE = ("winner", "leaves", "gains", "covers")

# Shares, or lists of shares, by name.
Parts = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """What a folder has of one training: attempts and trees of rounds 1, 2, ..., and margins by number of rounds."""

    training: str | None = None
    attempts: list[str] = field(default_factory=list)
    rounds: list[list[TreeShares]] = field(default_factory=list)
    margins: dict[int, AShare] = field(default_factory=dict)

    @property
    def points(self) -> set[tuple[int, str]]:
        """Where a training can go on: the number of rounds, and a digest of the attempts that grew them."""
        grown_by = {n: " ".join(self.attempts[:n]).encode() for n in self.margins}
        return {(n, hashlib.sha256(text).hexdigest()) for n, text in grown_by.items()}


@dataclass
class Checkpoints:
    """The checkpoints of one party in a folder of its own; with `resume` a training goes on from them, to more
    rounds than it was begun for if the parties ask for them.

    Under a `key` of files they are encrypted. `done`: the rounds that the attempt began with, None before it begins.
    """

    folder: Path
    resume: bool = False
    key: FileKey | None = field(default=None, kw_only=True)
    done: int | None = field(default=None, init=False)

    def start(
        self, party: Party, pairing: str, config: dict[str, Any], private: Sequence[np.ndarray | None]
    ) -> Attempt:
        """Agree with the peer where to begin. `private`: this party's own data, which is never sent.

        Raises ConfigError where only one party resumes or there is nothing to resume, DataError for checkpoints of
        another training.
        """
        kept, own, trouble = Kept(), "", None
        if self.resume:
            try:
                if self._numbers("round"):
                    own = self._fingerprint(config, private)
                    kept = self._kept(own, party.rank)
            except DataError as error:
                trouble = error
        try:
            done = agree_on_resumption(party, self.resume, kept.training, kept.points)
        except ConfigError as error:
            raise trouble or error from None
        if trouble:
            raise trouble
        if not self.resume:
            self._begin()
            return Attempt(self, pairing, pairing, self._fingerprint(config, private))
        if done > config["n_estimators"]:
            raise ConfigError(
                f"n_estimators must be at least {done}, as many rounds as are kept, got {config['n_estimators']}"
            )
        return self._go_on(kept, pairing, own, done)

    def any_kept(self) -> bool:
        """Whether the attempt has begun, and there is a round to resume from."""
        return self.done is not None and self._file("round", 1).exists()

    def save(self, number: int, attempt: Attempt, trees: list[TreeShares], margin: AShare) -> None:
        """Keep round `number` (from 1), a tree per class, and the margin after it.

        The newest margins stay, and ever fewer of the older ones: a party that lost its last rounds still has one that
        the other has, too.
        """
        self._write("margin", number, attempt, {"margin": margin})
        parts: Parts = {name: stack([getattr(t, name) for t in trees]) for name in _WHOLE}
        parts["sets"] = [stack([t.sets[p] for t in trees]) for p in (0, 1)]
        self._write("round", number, attempt, parts)
        # Margin r goes once it is _MARGINS_KEPT times as many rounds old as the largest power of two that divides r.
        remove(self._file("margin", number - _MARGINS_KEPT * (number & -number)))

    def _begin(self) -> None:
        make_folder(self.folder)
        self._forget(0)
        write_bytes(self._mac_key, secrets.token_bytes(_KEY_BYTES))
        self.done = 0

    def _go_on(self, kept: Kept, pairing: str, own: str, count: int) -> Attempt:
        assert kept.training is not None, "there are rounds"
        trees = [tree for grown in kept.rounds[:count] for tree in grown]
        self._forget(count)
        self.done = count
        log.info("resumed after round %d of trees, kept in %s", count, self.folder)
        return Attempt(self, kept.training, pairing, own, count, trees, kept.margins[count])

    def _kept(self, own: str, rank: int) -> Kept:
        """What is whole. Raises DataError where round 1 is not, or a file is of another training or other data."""
        training, attempts, rounds = None, list[str](), list[list[TreeShares]]()
        for number in range(1, max(self._numbers("round"), default=0) + 1):
            try:
                facts, arrays = read_arrays(self._file("round", number), _WHAT, self.key, _ROLE)
            except DataError as damaged:
                if number == 1:
                    raise
                log.warning("%s; the newest whole round is %d", damaged, number - 1)
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
                log.warning("%s; no training resumes after round %d", damaged, number)
                continue
            with self._checked("margin", number, facts, training, own):
                margin = _unpack(arrays, rank)["margin"]
            if number <= len(attempts) and facts["attempt"] == attempts[number - 1]:
                margins[number] = margin
        return Kept(training, attempts, rounds, margins)

    @contextmanager
    def _checked(self, kind: str, number: int, facts: dict[str, Any], training: str | None, own: str) -> Iterator[None]:
        """Make sense of a file that belongs where it lies. Raises DataError for any other."""
        path = self._file(kind, number)
        with reading(path, _WHAT):
            if facts["format"] != FORMAT:
                raise DataError(f"{path}: checkpoint format {facts['format']}, this Sharewood reads {FORMAT}")
            if not hmac.compare_digest(facts["own"], own):
                raise DataError(f"{path}: the checkpoint is of another configuration or other data")
            if facts["training"] != training:
                raise DataError(f"{path}: the checkpoint is of another training than round 1: remove what is not of it")
            if (facts["kind"], facts["number"]) != (kind, number):
                raise DataError(f"{path}: the file is {facts['kind']} {facts['number']} under another name")
            yield

    def _write(self, kind: str, number: int, attempt: Attempt, parts: Parts) -> None:
        ids = {"training": attempt.training, "attempt": attempt.pairing, "own": attempt.own}
        facts = {"format": FORMAT, "kind": kind, "number": number, **ids}
        write_arrays(self._file(kind, number), facts, _pack(parts), self.key, _ROLE)

    def _file(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}_{number:05d}.npz"

    @property
    def _mac_key(self) -> Path:
        return self.folder / "key"

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
        """Remove later rounds, the newest first, so that what a kill leaves has no gap; and files not whole."""
        found = ((path, _NUMBERED.fullmatch(path.name)) for path in self._entries())
        for path, match in sorted(((p, m) for p, m in found if m), key=lambda entry: entry[1][2], reverse=True):
            if match[3] or int(match[2]) > beyond:
                remove(path)
        flush_folder(self.folder)

    def _fingerprint(self, config: dict[str, Any], private: Sequence[np.ndarray | None]) -> str:
        """A MAC of this party's own data, None where it has none, and of the configuration but for `n_estimators`:
        a training that has ended may go on to more rounds.
        """
        fixed = {name: value for name, value in config.items() if name != "n_estimators"}
        with reading(self._mac_key, "key of a checkpoints folder"):
            key = self._mac_key.read_bytes()
            if len(key) != _KEY_BYTES:
                raise ValueError(f"{len(key)} bytes")
        mac = hmac.new(key, json.dumps(fixed, sort_keys=True).encode(), hashlib.sha256)
        for array in private:
            mac.update(str(None if array is None else (array.dtype.str, array.shape)).encode())
            mac.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return mac.hexdigest()


@dataclass(frozen=True)
class Attempt:
    """One run of a training: the random ids of both, the rounds that earlier runs have grown, the margin after them."""

    checkpoints: Checkpoints
    training: str
    pairing: str
    own: str
    done: int = 0
    trees: list[TreeShares] = field(default_factory=list)
    margin: AShare | None = None

    def save(self, number: int, trees: list[TreeShares], margin: AShare) -> None:
        """Keep round `number` (from 1)."""
        self.checkpoints.save(number, self, trees, margin)


def _trees(parts: Parts) -> list[TreeShares]:
    """The trees of a round, one per class."""
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
    """Inverse of `_pack`."""
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
