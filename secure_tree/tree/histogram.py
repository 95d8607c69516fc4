"""Histograms of secret gradients over bins that one party knows, and routing of rows, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from mpc.matrix.fixed_operand import FixedOperand, fix
from mpc.matrix.interface import LinearMap, Supply
from mpc.matrix.known_matrix import BinColumns, BinRows
from mpc.matrix.linear_map import share_masked_matrix
from mpc.party import Party
from mpc.rings import GF2, Z32
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare
from secure_tree.data.bins import Bins
from secure_tree.data.contributed import SharedRows
from secure_tree.public.layout import Layout


@dataclass(frozen=True)
class Block:
    """A part of the bin matrix: its rows, features and bins per feature, and the matrix and its transpose.

    of: the block of the layout that it belongs to.
    """

    of: int
    rows: slice
    features: int
    size: int
    columns: LinearMap
    lines: LinearMap


@dataclass
class BlockMasks:
    """The masks of one tree for one block."""

    block: Block
    histograms: Supply
    routes: Supply | None = None


def share_blocks(party: Party, bins: Bins, layout: Layout, contributed: SharedRows | None = None) -> Steps[list[Block]]:
    """Each party's bins -> Blocks, followed by those of contributed rows or columns. One round."""
    steps = []
    for p in (0, 1):
        size, rows = layout.bins(p), layout.rows[p]
        columns = BinColumns(bins.numbers, size) if party.rank == p else None
        lines = BinRows(bins.numbers, size) if party.rank == p else None
        steps.append(share_masked_matrix.steps(party, p, columns, rows, layout.widths[p] * size, Z32, size))
        steps.append(share_masked_matrix.steps(party, p, lines, layout.widths[p] * size, rows, GF2, size))
    matrices = yield from parallel(*steps)
    blocks = [
        Block(p, layout.rows_of(p), layout.widths[p], layout.bins(p), matrices[2 * p], matrices[2 * p + 1])
        for p in (0, 1)
    ]
    if contributed:
        start = layout.rows_of(2).start
        for rows, pair in zip(contributed.rows, contributed.matrices, strict=True):
            blocks.append(Block(2, slice(start, start + rows), layout.widths[2], layout.bins(2), *pair))
            start += rows
    return blocks


def fix_bins(party: Party, bits: BShare, words: AShare) -> Steps[tuple[FixedOperand, FixedOperand]]:
    """<bins> and [bins], [n, d * bins] -> the matrices that multiply values of rows and sets of bins. One round."""
    columns, lines = yield from parallel(fix.steps(party, words[None], bits[None]), fix_lines(party, bits))
    return columns, lines


def fix_lines(party: Party, bits: BShare) -> Steps[FixedOperand]:
    """<bins>, [n, d * bins] -> the matrix that multiplies sets of bins."""
    return (yield from fix.steps(party, bits[None].map(lambda b: b.transpose(0, 2, 1))))


def take_masks(party: Party, blocks: list[Block], vectors: int, nodes: int) -> list[BlockMasks]:
    """Take the masks of one tree, for `vectors` histograms and for routing at `nodes` nodes."""
    return [BlockMasks(b, b.columns.supply(party, vectors), b.lines.supply(party, nodes)) for b in blocks]


def histograms(party: Party, masks: list[BlockMasks], values: AShare) -> Steps[list[AShare]]:
    """[values], uint32 [v, s, n] -> for each Block [sums], uint32 [v, s, d_p, bins_p]. One round."""
    v, s, _ = values.shape
    flat = values.reshape(v * s, -1)
    sums = yield from parallel(*(m.histograms.apply(party, flat[:, m.block.rows]) for m in masks))
    return [x.reshape(v, s, m.block.features, m.block.size) for x, m in zip(sums, masks, strict=True)]


def of_blocks(masks: list[BlockMasks], sums: list[AShare]) -> list[AShare]:
    """[sums] of each Block -> those of each block of the layout."""
    count = max(m.block.of for m in masks) + 1
    return [reduce(add, [x for m, x in zip(masks, sums, strict=True) if m.block.of == p]) for p in range(count)]


def route(party: Party, masks: list[BlockMasks], sets: list[BShare], rows: int) -> Steps[BShare]:
    """<bins that go left> of each block, [v, d_p, bins_p] -> <goes left> of every row, [v, n]. One round."""
    routed = [(m.routes, sets[m.block.of].reshape(len(sets[0]), -1)) for m in masks]
    parts = yield from parallel(*(routes.apply(party, x) for routes, x in routed if routes is not None))
    left = np.zeros((len(sets[0]), rows), np.uint8)
    for m, part in zip(masks, parts, strict=True):
        left[:, m.block.rows] ^= part.bits
    return BShare(left, party.rank)
