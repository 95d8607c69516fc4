"""Weights and labels of wide range are handled as well as by XGBoost, or refused by an error that names them."""

import re

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score, root_mean_squared_error

from mpc.errors import DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

xgboost = pytest.importorskip("xgboost")
COMMON = {"max_depth": 3, "learning_rate": 0.3, "max_bin": 32, "min_child_weight": 1.0}


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2] - np.abs(X[:, 3]) + 0.5 * rng.normal(size=n)


(X, SIGNAL), (FRESH, TRUTH) = table(1000, 92), table(2000, 93)


def ours(labels, weights=None, rounds=10, cut=500, fresh=FRESH, **parameters):
    """Return margins of fresh rows, predicted by thresholds."""
    kind = SecureXGBClassifier if parameters["objective"] == "binary:logistic" else SecureXGBRegressor
    rows = slice(0, cut), slice(cut, None)

    def job(party):
        own, w = rows[party.rank], None if weights is None else weights[rows[party.rank]]
        model = kind(**{"n_estimators": rounds, "min_split_loss": 0.0, **COMMON, **parameters})
        model.fit(party, X[own], labels[own], w)
        return model.predict_margin(party, fresh if party.rank == 0 else fresh[:0], "thresholds")

    return run_both(job)[0][0]


def theirs(labels, weights=None, rounds=10, **parameters):
    data = xgboost.DMatrix(X, label=labels, weight=weights)
    given = {name: value for name, value in parameters.items() if value is not None}
    booster = xgboost.train({"tree_method": "hist", **COMMON, **given}, data, rounds)
    return booster.predict(xgboost.DMatrix(FRESH), output_margin=True)


@pytest.mark.parametrize("heavy", [1e4, 1e5])
@pytest.mark.parametrize("row", [7, 900])
def test_one_heavy_row_among_many(heavy, row):
    labels, weights = (SIGNAL > 0).astype(float), np.ones(len(SIGNAL))
    weights[row] = heavy
    # Newton steps overshoot if one row dominates the sums. A bound keeps both trainings comparable.
    parameters = {"objective": "binary:logistic", "max_delta_step": 1.0}
    areas = [roc_auc_score(TRUTH > 0, of(labels, weights, **parameters)) for of in (ours, theirs)]
    assert areas[0] > areas[1] - 0.005, areas


def test_weights_of_a_wide_distribution():
    labels, weights = (SIGNAL > 0).astype(float), np.exp(3 * np.random.default_rng(94).normal(size=len(SIGNAL)))
    areas = [roc_auc_score(TRUTH > 0, of(labels, weights, objective="binary:logistic")) for of in (ours, theirs)]
    assert areas[0] > areas[1] - 0.01, areas


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.full(1000, 1e-300), "sample_weight: the largest weight must be between 1e-06 and 1e+12, got 1e-300"),
        (np.full(1000, 1e300), "sample_weight: the largest weight must be between 1e-06 and 1e+12, got 1e+300"),
        (
            np.where(np.arange(1000) == 3, 1e11, 1.0),
            "since half of this party's weights are at most 1, got weights up to 1.4e+11",
        ),
    ],
)
def test_weights_beyond_the_arithmetic(weights, sentence):
    with pytest.raises(DataError, match=re.escape(sentence).replace("1\\.4", "1.[0-9]*")):
        ours((SIGNAL > 0).astype(float), weights, objective="binary:logistic")


def test_the_refusal_names_scale_pos_weight():
    with pytest.raises(DataError, match=r"scale_pos_weight: with it, the largest weight must be .* since half"):
        ours((SIGNAL > 1).astype(float), objective="binary:logistic", scale_pos_weight=1e6)


COUNTS = np.random.default_rng(95).poisson(np.exp(0.6 * SIGNAL)).astype(float)


def test_one_count_of_ten_thousand_times_the_others():
    counts = COUNTS.copy()
    counts[11] = 1e4
    truth = np.exp(0.6 * TRUTH)
    parameters = {"objective": "count:poisson", "rounds": 10, "min_split_loss": None}
    errors = [np.median(np.abs(truth - np.exp(of(counts, **parameters)))) for of in (ours, theirs)]
    assert errors[0] < 1.1 * errors[1], errors


def test_the_largest_count_that_is_accepted_is_named_and_accepted():
    counts = np.where(COUNTS > 0, 1.0, 0.0)
    counts[3] = 1e6
    with pytest.raises(DataError, match="y: row 3: the largest count must be at most 65536, since half of this") as no:
        ours(counts, objective="count:poisson", rounds=1)
    assert "got 1e+06: clip it, or set its sample_weight to 0" in str(no.value)
    counts[3] = 65536
    assert np.isfinite(ours(counts, objective="count:poisson", rounds=1, fresh=FRESH[:5])).all()


