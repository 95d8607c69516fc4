"""Correlated transfers of two parties in one thread, one of whom lies and guesses the other's secrets.

For tests and notebooks. Trees and base OTs are drawn here, so that an extension takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.rounds import Round, Steps
from mpc.words import U8, U64, Shape
from protocols.ot import ferret, softspoken
from protocols.ot.consistency import PlaneHash

SESSION = b"a session's name has 32 bytes..."
# Returns what a party sends in place of its arrays, given its rank and the number of the round.
Lie = Callable[[int, int, list[np.ndarray]], list[np.ndarray]]


def honest(rank: int, number: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Lie about nothing."""
    return arrays


def meet(sender: Steps[Any], receiver: Steps[Any], lie: Lie = honest) -> list[Any]:
    """Drive two programs of one message per round, which end together; return their results."""
    programs, results = (sender, receiver), [None, None]
    asked = [next(program) for program in programs]
    for number in range(10):
        sent = [lie(rank, number, [np.array(array) for array in _one(asked[rank]).sent]) for rank in (0, 1)]
        ended = 0
        for rank, program in enumerate(programs):
            try:
                asked[rank] = program.send(sent[1 - rank])
            except StopIteration as done:
                results[rank], ended = done.value, ended + 1
        if ended:
            assert ended == len(programs), "one program ends before the other"
            return results
    raise AssertionError("the programs do not end")


def _one(asked: Round | list[Round]) -> Round:
    assert isinstance(asked, Round), "one message per round"
    return asked


def passes(sender: Any, receiver: Any, lie: Lie) -> bool:
    """Return whether both go on after an extension. Raises what is not the check's refusal."""
    try:
        meet(sender.extend(1), receiver.extend(1), lie)
    except ProtocolDesync as error:
        if "contradict each other" not in str(error):
            raise
        return False
    return True


def _words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2**64, shape, np.uint64)


def _delta(rng: np.random.Generator) -> np.ndarray:
    return _words(rng, 2) | np.array([1, 0], U64)


def softspoken_pair(
    rng: np.random.Generator,
) -> tuple[softspoken.SoftSpokenSender, softspoken.SoftSpokenReceiver, np.ndarray]:
    """Return a sender and a receiver after set-up, and delta's bits by tree, uint8[32, 4]."""
    delta, leaves = _delta(rng), _words(rng, 16, softspoken.TREES, 2)
    bits = np.unpackbits(delta.view(U8), bitorder="little").reshape(softspoken.TREES, softspoken.FIELD_BITS)
    missing = (bits << np.arange(softspoken.FIELD_BITS)).sum(axis=1)
    by_difference = leaves[np.arange(16)[:, None] ^ missing, np.arange(softspoken.TREES)]
    by_difference[0] = 0
    return softspoken.SoftSpokenSender(delta, by_difference), softspoken.SoftSpokenReceiver(leaves), bits


def lying_corrections(trees: Sequence[int], guesses: Sequence[np.ndarray], row: int) -> Lie:
    """Return the lie of a receiver of SoftSpoken: wrong corrections of trees, in one row, with the answer to the check
    that is right if these are delta's bits, uint8[4] for each tree.
    """
    coins = []

    def lie(rank: int, number: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
        if rank == 0 and number == 1:
            coins.append(arrays[0].view(U64))
        if rank == 1 and number == 0:
            for tree in trees:
                arrays[0].view(U64).reshape(31, 128)[tree - 1, row // 64] ^= U64.type(1 << row % 64)
        if rank == 1 and number == 2:
            error = np.zeros((128, 128), U64)
            error[:, row // 64] = U64.type(1 << row % 64)
            hashed = PlaneHash(coins[0], 1, 128)
            hashed.add(error)
            for tree, guess in zip(trees, guesses, strict=True):
                arrays[0].view(U64)[4 * tree : 4 * tree + 4] ^= hashed.value()[0] * guess.astype(U64)
        return arrays

    return lie


@contextmanager
def small_ferret() -> Iterator[None]:
    """Make iterations of Ferret small inside the block, with 32 trees of three levels."""
    trees, depth, secret = 32, 3, 64
    outputs, kept = trees << depth, secret + trees * depth
    fresh = outputs - kept
    with patch.multiple(ferret, TREES=trees, DEPTH=depth, SECRET=secret, OUTPUTS=outputs, KEPT=kept, FRESH=fresh):
        yield


def ferret_pair(
    rng: np.random.Generator,
) -> tuple[ferret.FerretSender, ferret.FerretReceiver, np.ndarray, np.ndarray]:
    """Return a sender and a receiver after set-up, and the q and the choices that they start from."""
    delta = _delta(rng)
    q, choices = _words(rng, ferret.KEPT, 2), rng.integers(0, 2, ferret.KEPT).astype(U64)
    q[:, 0] &= ~U64.type(1)
    sender = ferret.FerretSender(SESSION, delta, q)
    return sender, ferret.FerretReceiver(SESSION, q ^ choices[:, None] * delta), q, choices


def lying_sums(kept: np.ndarray, guess: np.ndarray, delta: np.ndarray, error: np.ndarray) -> Lie:
    """Return the lie of a sender of Ferret: wrong sums of trees, with the answer to the check that is right if these
    are the choices, which name the path to the noise.

    error: uint64[DEPTH - 1, TREES, 2], added to the message of the only iteration.
    """
    told: dict[str, np.ndarray] = {}

    def lie(rank: int, number: int, arrays: list[np.ndarray]) -> list[np.ndarray]:
        if rank == 0 and number == 0:
            arrays[0].view(U64)[:] ^= error.reshape(-1)
            told["message"] = arrays[0].view(U64).reshape(error.shape)
        if rank == 1 and number == 1:
            told["challenge"] = arrays[0].view(U64)
        if rank == 0 and number == 2:
            # It makes what a receiver with these choices makes; those of another differ by delta times the choices.
            *coin, x = told["challenge"]
            room, (out,) = ferret._room(1)
            choices = np.empty(len(room), U8)
            ferret.FerretReceiver(SESSION, kept ^ guess[:, None] * delta)._iterate(told["message"], out, choices)
            hashed = ferret._hashed(np.array(coin), room, choices)
            arrays[0].view(U64)[:] = hashed.answer(x ^ hashed.challenge()[0][2], delta)
        return arrays

    return lie


def wrong_sums(rng: np.random.Generator, level: int, tree: int) -> np.ndarray:
    """Return the error of one sum of Ferret: uint64[DEPTH - 1, TREES, 2]."""
    shape: Shape = (ferret.DEPTH - 1, ferret.TREES, 2)
    error = np.zeros(shape, U64)
    error[level - 1, tree] = _words(rng, 2)
    return error
