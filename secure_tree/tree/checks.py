"""What an audit checks of a tree: relations between its stages that hold in every honest run. Without one, nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpc.arithmetic.beaver import dot
from mpc.arithmetic.bits import select, to_ring
from mpc.endpoint import Endpoint
from mpc.party import Party
from mpc.rounding.widening import widen
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, concatenate
from secure_tree.tree.histogram import BlockMasks


def children_add_up(party: Party, children: AShare, parents: AShare | None) -> None:
    """The sums of both children, [2 v, ..], add up to those of their parents, [v, ..]."""
    if party.audit and parents is not None:
        party.audit.zero(children[0::2] + children[1::2] - parents, "both children add up to their parent")


def one_winner(party: Party, best: BShare, key: AShare, largest: AShare) -> None:
    """Each node has one winner, <[v, C]>, and its key is the largest."""
    if party.audit:
        party.audit.zero(~best.parity(axis=1), "each node has one winner")
        party.audit.later(_of_winner(party.unaudited(), best, key, largest), "the winner has the largest key")


def rows_arrived(party: Party, total: AShare, chosen: AShare | None) -> None:
    """The rows sent left add up to the left sums of the winners."""
    if party.audit and chosen is not None:
        party.audit.zero(total - chosen, "rows sent left add up to the left sums of the split")


def rows_arrived_at_leaves(party: Party, totals: Callable[[Party], Steps[AShare]], chosen: AShare) -> Steps[None]:
    """The same of the last level, whose sums nothing else needs."""
    if party.audit:
        of_left = yield from totals(party)
        if chosen.ring != of_left.ring:
            of_left = yield from widen.steps(party, of_left)
        rows_arrived(party, of_left, chosen)


def bins_add_up(party: Party, masks: Sequence[BlockMasks], values: AShare, sums: Sequence[AShare]) -> None:
    """The bins of a feature add up to the values of all rows."""
    if party.audit:
        for mask, of_block in zip(masks, sums, strict=True):
            of_rows = values[..., mask.block.rows].sum(axis=-1)
            party.audit.zero(
                of_block.sum(axis=-1) - of_rows.map(lambda w: w[..., None]), "the bins of a feature add up"
            )


def one_split(party: Party, winner: BShare) -> None:
    """Each node has one split or the null split."""
    if party.audit:
        party.audit.zero(~winner.parity(axis=1), "each node has one split or none")


@dataclass(frozen=True)
class Landed:
    """A tree whose rows are at its leaves: [margins] before they get its weights, [leaves], <row is at leaf>."""

    before: AShare
    leaves: AShare
    at_leaf: BShare


def margins_grow_by_leaves(
    party: Party, landed: list[Landed], tree: Landed, trees: int, margin: Callable[[], AShare]
) -> None:
    """Each row is at one leaf, and the sum of margins grew by those of the leaves of all `trees` of a class."""
    if party.audit:
        landed.append(tree)
        if len(landed) == trees:
            party.audit.later(_of_margins(party.unaudited(), landed, margin), "margins grow by the leaves")


def _of_winner(party: Endpoint, best: BShare, key: AShare, largest: AShare) -> Steps[AShare]:
    return (yield from select.steps(party, best, key)).sum(axis=1) - largest


def _of_margins(party: Endpoint, landed: list[Landed], margin: Callable[[], AShare]) -> Steps[AShare]:
    counts = yield from to_ring.steps(party, concatenate([tree.at_leaf for tree in landed]))
    of_leaves = yield from dot.steps(party, concatenate([tree.leaves for tree in landed]), counts.sum(axis=1))
    of_rows = counts.reshape(len(landed), -1, counts.shape[1]).sum(axis=1).reshape(-1)
    grown = (margin() - landed[0].before).sum().at_scale(0) - of_leaves.at_scale(0)
    return concatenate([of_rows - 1, grown.reshape(1)])
