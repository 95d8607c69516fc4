"""Bytes that a training sends, by the papers' formulas; `Federation.sent` and `.received` have the measured ones."""

from __future__ import annotations


def fedxgbllr_bytes(clients: int, trees: int, tree_bytes: float, rounds: int, network_bytes: float) -> float:
    """Evaluate formula (6), 2 K (M SZ_t + R SZ_nn): `trees` is M, all clients' trees together, 500 in the paper.

    It counts every tree once up and once down at each client, although each client sends only its own trees.
    """
    return 2 * clients * (trees * tree_bytes + rounds * network_bytes)


def simfl_bytes(clients: int, rows: int, hashes: int, trees: int, depth: int) -> int:
    """Evaluate SimFL's 8 K N Hash + 8 M (N + (2^L - 1)(K - 1)), quoted in section 4.3 (Li et al. 2020)."""
    return 8 * clients * rows * hashes + 8 * trees * (rows + (2**depth - 1) * (clients - 1))
