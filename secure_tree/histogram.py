"""Histograms of secret gradients over bins that one party knows, both parties' blocks of rows together."""

from __future__ import annotations

from dataclasses import dataclass

from mpc.linear_map import BIT, BinColumns, BinRows, SharedMatrix, VectorSupply, apply, hand_over
from mpc.party import Party, Steps, together
from mpc.ring import U32
from mpc.shares import AShare, BShare, concatenate
from mpc.widening import widen
from secure_tree.binning import Bins


@dataclass(frozen=True)
class Block:
    """One party's rows of the bin matrix: the slice of rows, bins a feature, and the matrix in both directions."""

    owner: int
    rows: slice
    size: int
    columns: SharedMatrix
    lines: SharedMatrix


@dataclass
class BlockMasks:
    """A tree's supply of masks for one block."""

    block: Block
    histograms: VectorSupply
    routes: VectorSupply


def hand_over_blocks(party: Party, bins: Bins, features: int, rows: tuple[int, int], sizes: tuple[int, int]) -> Steps:
    """Each party's bins -> both Blocks, rows of party 0 first. One round."""
    steps = []
    for p in (0, 1):
        mine = bins if party.rank == p else None
        columns = BinColumns(mine.numbers, mine.size) if mine else None
        lines = BinRows(mine.numbers, mine.size) if mine else None
        width = features * sizes[p]
        steps.append(hand_over.steps(party, p, columns, rows[p], width, U32))
        steps.append(hand_over.steps(party, p, lines, width, rows[p], BIT))
    matrices = yield from together(*steps)
    spans = slice(0, rows[0]), slice(rows[0], sum(rows))
    return [Block(p, spans[p], sizes[p], matrices[2 * p], matrices[2 * p + 1]) for p in (0, 1)]


def take_masks(party: Party, blocks: list[Block], vectors: int, nodes: int) -> list[BlockMasks]:
    """Masks of one tree: `vectors` histograms and `nodes` routings."""
    return [BlockMasks(b, b.columns.supply(party, vectors), b.lines.supply(party, nodes)) for b in blocks]


def histograms(party: Party, masks: list[BlockMasks], values: AShare, features: int) -> Steps:
    """[values], uint32 [v, s, n] -> for each block [sums], uint64 [v, s, d, K_p]. Two rounds."""
    v, s, _ = values.shape
    flat = values.reshape(v * s, -1)
    narrow = yield from together(*(apply.steps(party, m.histograms, flat[:, m.block.rows]) for m in masks))
    wide = yield from together(*(widen.steps(party, x) for x in narrow))
    return [x.reshape(v, s, features, m.block.size) for x, m in zip(wide, masks, strict=True)]


def route(party: Party, masks: list[BlockMasks], sets: list[BShare]) -> Steps:
    """For each block the bins that go left, <[v, d, K_p]> -> <left> of every row, [v, n]. One round."""
    parts = yield from together(
        *(apply.steps(party, m.routes, x.reshape(len(x), -1)) for m, x in zip(masks, sets, strict=True))
    )
    return concatenate(parts, axis=1)
