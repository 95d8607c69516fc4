"""Contributed columns are lifted into the ring, and admitted if each value has one bin.

Functionality  <bins>, <keys>, <labels> and <digest of ids> of each owner -> [bins], <keys>, [labels]; of each owner
               becomes public whether its rows have one bin per feature (and one class), and the parties' ids
Messages       secure_tree/agreement/same_rows.py; the parties' coins; bits to words (mpc/arithmetic/bits.py) and their
               fixing (mpc/matrix/fixed_operand.py), all columns of some rows after the other; an opening of 4 words for
               each owner
Cost           for D columns in all: n D K (1/8 + 4 + 1/8) bytes each way, 4 n D K dealt
Security       semi-honest parties. The opened words are 0 for an honest owner. Bins and classes that are no one-hots
               pass with probability at most (K / 2^32)^4, as in secure_tree/owners/admission.py
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from mpc.arithmetic.bits import to_ring
from mpc.errors import DataError
from mpc.matrix.fixed_operand import fix
from mpc.party import Party
from mpc.planning import planned
from mpc.rings import Z32
from mpc.rounds import named
from mpc.shares import AShare, BShare, concatenate
from secure_tree.agreement.same_rows import check_rows_of_owners
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.owners.admission import SUMS, in_setup, public_coins
from secure_tree.owners.encoding import lift_labels, lift_weights
from secure_tree.public.context import TrainingContext
from secure_tree.public.layout import Layout
from secure_tree.tree.histogram import fix_bins, fix_lines

# Elements of the bin matrix that are lifted at a time: all columns of some rows.
PIECE = 1 << 23


def admit_columns(party: Party, context: TrainingContext, given: ContributedColumns, keep: bool = True) -> None:
    """Check all columns, and fix them for a training if they are kept; with workers, these fix the bins of their rows.

    Raises DataError at both parties, which names the owner.
    """
    check_rows_of_owners(party, given.source.ids, dict(zip(given.owners, given.ids, strict=True)))
    layout, (trained, held) = context.layout, (context.layout.row_count, context.facts.validation_rows[0])
    with party.stage("setup"):
        coins = np.random.Philox(party.run(named("owners.coins", public_coins(party))).tolist())
    excess = [_labels(party, context, given, coins)]
    for rows, bits in _pieces(given, False, trained, layout):
        words = planned(party, "setup", lambda p: to_ring(p, bits, Z32))  # noqa: B023  used at once
        excess.append(_excess(given, words, coins))
        if keep and not party.workers:
            given.rows.append(rows)
            flat = partial(fix_bins, bits=bits.reshape(rows, -1), words=words.reshape(rows, -1))
            given.matrices.append(in_setup(party, flat))
    held_out = []
    for _, bits in _pieces(given, True, held, layout):
        excess.append(_excess(given, planned(party, "setup", lambda p: to_ring(p, bits, Z32)), coins))  # noqa: B023
        held_out.append(bits.reshape(len(bits), -1))
    with party.stage("setup"):
        _require_zero(party, given, excess)
    if keep and len(layout.blocks) > 2:
        keys = concatenate(given.part("keys"))
        given.keys = planned(party, "setup", lambda p: fix(p, keys[None]))
        if held_out:
            given.held_out = in_setup(party, partial(fix_lines, bits=concatenate(held_out)))


def _pieces(given: ContributedColumns, held: bool, count: int, layout: Layout) -> Iterator[tuple[int, BShare]]:
    """Yield numbers of rows, and their <one-hots> of all columns, [r, D, bins]; nothing without columns."""
    if len(layout.blocks) < 3:
        return
    size = layout.bins(2) + held
    step = max(1, PIECE // (layout.widths[2] * size))
    for start in range(0, count, step):
        rows = slice(start, min(start + step, count))
        yield rows.stop - rows.start, given.hot(held, rows, size)


def _excess(given: ContributedColumns, hot: AShare, coins: np.random.Philox) -> AShare:
    """[one-hots], [r, D, size] -> random sums of what is beyond one 1 per value, [SUMS, owners]."""
    ends = np.cumsum([0, *(len(owner.names) for owner in given.owners.values())])
    summed = _random_sums(hot.sum(axis=2) - 1, coins)
    return summed.map(lambda w: np.diff(np.pad(w.cumsum(axis=1, dtype=w.dtype), ((0, 0), (1, 0)))[:, ends], axis=1))


def _random_sums(values: AShare, coins: np.random.Philox) -> AShare:
    """[values], [r, D] -> sums over rows with random coefficients, [SUMS, D]."""
    factors = coins.random_raw(SUMS * values.size // 2).view(np.uint32).reshape(SUMS, *values.shape)
    return values.map(lambda w: (factors * w).sum(axis=1, dtype=w.dtype))


def _labels(party: Party, context: TrainingContext, given: ContributedColumns, coins: np.random.Philox) -> AShare:
    """Lift the labels and weights, if an owner has them, and return random sums likewise."""
    out = AShare(np.zeros((SUMS, len(given.owners)), np.uint32), party.rank)
    parts = zip(given.owners.values(), given.part("labels"), given.part("weights"), strict=True)
    for k, (owner, bits, of_weights) in enumerate(parts):
        if not owner.labelled:
            continue
        held = given.held_rows(owner.rows)
        trained = np.delete(np.arange(owner.rows), held)
        labels = in_setup(party, partial(lift_labels, context=context, owner=owner, bits=bits))
        given.targets, given.validation_targets = labels[:, trained], labels[:, held]
        if context.facts.weight_scale is not None:
            some = of_weights if len(of_weights) else None
            weights = in_setup(party, partial(lift_weights, context=context, owner=owner, bits=some))
            given.row_weights = weights[trained]
        if context.config.num_class:
            sums = _random_sums((labels.sum(axis=0) - 1).narrow(Z32).reshape(-1, 1), coins)
            out = out.map(lambda w: w + sums.words * (np.arange(w.shape[1]) == k))  # noqa: B023  used at once
    return out


def _require_zero(party: Party, given: ContributedColumns, excess: list[AShare]) -> None:
    total = excess[0]
    for more in excess[1:]:
        total = total + more
    opened = party.reveal(total, what="that the columns of each owner are valid")
    assert opened is not None, "revealed to both"
    for name, sums in zip(given.owners, opened.T, strict=True):
        if sums.any():
            raise DataError(f"{name}: its rows have not one bin per feature and one class each: they are not used")
