"""The secure training against its twin: every split bit for bit, leaves to 1e-4, margins to 1e-3."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.endpoint import ROUND_PRICE
from mpc.errors import ConfigError
from protocols.testing.two_parties import Recorder, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import leaf_rate
from secure_tree.twin.boost import train
from tests.secure_tree.conftest import read_shared
from tests.secure_tree.opened import train_both


def check(training, rounds, before=None):
    """Check that all splits are the twin's, and margins after every round; return the candidates that were chosen.

    before: the training that this one continues.
    """
    classes, of_round = training.config.classes, training.config.trees_of_round
    grown = list(zip(training.trees, training.twins(), strict=True))
    assert len(grown) == rounds * of_round
    margins = np.repeat(training.base[:, None], training.data.layout.row_count, axis=1)
    if before:
        margins = np.array([tree.margins for tree in before.trees[-classes:]])
    distinct = set()
    for start in range(0, len(grown), of_round):
        trees = list(enumerate(grown[start : start + of_round]))
        for number, (seen, twin) in trees:
            assert np.array_equal(seen.winner, twin.winner)
            assert np.abs(seen.leaves - twin.leaves).max() < 1e-4
            margins[number % classes] += twin.leaves[twin.leaf]
            distinct.update(seen.winner.tolist())
        for number, (seen, _) in trees:
            assert np.abs(seen.margins - margins[number % classes]).max() < 1e-3
    return distinct


def table(n, d, seed, levels=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) if levels is None else rng.integers(0, levels, (n, d)).astype(float)
    return X, (X[:, 0] - X[:, -1] + rng.normal(size=n) > 0).astype(float)


def positive(X, seed, zeros=False, mean=1000.0):
    """Return labels above 0 with a gamma distribution around a mean of about 1000; with `zeros`, a third is 0."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(2, mean / 2 * np.exp(0.5 * X[:, 0] - 0.3 * X[:, -1]))
    return y * (rng.random(len(X)) > 1 / 3) if zeros else y


def halves(X, y, cut):
    return (X[:cut], X[cut:]), (y[:cut], y[cut:])


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 3, "max_bin": 8},
        {"max_depth": 1, "max_bin": 4},
        {"max_depth": 2, "max_bin": "exact", "min_child_weight": 0.0},
        {"max_depth": 3, "max_bin": 8, "reg_alpha": 0.7, "min_split_loss": 0.5},
        {"max_depth": 3, "max_bin": 8, "min_child_samples": 12},
        {"max_depth": 2, "max_bin": 8, "reg_lambda": 0.0, "min_child_weight": 0.0},
        {"max_depth": 3, "max_bin": 8, "objective": "squarederror"},
        {"max_depth": 2, "max_bin": 8, "objective": "squarederror", "reg_alpha": 3.0, "min_child_samples": 9},
        {"max_depth": 3, "max_bin": 8, "objective": "count:poisson"},
        {"max_depth": 2, "max_bin": 8, "objective": "count:poisson", "reg_alpha": 0.7, "reg_lambda": 0.0},
        {"max_depth": 2, "max_bin": 8, "objective": "count:poisson", "min_child_samples": 9, "base_score": 3.0},
        {"max_depth": 3, "max_bin": 8, "objective": "reg:logistic"},
        {"max_depth": 3, "max_bin": 8, "objective": "reg:gamma"},
        {"max_depth": 2, "max_bin": 8, "objective": "reg:gamma", "reg_alpha": 0.7, "min_child_samples": 9},
        {"max_depth": 3, "max_bin": 8, "objective": "reg:tweedie", "tweedie_variance_power": 1.3},
        {"max_depth": 3, "max_bin": 8, "objective": "reg:pseudohubererror", "huber_slope": 9.0},
        {"max_depth": 2, "max_bin": 8, "objective": "reg:pseudohubererror", "base_score": -7.0, "reg_alpha": 0.7},
        {"max_depth": 3, "max_bin": 8, "max_delta_step": 0.4},
        {"max_depth": 2, "max_bin": 8, "max_delta_step": 0.4, "reg_alpha": 0.7},
        {"max_depth": 2, "max_bin": 8, "max_delta_step": 0.1, "reg_lambda": 0.0, "min_child_weight": 0.0},
        {"max_depth": 3, "max_bin": 8, "monotone_constraints": (-1, 0, 1, 1)},
        {"max_depth": 3, "max_bin": 8, "max_delta_step": 3.0, "objective": "squarederror", "min_child_samples": 9},
    ],
)
def test_every_split_is_the_twins(parameters):
    X, y = table(90, 4, seed=1)
    labels = y if "objective" not in parameters else X[:, 1] * 30 - 7
    if parameters.get("objective") == "count:poisson":
        labels = np.random.default_rng(1).poisson(np.exp(X[:, 1] - X[:, 0]))
    if parameters.get("objective") == "reg:logistic":
        labels = 1 / (1 + np.exp(-X[:, 1]))
    if parameters.get("objective") in ("reg:gamma", "reg:tweedie"):
        labels = positive(X, 1, zeros=parameters["objective"] == "reg:tweedie")
    training = train_both(*halves(X, labels, 37), n_estimators=3, learning_rate=0.3, **parameters)
    assert len(check(training, 3)) > 1


