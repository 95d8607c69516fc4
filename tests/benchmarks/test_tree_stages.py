"""All stages of a tree are measured, and their sum is the cost of a tree on the complexity page."""

from benchmarks.complexity import tree_price
from benchmarks.tree_stages import BINS, DEPTH, FEATURES, STAGES, dealt_by_stage


def test_stages_add_up_to_a_tree():
    dealt = dealt_by_stage(1_000)
    assert list(dealt) == list(STAGES)
    assert all(dealt.values())
    assert sum(dealt.values()) == sum(tree_price(1_000, FEATURES, BINS, DEPTH).dealt)
