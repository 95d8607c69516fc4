"""The chapter's worked example: table 3-2-1 and figure 3-2-2 with three parties."""

import runpy
from pathlib import Path

CHAPTER = Path(__file__).parents[4] / "examples" / "secureboost" / "chapter.py"


def test_the_tree_and_the_prediction_are_those_of_the_chapter():
    found = runpy.run_path(str(CHAPTER))["run"]()
    assert found["splits"] == [("size", 45_000.0)]
    assert [name for name, _ in found["host_1"]] == ["capital"]
    assert [name for name, _ in found["host_2"]] == ["years"]
    # The guest's root, host 1 on its left, and host 2 on the right of that; leaves elsewhere.
    owners = found["owners"].tolist()
    assert owners[0] == 0 and owners[1] == 1 and owners[4] == 2
    assert sum(owner >= 0 for owner in owners) == 3
    assert found["predicted"] == 0
