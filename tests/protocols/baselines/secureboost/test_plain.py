"""The plaintext twin against XGBoost, and its parts against slow definitions."""

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.baselines.secureboost import SecureBoostConfig
from protocols.baselines.secureboost.boost import boost
from protocols.baselines.secureboost.columns import bin_columns
from protocols.baselines.secureboost.encoding import CiphertextLayout, fixed_point
from protocols.baselines.secureboost.owners import OwnColumns, OwnRouter
from tests.protocols.baselines.secureboost.parties import twin


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson"])
@pytest.mark.parametrize("missing, gamma", [(0, 0), (0.15, 0), (0, 4)])
def test_predictions_are_those_of_xgboost_where_the_bins_are_the_values(objective, missing, gamma):
    from xgboost import XGBClassifier, XGBRegressor

    rng = np.random.default_rng(3)
    X = rng.integers(0, 20, (600, 6)).astype(np.float32)
    score = X[:, 0] - X[:, 1] + 0.2 * X[:, 2] * (X[:, 3] > 9) + rng.normal(size=600)
    if objective == "reg:squarederror":
        y = score
    elif objective == "count:poisson":
        y = rng.poisson(np.exp(0.2 * score)).astype(float)
    else:
        y = (score > 0).astype(float) if objective == "binary:logistic" else np.digitize(score, [-4, 4]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    parameters = {"n_estimators": 8, "max_depth": 4, "learning_rate": 0.3, "reg_lambda": 1.5}
    # For counts, XGBoost's gain ignores alpha although its leaf weights use it.
    parameters["reg_alpha"] = 0 if objective == "count:poisson" else 0.2
    config = SecureBoostConfig.of(
        objective=objective, min_child_weight=1, min_split_loss=gamma, base_score=0.5, guest_only="none", **parameters
    )
    kind = XGBRegressor if objective in ("reg:squarederror", "count:poisson") else XGBClassifier
    # Like us, XGBoost's "hist" compares a split with gamma before it grows the children; "exact" only afterwards.
    reference = kind(
        objective=objective, min_child_weight=1, gamma=gamma, base_score=0.5, tree_method="hist", **parameters
    )
    reference.fit(X, y)
    expected = reference.predict(X) if kind is XGBRegressor else reference.predict_proba(X)
    if objective == "binary:logistic":
        expected = expected[:, 1]
    # Ties may be resolved differently: the quantile allows for a few rows in different leaves.
    assert np.quantile(np.abs(twin(config, [X], y)[0] - expected), 0.95) < 1e-3 * max(1, expected.max())


def test_column_sampling_leaves_each_tree_its_share_of_every_partys_columns():
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    blocks = [X[:, :2], X[:, 2:]]
    config = SecureBoostConfig.of(n_estimators=8, colsample_bytree=0.5, guest_only="none")
    _, splits = twin(config, blocks, (X.sum(axis=1) > 0).astype(float))
    used = [{line[0] for line in tree if len(line) == 3} for tree in splits]
    assert all(len(columns & {0, 1}) <= 1 and len(columns & {2, 3, 4, 5, 6, 7}) <= 3 for columns in used)
    assert len(set().union(*used)) > 4


def test_keeping_roots_at_the_guest_costs_quality_where_the_hosts_columns_matter():
    X = np.random.default_rng(0).normal(size=(600, 6))
    y = 2 * np.abs(X[:, 3]) * X[:, 4] + 0.2 * X[:, 0]
    blocks, errors = [X[:, :3], X[:, 3:]], {}
    for guest_only in ("none", "root"):
        config = SecureBoostConfig.of(objective="reg:squarederror", guest_only=guest_only, n_estimators=20)
        errors[guest_only] = np.sqrt(np.mean((twin(config, blocks, y)[0] - y) ** 2))
    assert errors == pytest.approx({"none": 0.71, "root": 0.96}, abs=0.01)


def test_majority_label_is_the_vote_of_the_leaves():
    X = np.arange(40, dtype=np.float32)[:, None]
    y = (X[:, 0] >= 12).astype(float)
    config = SecureBoostConfig.of(n_estimators=3, max_depth=1)
    own = OwnColumns(bin_columns(X, 32))
    ensemble = boost(config, y, [own])
    votes = ensemble.majority_label([OwnRouter(own.records, X)], len(y))
    assert (votes == y).mean() > 0.95
    with pytest.raises(ConfigError, match="classification"):
        regression = boost(SecureBoostConfig.of(objective="reg:squarederror", n_estimators=1), y, [own])
        regression.majority_label([OwnRouter(own.records, X)], len(y))


def test_missing_values_get_their_own_bin():
    X = np.array([[1, np.nan], [np.nan, np.nan], [3, np.nan], [2, np.nan]], np.float32)
    binned = bin_columns(X, 4)
    assert binned.numbers[:, 0].tolist() == [0, 4, 3, 1]
    assert (binned.numbers[:, 1] == 4).all()
    assert binned.buckets == 5


@pytest.mark.parametrize("plaintext_bits", [343, 683, 1023, 2047])
@pytest.mark.parametrize("rows", [1, 395, 30_000])
def test_packed_sums_are_split_at_the_ends_of_their_range(plaintext_bits, rows):
    layout = CiphertextLayout.plan(rows, plaintext_bits)
    rng = np.random.default_rng(0)
    g = rng.integers(-rows << 24, (rows << 24) + 1, (5, layout.pairs))
    h = rng.integers(0, (rows << 24) + 1, (5, layout.pairs))
    g[0], h[0], g[1], h[1] = -rows << 24, -rows << 24, rows << 24, rows << 24
    pairs = layout.join(g, h)
    packed = np.array([sum(v << (j * layout.pair_bits) for j, v in enumerate(line)) for line in pairs], object)
    assert all(abs(value) < 1 << (plaintext_bits - 1) for value in packed)
    sums = layout.split(packed)
    assert np.array_equal(sums[..., 0], g.T)
    assert np.array_equal(sums[..., 1], h.T)


def test_fixed_point_scales_large_gradients_down_by_a_power_of_two():
    fixed = fixed_point(np.array([-1000.0, 0.25]), np.array([1.0, 0.5]))
    assert 1 << 23 < np.abs(fixed.g).max() <= 1 << 24 == fixed.h.max()
    assert np.array_equal(fixed.g / fixed.g_scale, [-1000.0, 0.25])
    assert np.array_equal(fixed.h / fixed.h_scale, [1.0, 0.5])


def test_fixed_point_scales_small_gradients_up_by_a_power_of_two():
    fixed = fixed_point(np.array([2.0**-40, -(2.0**-41)]), np.array([0.25, 0.0]))
    assert fixed.g.tolist() == [1 << 24, -1 << 23] and fixed.h.tolist() == [1 << 24, 0]
    assert fixed_point(np.zeros(2), np.zeros(2)).g.tolist() == [0, 0]
