"""README's table and that of docs/heterogeneity.md are those of the measurements."""

import json

from benchmarks.edges_cost_tables import costs, measured
from benchmarks.program import DOCS, ROOT, between

STUDY = json.loads((DOCS / "figures" / "edges_cost.json").read_text())


def test_both_pages_are_written_from_the_figures():
    hint = "python -m benchmarks.edges_cost --page writes it anew"
    assert between(ROOT / "README.md", "measured")[1] == measured(STUDY), hint
    assert between(DOCS / "heterogeneity.md", "cost")[1] == costs(STUDY["points"]), hint
