"""Histograms of secret gradients over bins that one party knows, and routing of rows, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mpc.matrix.fixed_operand import fix
from mpc.matrix.known_matrix import BinColumns, BinRows
from mpc.matrix.linear_map import LinearMap, Supply, share_masked_matrix
from mpc.party import Party
from mpc.rings import GF2, Z32
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare
from secure_tree.data.bins import Bins
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
    routes: Supply


def share_blocks(
    party: Party, bins: Bins, layout: Layout, contributed: Sequence[tuple[AShare, BShare]] = ()
) -> Steps[list[Block]]:
    """Each party's bins, and [bins] that were contributed, [n_i, d * bins], over both rings -> Blocks. One round."""
    steps: list[Steps[Any]] = []
    for p in (0, 1):
        size, rows = layout.bins(p), layout.rows[p]
        columns = BinColumns(bins.numbers, size) if party.rank == p else None
        lines = BinRows(bins.numbers, size) if party.rank == p else None
        steps.append(share_masked_matrix.steps(party, p, columns, rows, layout.widths[p] * size, Z32, size))
        steps.append(share_masked_matrix.steps(party, p, lines, layout.widths[p] * size, rows, GF2, size))
    for words, bits in contributed:
        steps.append(fix.steps(party, words[None], bits[None]))
        steps.append(fix.steps(party, bits[None].map(lambda b: b.transpose(0, 2, 1))))
    matrices = yield from parallel(*steps)
    places = [(p, layout.rows_of(p)) for p in (0, 1)]
    for words, _ in contributed:
        start = places[-1][1].stop
        places.append((2, slice(start, start + len(words))))
    return [
        Block(p, rows, layout.widths[p], layout.bins(p), columns, lines)
        for (p, rows), columns, lines in zip(places, matrices[::2], matrices[1::2], strict=True)
    ]


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
    parts = yield from parallel(*(m.routes.apply(party, sets[m.block.of].reshape(len(sets[0]), -1)) for m in masks))
    left = np.zeros((len(sets[0]), rows), np.uint8)
    for m, part in zip(masks, parts, strict=True):
        left[:, m.block.rows] ^= part.bits
    return BShare(left, party.rank)