@pytest.mark.parametrize("price", [ROUND_PRICE, 500_000, 1 << 40])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 4},
        {"max_depth": 3, "edges": "joint"},
        {"max_depth": 2, "reg_alpha": 0.7, "min_child_samples": 9},
        {"max_depth": 3, "max_delta_step": 0.4, "monotone_constraints": (-1, 0, 1, 1)},
        {"max_depth": 3, "partition": "vertical", "missing": "all"},
    ],
)
def test_every_split_is_the_twins_on_any_link(price, parameters):
    """Shapes with fewer rounds choose the same splits."""
    X, y = table(90, 4, seed=1)
    parts = ((X[:, :2], X[:, 2:]), (y, None)) if "partition" in parameters else halves(X, y, 37)
    training = train_both(*parts, n_estimators=2, max_bin=8, learning_rate=0.3, price=price, **parameters)
    assert len(check(training, 2)) > 1


@pytest.mark.parametrize("rate", [2e-5, 3e-3])
def test_small_learning_rates_are_what_they_are(rate):
    X, y = table(200, 4, seed=6)
    training = train_both(*halves(X, y, 90), n_estimators=1, max_bin=8, learning_rate=rate)
    (seen,), (twin,) = training.trees, training.twins()
    # A leaf of 2e-5 has about 20 units, each rounded by a coin.
    assert abs(np.abs(seen.leaves).sum() / np.abs(twin.leaves).sum() - 1) < (0.08 if rate < 1e-3 else 1e-3)


