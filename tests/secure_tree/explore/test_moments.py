"""Missing rates, means, deviations, correlations and variance inflation, beside numpy and scipy."""

import numpy as np
import pytest
from scipy import stats

from protocols.testing.two_parties import made_by_both
from secure_tree.explore import explore as exploring
from secure_tree.explore import moments
from tests.secure_tree.explore.tables import CUT, FEATURES, ROWS, explored, frame, parts, table

EVERY = ("missing", "mean", "deviation", "correlation", "vif", "label_rate")


@pytest.fixture
def exact(monkeypatch):
    for module in (moments, exploring):
        monkeypatch.setattr(module, "plain_fraction", lambda *_: 19)


def correlated(rows=ROWS):
    X, y = table(rows=rows)
    X[:, 4] = X[:, 1] + 0.5 * X[:, 4]
    X[:, 2] *= 1000
    X[:, 3] += 50
    return X, y


def imputed(X):
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X).astype(np.float64)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_beside_libraries(partition):
    X, y = correlated()
    asked = {"partition": partition, "reveal": "numbers", "statistics": EVERY, "floors": {"digits": 6}}
    results, parties = explored(parts(X, y, partition), **asked)
    filled = imputed(X)
    expected = np.array([[stats.pearsonr(a, b).statistic for b in filled.T] for a in filled.T])
    # Variance inflation of a feature is 1 / (1 - R^2) of its regression on the others.
    inflation = []
    for f in range(FEATURES):
        design = np.column_stack([np.ones(ROWS), np.delete(filled, f, axis=1)])
        rest = filled[:, f] - design @ np.linalg.lstsq(design, filled[:, f], rcond=None)[0]
        inflation.append(filled[:, f].var() / rest.var())
    for result in results:
        deviation = np.nanstd(X, axis=0)
        assert np.abs(result.moments["missing"] - np.isnan(X).mean(axis=0)).max() < 1e-5
        assert (np.abs(result.moments["mean"] - np.nanmean(X, axis=0)) < 1e-4 * deviation + 1e-4).all()
        assert (np.abs(result.moments["deviation"] / deviation - 1) < 3e-4).all()
        assert np.abs(result.correlation - expected).max() < 1e-4
        assert np.abs(result.moments["vif"] / inflation - 1).max() < 1e-4
        assert abs(result.label_rate - y.mean()) < 1e-5
    assert results[0].bits == {"label_rate": 6} and parties[0].revealed == parties[1].revealed


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_they_are_rounded(partition):
    X, y = correlated()
    results, _ = explored(parts(X, y, partition), partition=partition, reveal="numbers", statistics=EVERY)
    assert np.array_equal(results[0].correlation, results[1].correlation)
    if partition == "vertical":
        assert np.array_equal(results[0].correlation * 64, np.round(results[0].correlation * 64))
        assert all(float(f"{v:.3g}") == v for v in results[0].moments["mean"])
    assert results[0].label_rate * 64 == round(results[0].label_rate * 64)
    assert np.abs(results[0].correlation - np.corrcoef(imputed(X).T)).max() < 0.06


def test_of_the_best_features_only():
    X, y = correlated()
    results, _ = explored(
        parts(X, y, "vertical"), partition="vertical", reveal="numbers", statistics=("iv", "correlation"), top=3
    )
    chosen = [f + CUT * p for p, f in ((p, int(name[1:])) for p, name in results[0].features)]
    assert results[0].correlation.shape == (3, 3) and results[0].moments == {}
    assert np.abs(results[0].correlation - np.corrcoef(imputed(X)[:, chosen].T)).max() < 0.06


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_categories_have_none(partition):
    X, y = frame()
    result = explored(
        parts(X, y, partition), partition=partition, reveal="numbers", statistics=("mean", "correlation")
    )[0][1]
    hidden = [name.startswith("category") for name in result.names]
    assert np.array_equal(np.isnan(result.moments["mean"]), hidden)
    assert np.array_equal(np.isnan(np.diag(result.correlation)), hidden)


def test_without_a_dealer():
    X, y = correlated()
    asked = {"reveal": "numbers", "statistics": ("mean", "correlation")}
    result = explored(parts(X, y, "horizontal"), made_by_both, **asked)[0][0]
    assert np.abs(result.correlation - np.corrcoef(imputed(X).T)).max() < 0.06


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("rows", [ROWS, moments.MOST_ROWS + 1000])
def test_by_columns_without_a_dealer(rows):
    X, y = correlated(rows)
    X[:, 0] = X[:, 5] > 0.3
    X[:, 1] = np.exp(2 * X[:, 1])
    asked = {"partition": "vertical", "reveal": "numbers", "statistics": ("correlation", "vif")}
    result, other = explored(parts(X, y, "vertical"), made_by_both, **asked)[0]
    assert np.array_equal(result.correlation, other.correlation)
    filled = imputed(X)
    z = np.clip((filled - filled.mean(axis=0)) / np.nanstd(X, axis=0), -8, 8)
    expected = np.corrcoef(z.T)
    apart = np.abs(result.correlation - expected)
    # The rounding at random has a standard error of 2^-5 / sqrt(n), of the sample 0.014 besides.
    assert apart.max() < (0.002 if rows == ROWS else 0.05)
    within = np.zeros(expected.shape, bool)
    within[:CUT, :CUT] = within[CUT:, CUT:] = True
    assert apart[within].max() < (1e-4 if rows == ROWS else 0.05)
    assert np.abs(result.moments["vif"] / np.diag(np.linalg.inv(expected)) - 1).max() < 0.1
    assert any(f"correlations in {min(rows, moments.MOST_ROWS)} rows" in what for what in result.revealed)
