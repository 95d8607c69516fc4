"""FedXGBllr's experiment beside the public rerun of the paper."""

import numpy as np
import pytest

from benchmarks import simfl
from benchmarks.federated_data import DATA, load
from benchmarks.federated_fedxgbllr import run
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig


@pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not beside this checkout")
def test_space_ga_with_two_clients_beats_the_public_rerun():
    config = FedXGBllrConfig.of(objective="reg:squarederror", total_trees=100, rounds=1)
    line = run(*load("space_ga"), 2, config)
    assert line["network"] < 0.024 > line["mean"]
    assert line["centralised"] < line["simfl"] < 0.04


def test_simfl_learns_from_rows_of_another_party():
    """A party without positives of its own finds them by the other's g and h, which its similar rows are given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = (X[:, 0] > 0.5).astype(float)
    config = FedXGBllrConfig.of(total_trees=20, max_depth=3)
    parts, test = [np.flatnonzero(y[:400] == 0), np.flatnonzero(y[:400] == 1)], np.arange(400, 600)
    margin = simfl.margins(X, y, parts, test, config)
    assert np.mean((margin > 0) == y[test]) > 0.85


def test_the_most_similar_row_has_most_hashes_in_common():
    rng = np.random.default_rng(0)
    rows, candidates = (rng.integers(0, 3, size=(n, simfl.HASHES)).astype(np.int16) for n in (20, 30))
    common = (rows[:, None] == candidates).sum(axis=2)
    for start in (0, 7):
        found = simfl._most_similar(rows, candidates, np.full(20, start))
        np.testing.assert_array_equal(found, (np.roll(common, -start, axis=1).argmax(axis=1) + start) % 30)


@pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not beside this checkout")
def test_a9a_with_its_test_file():
    X, y = load("a9a+a9a.t")
    assert X.shape == (48_842, 123) and set(y) == {0, 1}
    assert (y[:32_561].sum(), y[32_561:].sum()) == (7_841, 3_846)


def test_clients_that_differ_have_the_same_test_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(float)
    config = FedXGBllrConfig.of(total_trees=6, max_depth=2, rounds=1, channels=4)
    lines = {divided: run(X, y, 3, config, divided, False) for divided in ("equal", "component", "labels")}
    assert len({line["centralised"] for line in lines.values()}) == 1
    assert {divided: line["divided"] for divided, line in lines.items()} == {divided: divided for divided in lines}
    shares = {divided: [float(each) for each in line["label_means"].split()] for divided, line in lines.items()}
    assert np.ptp(shares["labels"]) > np.ptp(shares["equal"])
    assert lines["labels"]["simfl"] is None