def test_learning_rates_have_16_bits_and_the_least_is_named():
    for rate in np.geomspace(1e-5, 1, 300):
        number, scale = leaf_rate(TrainConfig.of(learning_rate=rate))
        assert abs(number / 2**scale / rate - 1) <= 2.0**-16 and number <= 1 << 16
    with pytest.raises(ConfigError, match="learning_rate must be at least 1e-05, got 5e-06"):
        SecureXGBClassifier(learning_rate=5e-6)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_the_first_gradients_of_squared_error_are_rounded_without_bias(partition):
    n = 8000
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    if partition == "vertical":
        tables, labels = (X[:, :1], X[:, 1:]), (y, None)
    else:
        tables, labels = (X[: n // 2], X[n // 2 :]), (y[: n // 2], y[n // 2 :])
    training = train_both(
        tables, labels, objective="squarederror", n_estimators=1, max_depth=1, max_bin=4, partition=partition
    )
    # All rows have the same margin, and a party knows the labels of its rows, so their shares are not random yet.
    exact = (training.base - y / training.label_scale) * 2**training.numerics.histogram_scale
    error = training.trees[0].values[0] - exact
    assert abs(error).max() < 1.001
    for half in (error[: n // 2], error[n // 2 :]):
        assert abs(half.mean()) < 5 * 0.5 / np.sqrt(half.size)


def test_equal_gains_are_decided_alike():
    X, y = table(80, 3, seed=2, levels=3)
    X = np.concatenate([X, X[:, ::-1]], axis=1)
    training = train_both(*halves(X, y, 40), n_estimators=3, max_bin=8, learning_rate=0.3)
    # Each split on the last three columns is tied with one on the first three. Coins decide, then the lowest number.
    check(training, 3)


@pytest.mark.parametrize(
    ("X", "y", "cut"),
    [
        pytest.param(*table(60, 2, seed=3), 1, id="a party with one row"),
        pytest.param(np.ones((20, 3)), np.arange(20) % 2.0, 7, id="constant columns"),
        pytest.param(*table(50, 1, seed=4, levels=2), 25, id="one feature of two values"),
        pytest.param(table(40, 2, seed=5)[0], np.repeat([0.0, 1.0], 20), 20, id="each party has one class"),
        pytest.param(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]), 1, id="two rows in all"),
        pytest.param(table(30, 2, seed=6)[0], np.ones(30), 12, id="one class in all"),
        pytest.param(
            np.repeat(table(9, 2, seed=7)[0], 4, axis=0), np.repeat(np.arange(9) % 2.0, 4), 18, id="duplicates"
        ),
    ],
)
def test_awkward_data(X, y, cut):
    training = train_both(*halves(X, y, cut), n_estimators=2, max_depth=2, learning_rate=0.5)
    check(training, 2)


def test_breast_cancer():
    guest, host = read_shared("homo/breast_homo_guest.csv"), read_shared("homo/breast_homo_host.csv")
    training = train_both((guest[0], host[0]), (guest[1], host[1]), n_estimators=5, learning_rate=0.3)
    assert len(check(training, 5)) > 15


@settings(max_examples=3, deadline=None, database=None)
@given(seed=st.integers(0, 2**32), constant=st.booleans(), objective=st.sampled_from(["logistic", "squarederror"]))
def test_the_shape_of_a_whole_training_does_not_depend_on_the_data(seed, constant, objective):
    def messages(X, y):
        def job(party):
            party.link = Recorder(party.link)
            rows = slice(0, 20) if party.rank == 0 else slice(20, None)
            kind = SecureXGBRegressor if objective == "squarederror" else SecureXGBClassifier
            model = kind(n_estimators=2, max_depth=2, max_bin=8, objective=objective)
            model.fit(party, X[rows], y[rows])
            for method in ("bins", "thresholds"):
                model.predict_margin(party, X[rows], method)
            return [(tag, len(data)) for tag, data in party.link.rounds]

        return run_both(job)[0]

    plain = table(50, 3, seed=6)
    other = (np.zeros((50, 3)), np.ones(50)) if constant else table(50, 3, seed)
    assert messages(*plain) == messages(*other)


@pytest.mark.parametrize("objective", ["logistic", "squarederror"])
def test_a_whole_training_of_the_twin_ends_where_the_secure_one_does(objective):
    X, y = table(200, 4, seed=8)
    labels = y if objective == "logistic" else X[:, 1] * 30 - 7
    parameters = {"n_estimators": 8, "learning_rate": 0.3, "max_bin": 16, "objective": objective}
    tables, parts = halves(X, labels, 90)
    secure = train_both(tables, parts, **parameters)
    twin = train(tables, parts, secure.config, np.random.default_rng(1))
    # Gradients are rounded at random in both trainings, so a few splits differ, but the predictions agree.
    mine, theirs = np.ravel(secure.trees[-1].margins) * secure.label_scale, twin.margins[-1]
    assert np.corrcoef(mine, theirs)[0, 1] > 0.98
    assert np.abs(mine.mean() - theirs.mean()) < 0.05 * theirs.std()
    assert np.allclose(twin.predict_margin(X).mean(), theirs.mean(), atol=0.1 * theirs.std())
