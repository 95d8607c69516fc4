"""The stages of a tree are all there, and together they are what the complexity page says of a tree."""

import pytest

from benchmarks.complexity import tree_price
from benchmarks.tree_stages import BINS, DEPTH, FEATURES, STAGES, dealt_by_stage


@pytest.mark.parametrize("by", ["bits", "keys"])
def test_stages_add_up_to_a_tree(by):
    dealt = dealt_by_stage(1_000, by)
    assert list(dealt) == list(STAGES)
    assert all(dealt.values())
    assert sum(dealt.values()) == sum(tree_price(1_000, FEATURES, BINS, DEPTH, by).dealt)
