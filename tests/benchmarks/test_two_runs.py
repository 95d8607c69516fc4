"""How far two runs differ: the page's table is written from its figures, and neither library is better."""

import json

import numpy as np

from benchmarks.program import between
from benchmarks.two_runs import DOCS, NAME, PAGE, table

FIGURES = json.loads((DOCS / "figures" / "two_runs.json").read_text())


def test_the_table_of_the_page_is_written_from_the_figures():
    assert between(PAGE, NAME)[1] == table(FIGURES).strip(), "python -m benchmarks.two_runs --page writes it anew"


def test_the_means_are_those_of_xgboost_within_the_ranges():
    for kind in ("classes", "numbers"):
        ours, theirs = (np.array(FIGURES[kind][of]) for of in ("sharewood", "xgboost"))
        assert len(ours) == FIGURES["runs"] >= 6 and theirs.min() < ours.mean() < theirs.max()