def test_tiny_weights_beside_others_count_nothing():
    labels, weights = (SIGNAL > 0).astype(float), np.ones(len(SIGNAL))
    weights[::10] = 1e-300
    without = np.where(weights < 1, 0, weights)
    margins = [ours(labels, w, objective="binary:logistic") for w in (weights, without)]
    assert np.corrcoef(*margins)[0, 1] > 0.99


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 10.0), (2.0, 1e6), (1e-9, 0.0), (1e9, -1e10)])
def test_labels_far_from_0_and_of_any_size(scale, offset):
    labels, truth = scale * SIGNAL + offset, scale * TRUTH
    mine = root_mean_squared_error(truth, ours(labels, objective="reg:squarederror") - offset)
    reference = root_mean_squared_error(TRUTH, theirs(SIGNAL, objective="reg:squarederror"))
    assert mine < 1.05 * scale * reference, (mine / scale, reference)


@pytest.mark.parametrize("scale", [2e-2, 2e-4, 1e-9])
def test_the_default_min_split_loss_suits_labels_of_any_spread(scale):
    parameters = {"objective": "reg:squarederror", "min_split_loss": None, "rounds": 6}
    small, large = (
        root_mean_squared_error(TRUTH, ours(s * SIGNAL, **parameters) / s) / TRUTH.std() for s in (scale, 2.0)
    )
    assert small < 1.06 * large, (small, large)


@pytest.mark.parametrize("outlier", [1e3, 1e5])
def test_an_outlier_leaves_the_others_as_they_are(outlier):
    labels = SIGNAL.copy()
    labels[11] = outlier
    errors = [np.median(np.abs(TRUTH - of(labels, objective="reg:squarederror", rounds=20))) for of in (ours, theirs)]
    assert errors[0] < 1.15 * errors[1], errors


def test_an_outlier_of_weight_0_is_not_there():
    labels, weights = SIGNAL.copy(), np.ones(len(SIGNAL))
    labels[11], weights[11] = 1e9, 0
    error, plain = (mean_absolute_error(TRUTH, ours(y, w, objective="reg:squarederror"))
                    for y, w in ((labels, weights), (SIGNAL, None)))  # fmt: skip
    assert error < 1.05 * plain


@pytest.mark.parametrize(
    ("labels", "parameters", "sentence"),
    [
        (SIGNAL * 1e300, {}, "y: the largest label must be between 1e-30 and 1e+30 in magnitude, got"),
        (SIGNAL * 1e-310, {}, "y: the largest label must be between 1e-30 and 1e+30 in magnitude, got"),
        (np.where(np.arange(1000) == 3, 1e12, SIGNAL), {}, "y: row 3: labels must be near each other, got 1e+12"),
        (SIGNAL + 1e9, {"base_score": 0.5}, "base_score must be near the labels, got 0.5"),
    ],
)
def test_labels_beyond_the_arithmetic(labels, parameters, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        ours(labels, objective="reg:squarederror", **parameters)


@pytest.mark.parametrize(
    ("scale", "alpha"), [(1e-9, 1.0), (1e-3, 1e6), (1e-3, 0.05), (1.0, 20.0), (1e4, 1e5), (1e4, 1e6)]
)
def test_alpha_beside_labels_of_any_scale(scale, alpha):
    parameters = {"objective": "reg:squarederror", "reg_alpha": alpha, "base_score": 0.0}
    mine = ours(SIGNAL * scale, fresh=FRESH[:300], **parameters) / scale
    # Both are scaled, because labels of 1e-9 are lost beside XGBoost's constants.
    reference = theirs(SIGNAL, **(parameters | {"reg_alpha": alpha / scale}))[:300]
    if alpha / scale > 1e4:
        assert not reference.any() and not mine.any()
    else:
        assert np.corrcoef(reference, mine)[0, 1] > 0.95 and abs(mine.std() / reference.std() - 1) < 0.1


@pytest.mark.parametrize("least", [300.0, 1e6])
def test_a_child_weight_beyond_all_rows_leaves_the_base(least):
    labels = (SIGNAL > 0).astype(float)
    rows = slice(0, 500), slice(500, None)

    def job(party):
        parameters = {"max_depth": 2, "max_bin": 8, "reg_lambda": 0.0, "base_score": 0.4}
        model = SecureXGBClassifier(n_estimators=2, min_child_weight=least, **parameters)
        model.fit(party, X[rows[party.rank]], labels[rows[party.rank]])
        return model.predict_margin(party, FRESH[:20] if party.rank == 0 else FRESH[:0], "thresholds")

    margins = run_both(job)[0][0]
    assert np.abs(margins - np.log(0.4 / 0.6)).max() < 1e-5
