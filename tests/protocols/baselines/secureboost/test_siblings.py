"""Sums of all nodes from those of the smaller children."""

import numpy as np
import pytest

from protocols.baselines.secureboost.siblings import Siblings


def direct(assignment, nodes, values):
    return {node: values[assignment == node].sum() for node in nodes.tolist()}


@pytest.mark.parametrize("subtract", [np.subtract, None])
def test_every_sum_is_that_of_the_nodes_rows(subtract):
    values = np.arange(12)
    levels = [
        (np.zeros(12, np.int16), [0], [0]),
        (np.array([1, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2], np.int16), [1, 2], [1]),
        # Node 1 became a leaf; if siblings have equal sizes, the left one is summed.
        (np.array([-1, 5, 6, 6, 5, 6, 5, 5, -1, -1, -1, 6], np.int16), [5, 6], [5]),
    ]
    siblings = Siblings(subtract)
    for assignment, frontier, smaller in levels:
        nodes = np.array(frontier, np.int16)
        asked = siblings.to_sum(assignment, nodes)
        assert asked.tolist() == (smaller if subtract else frontier)
        sums = siblings.complete(nodes, direct(assignment, asked, values))
        assert sums == list(direct(assignment, nodes, values).values())


def test_a_level_without_known_parents_is_summed_whole():
    nodes = np.array([1, 2], np.int16)
    assert Siblings(np.subtract).to_sum(np.array([1, 2, 2], np.int16), nodes).tolist() == [1, 2]
