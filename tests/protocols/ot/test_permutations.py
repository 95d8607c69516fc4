"""How often each fixed-key permutation hashes: the N of docs/security.md."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mpc.kernels.aes import HAS_AES_NI
from mpc.matrix.linear_map import KnownProduct, MatrixVectors
from mpc.rings import Z32
from mpc.words import U64
from protocols.offline.pairwise import seed_histograms
from protocols.offline.pairwise.operands import Operands
from protocols.ot import ferret
from protocols.ot.kernels import aes_blocks, children
from protocols.ot.pads import pads
from tests.mpc.offline.ideal_transfers import DELTAS, made_by

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
# The number that the page states.
MOST = 1 << 18


@pytest.fixture
def hashed(monkeypatch):
    """Count the blocks hashed under each key, in trees and in pads, without hashing them."""
    counts = Counter()

    def double(leaves, size, schedule, sums):
        counts[schedule.tobytes()] += size * leaves.shape[1]

    def tweaked_hashes(blocks, first, words, schedule):
        counts[schedule.tobytes()] += len(blocks) * -(-words // 2)
        return np.zeros((len(blocks), words), U64)

    monkeypatch.setattr(children, "double", double)
    monkeypatch.setattr(aes_blocks, "tweaked_hashes", tweaked_hashes)
    return counts


def test_the_page_states_this_number():
    assert f"at most 2^{MOST.bit_length() - 1} " in PAGE.read_text()


def test_trees_of_ferret(hashed):
    q = np.zeros((ferret.KEPT, 2), U64)
    steps = ferret.FerretSender(bytes(33), np.ones(2, U64), q).extend(1)
    next(steps)
    inner = ferret.TREES * ((1 << ferret.DEPTH) - 2)
    assert sum(hashed.values()) == inner and max(hashed.values()) <= MOST


@pytest.mark.parametrize(("numbers", "words"), [(100_000, 1), (40_000, 8), (70, 15_626)])
def test_pads(hashed, numbers, words):
    pads(np.zeros((numbers, 2), U64), 10_000, words, bytes(16))
    assert sum(hashed.values()) == numbers * -(-words // 2) and max(hashed.values()) <= MOST


@pytest.mark.skipif(not HAS_AES_NI, reason="counts in the compiled path")
def test_seed_histograms(hashed, monkeypatch):
    """The tree of 1024 bins, and vectors without end: per tree, one leaf is missing."""
    vectors, rows, bins = 5_000, 300, 1024

    def add_words(leaves, schedule, first, by_leaf, by_tree):
        hashed[schedule.tobytes()] += leaves.shape[1] * by_leaf.shape[1]

    monkeypatch.setattr(seed_histograms, "add_words", add_words)
    party = Operands(0, bytes(16), DELTAS[0])
    party.keep(1, None)
    request = MatrixVectors(1, 1, rows, bins, Z32, count=vectors, size=bins)
    making = made_by(party, KnownProduct(request, None, np.zeros((vectors, rows), np.uint32)))
    (blocks,) = next(making)
    making.send([np.zeros((blocks.count, 2), U64)])
    making.send([None])
    making.send([np.zeros(3, U64)])
    hashed.clear()  # the same trees are grown again for each use
    next(making)
    assert sum(hashed.values()) > rows * vectors // 4 and max(hashed.values()) <= MOST
