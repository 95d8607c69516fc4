"""The study of heterogeneous parties: its page follows from its JSON, and its results hold what the page claims."""

import json

import numpy as np

from benchmarks.heterogeneity import DIVISIONS, DOCS, SEEDS, made_up, measure
from benchmarks.heterogeneity_page import differences, page
from benchmarks.program import between

STUDY = json.loads((DOCS / "figures" / "heterogeneity.json").read_text())


def test_the_page_is_written_from_the_figures():
    written = (DOCS / "heterogeneity.md").read_text()
    _, cost, _ = between(DOCS / "heterogeneity.md", "cost")
    assert written == page(STUDY, cost), "python -m benchmarks.heterogeneity --page writes it anew"


def test_the_divisions_are_what_they_are_called():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 2)), (rng.random(1000) < 0.3).astype(float)
    parts = {name: divide(X, y, 1, rng) for name, (divide, _) in DIVISIONS.items()}
    for name, (first, second) in parts.items():
        assert not np.intersect1d(first, second).size
        assert name == "2% and 15% positives" or np.union1d(first, second).size == 1000
    assert {len(p) for p in parts["alike"]} == {500}
    assert [y[p].mean() for p in parts["one class each"]] == [0, 1]
    assert np.allclose([y[p].mean() for p in parts["2% and 15% positives"]], [0.02, 0.15], atol=0.002)
    assert X[parts["shifted covariates"][1], 1].mean() < 0 < X[parts["shifted covariates"][0], 1].mean()
    assert len(parts["1 : 99 rows"][0]) == 10
    first, _ = parts["one party's rows five times"]
    assert first.size == 2500 and np.unique(first).size == 500
    low, high = parts["disjoint ranges of a feature"]
    assert X[low, 1].max() < X[high, 1].min()


def test_either_kind_of_edges_is_as_good_as_xgboost():
    for source, of_source in STUDY["scores"].items():
        for division, runs in of_source["divisions"].items():
            assert len(runs) == SEEDS
            (joint, _), (private, _) = differences(STUDY, source, division).values()
            worst = (joint, private) if of_source["numbers"] else (-joint, -private)
            allowed = (0.02, 0.05) if of_source["numbers"] else (0.005, 0.01)
            assert all(w < a for w, a in zip(worst, allowed, strict=True)), (source, division, worst)


def test_a_few_rows():
    scores, *_ = measure(made_up(200, numbers=False), "one class each", 0)
    assert set(scores) == {"xgboost", "joint", "private"} and min(scores.values()) > 0.6
