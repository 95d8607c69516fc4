"""Contributed rows are lifted into the ring, and admitted if they are what an owner's table would give.

Functionality  <bins>, <labels> and [counts by key] of an owner -> [bins], [labels]; whether every row has one bin per
               feature (and one class), and whether the bins have the values that were counted, becomes public
Messages       bits to words (mpc/arithmetic/bits.py); the parties' coins; an opening of 4 words and of d K differences;
               then the bins are fixed (mpc/matrix/fixed_operand.py), one owner after the other
Cost           n d K (1/8 + 4 + 1/8) bytes each way, 4 n d K dealt; 16 + 4 d (K + 1) each way for the check
Security       semi-honest parties. The opened words are 0 for an honest owner. Bins and classes that are no one-hots
               pass with probability at most (K / 2^32)^4: four random sums of the excess, with coins drawn after the
               halves came
Source         sums with random coefficients, as in the checks of Prio: Corrigan-Gibbs and Boneh, NSDI 2017
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TypeVar

import numpy as np

from mpc.arithmetic.bits import to_ring
from mpc.errors import DataError
from mpc.matrix.known_matrix import MatrixRows
from mpc.party import Party
from mpc.planning import planned
from mpc.rings import Z32
from mpc.rounds import Steps, exchange_words, named, parallel
from mpc.shares import AShare, BShare, concatenate
from secure_tree.data.bins import ORDER_BITS, order_key
from secure_tree.data.contributed import Contributed
from secure_tree.owners.contributing import has_missing
from secure_tree.owners.encoding import lift_labels, lift_weights
from secure_tree.public.context import OwnerFacts, TrainingContext
from secure_tree.tree.histogram import fix_bins, fix_lines

T = TypeVar("T")
_COIN_BYTES = 16
# Random sums of the excess that must be 0.
SUMS = 4


def admit(party: Party, context: TrainingContext, contributed: Contributed, edges: np.ndarray) -> None:
    """Get the bins at these edges, check them, and fix them for a training.

    Raises DataError at both parties, which names the owner.
    """
    labels, weights = [], []
    for k, words, bits, of_rows in checked(party, context, contributed, edges):
        trained, held = contributed.trained[k], contributed.held[k]
        if words is None:
            contributed.packed.append(np.packbits(bits[trained].bits, axis=1))
        else:
            contributed.matrices.append(in_setup(party, partial(fix_bins, bits=bits[trained], words=words)))
        held_out = in_setup(party, partial(fix_lines, bits=bits[held])) if len(held) else None
        contributed.held_out.append(held_out)
        labels.append((of_rows[:, trained], of_rows[:, held]))
        if context.facts.weight_scale is not None:
            owner, given = contributed.owners[k], contributed.weights[k]
            every = in_setup(party, partial(lift_weights, context=context, owner=owner, bits=given))
            weights.append(every[trained])
    contributed.targets, contributed.validation_targets = (
        concatenate(list(x), axis=1) for x in zip(*labels, strict=True)
    )
    contributed.row_weights = concatenate(weights) if weights else None
    contributed.counts = []
    contributed.source.confirm()


def same_edges(contributed: Contributed, edges: np.ndarray) -> None:
    """Raise DataError if the bins were cut at other edges before."""
    if contributed.edges is not None and not np.array_equal(contributed.edges, edges):
        raise DataError("contributions were collected at other edges than those of xgb_model: train a new model")


def examine(
    party: Party, context: TrainingContext, contributed: Contributed, edges: np.ndarray
) -> Iterator[tuple[OwnerFacts, BShare, BShare, BShare | None]]:
    """Get the bins at these edges, and check them; yield <bins>, <labels>, <weights> by owner. Raises DataError."""
    for k, _, bits, _ in checked(party, context, contributed, edges):
        yield contributed.owners[k], bits, contributed.labels[k], contributed.weights[k]


def checked(
    party: Party, context: TrainingContext, contributed: Contributed, edges: np.ndarray
) -> Iterator[tuple[int, AShare | None, BShare, AShare]]:
    """Yield of each owner that is not left out: its number, [bins] of the rows to train on, <bins> and [labels] of all
    rows. Workers lift their own bins.
    """
    counts: Iterable[MatrixRows | None] = contributed.counts or repeat(None, len(contributed.owners))
    bins = contributed.source.at(edges, has_missing(context.config))
    for k, (owner, count, bits) in enumerate(zip(contributed.owners, counts, bins, strict=True)):
        if bits is None:
            continue
        # Rows that are held out are lifted only to be checked.
        lifted = None if party.workers else bits if count is not None else bits[contributed.trained[k]]
        steps = partial(_lifted, context=context, owner=owner, bins=lifted, labels=contributed.labels[k])
        words, labels = in_setup(party, steps)
        if count is not None:
            assert words is not None, "with workers, bins were checked before"
            try:
                with party.stage("setup"):
                    _check(party, context, owner, words, labels, contributed.trained[k], count[:], edges)
            except DataError as error:
                contributed.source.refuse(owner, error)
                continue
            words = words[contributed.trained[k]]
        yield k, words, bits, labels


def _lifted(
    party: Party, context: TrainingContext, owner: OwnerFacts, bins: BShare | None, labels: BShare
) -> Steps[tuple[AShare | None, AShare]]:
    of_labels = lift_labels(party, context, owner, labels)
    if bins is None:
        return None, (yield from of_labels)
    words, numbers = yield from parallel(to_ring.steps(party, bins, Z32), of_labels)
    return words, numbers


def in_setup(party: Party, steps: Callable[[Party], Steps[T]]) -> T:
    """Plan and run a protocol. Stage: setup."""
    return planned(party, "setup", lambda party: party.run(steps(party)))


def _check(
    party: Party,
    context: TrainingContext,
    owner: OwnerFacts,
    words: AShare,
    labels: AShare,
    trained: np.ndarray,
    counts: np.ndarray,
    edges: np.ndarray,
) -> None:
    """Raise DataError unless the rows are valid."""
    (d, size), optional = edges.shape, context.layout.optional[-1]
    hot = words.reshape(owner.rows, d, -1)
    excess = [(hot.sum(axis=2) - 1).reshape(-1)]
    if context.config.num_class:
        excess.append((labels.sum(axis=0) - 1).narrow(Z32))
    sums = concatenate(excess)
    seed = party.run(named("owners.coins", public_coins(party)))
    coins = np.random.Philox(seed.tolist()).random_raw(SUMS * sums.size // 2).view(np.uint32).reshape(SUMS, -1)
    combined = sums.map(lambda w: coins @ w)
    of_rows = hot[trained].sum(axis=0)
    searched = context.config.searched(context.facts.names)
    counted = AShare(of_bins(counts, edges[searched]), party.rank)
    missing = hot.sum(axis=0)[[f for f in range(d) if f not in optional], size:]
    zeros = [combined, (of_rows[searched, :size] - counted).reshape(-1), missing.reshape(-1)]
    opened = party.reveal(concatenate(zeros), what=f"that {owner.name}'s rows are valid")
    assert opened is not None, "revealed to both"
    if opened[:SUMS].any():
        raise DataError(f"{owner.name}: its rows have not one bin per feature and one class each: they are not used")
    if opened[SUMS:].any():
        raise DataError(f"{owner.name}: its bins are not those of the values that it counted: they are not used")


def of_bins(counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts by key, uint32[d, 2^bits] -> counts by bin at these edges, uint32[d, K]."""
    bits = counts.shape[1].bit_length() - 1
    starts = order_key(edges) - 1 >> ORDER_BITS - bits
    starts[:, 0] = 0
    up_to = np.concatenate([np.zeros((len(counts), 1), np.uint32), np.cumsum(counts, axis=1, dtype=np.uint32)], axis=1)
    below = np.take_along_axis(up_to, starts, axis=1)
    return np.diff(below, axis=1, append=up_to[:, -1:])


def public_coins(party: Party) -> Steps[np.ndarray]:
    """Draw a seed that both parties know and neither chooses alone, uint32[4]. One round."""
    mine = np.frombuffer(party.draw(_COIN_BYTES), np.uint32)
    (theirs,) = yield from exchange_words([mine], [32])
    return mine ^ theirs
