"""Divisions of rows among clients."""

import numpy as np
import pytest

from sharewood.baselines.division import DIVISIONS, divide

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1003, 4)) * [1, 100, 1, 1]
X[:, 0] = 3 * X[:, 1] / 100 + RNG.normal(size=1003)
X[::50, 2] = np.nan
Y = (RNG.random(1003) < 0.24).astype(float)


@pytest.mark.parametrize("division", DIVISIONS)
def test_every_row_has_one_client_and_clients_have_as_many_rows(division):
    parts = divide(X, Y, 5, division, 0)
    assert sorted(np.concatenate(parts)) == list(range(1003))
    assert {len(part) for part in parts} == {200, 201}


def test_equal_keeps_the_order():
    np.testing.assert_array_equal(np.concatenate(divide(X, Y, 5, "equal", 0)), np.arange(1003))


def test_clients_along_the_first_component_have_different_features():
    parts = divide(X, Y, 5, "component", 0)
    means = np.array([X[part, 1].mean() for part in parts])
    assert (np.diff(means) > 0).all() and np.ptp(means) > 2 * X[:, 1].std()
    alike = [X[part, 1].mean() for part in divide(X, Y, 5, "equal", 0)]
    assert np.ptp(alike) < 0.4 * X[:, 1].std()


@pytest.mark.parametrize("numbers", [False, True])
def test_clients_by_labels_have_different_labels(numbers):
    y = X[:, 0] if numbers else Y
    parts = divide(X, y, 5, "labels", 0)
    means = [y[part].mean() for part in parts]
    assert means[-1] - means[0] > 0.8 * y.std() and all(y[part].std() > 0 for part in parts)
    assert not np.array_equal(parts[0], divide(X, y, 5, "labels", 1)[0])
