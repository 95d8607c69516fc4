"""Prediction by bins and by thresholds against the twin, and the halves of a model in memory and on disk."""

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.twin.boost import PlainEnsemble
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table


def twin_of(training):
    return PlainEnsemble(training.data, training.config, training.twins(), np.zeros(0), float(training.base[0]))


def predict_both(models, rows, method="bins"):
    return run_both(lambda party: models[party.rank].predict_margin(party, rows[party.rank], method))[0]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_thresholds_route_anybodys_rows_as_the_comparison_does(depth):
    X, y = table(70, 3, seed=11)
    training = train_both(*halves(X, y, 30), n_estimators=3, max_depth=depth, max_bin=8, learning_rate=0.5)
    fresh = np.concatenate([np.random.default_rng(1).normal(size=(40, 3)) * 3, training.data.bins[0].edges.T[:, :3]])
    margins = np.concatenate(predict_both(training.models, (fresh[:15], fresh[15:]), "thresholds"))
    assert np.abs(margins - twin_of(training).predict_margin(fresh)).max() < 1e-3


def test_bins_give_training_rows_the_margin_of_training():
    X, y = table(70, 3, seed=12)
    tables, labels = halves(X, y, 30)
    training = train_both(tables, labels, n_estimators=4, max_depth=3, max_bin=8, learning_rate=0.5)
    margins = np.concatenate(predict_both(training.models, tables))
    assert np.abs(margins - training.trees[-1].margins).max() < 1e-5


def test_exact_bins_put_every_training_row_where_the_raw_comparison_does():
    X, y = table(60, 3, seed=13)
    X[::7] = X[0]
    tables, labels = halves(X, y, 25)
    training = train_both(tables, labels, n_estimators=3, max_depth=3, max_bin="exact", min_child_weight=0.1)
    by_bins = np.concatenate(predict_both(training.models, tables))
    by_thresholds = np.concatenate(predict_both(training.models, tables, "thresholds"))
    assert np.array_equal(by_bins, by_thresholds)
    assert np.abs(by_bins - twin_of(training).predict_margin(X)).max() < 1e-3


def test_values_outside_the_training_range():
    X, y = table(60, 2, seed=14)
    training = train_both(*halves(X, y, 30), n_estimators=2, max_bin="exact")
    extreme = np.array([[-1e30, 1e30], [1e30, -1e30], [0.0, -0.0], [3e38, -3e38]])
    for method in ("bins", "thresholds"):
        first, second = predict_both(training.models, (extreme, extreme[:0]), method)
        assert np.abs(first - twin_of(training).predict_margin(extreme)).max() < 1e-3 and second.shape == (0,)


def test_probabilities_classes_and_values():
    X, y = table(60, 2, seed=15)
    training = train_both(*halves(X, y, 30), n_estimators=2)

    def ask(party):
        model = training.models[party.rank]
        return model.predict_proba(party, X[:5]), model.predict(party, X[:5]), model.predict_margin(party, X[:5])

    for proba, classes, margins in run_both(ask)[0]:
        assert np.allclose(proba[:, 1], 1 / (1 + np.exp(-margins))) and np.allclose(proba.sum(axis=1), 1)
        assert np.array_equal(classes, margins > 0)


def test_a_party_learns_its_own_rows_only():
    X, y = table(40, 2, seed=16)
    training = train_both(*halves(X, y, 20), n_estimators=1)
    _, parties = run_both(lambda party: training.models[party.rank].predict_margin(party, X[: 3 * party.rank]))
    assert [p.revealed for p in parties] == [[], ["predictions of its own rows"]]
    assert all(p.revealed == [] for p in training.parties)


def test_save_and_load(tmp_path):
    X, y = table(60, 2, seed=17)
    training = train_both(*halves(X, y, 30), n_estimators=2)
    for rank, model in enumerate(training.models):
        model.save(tmp_path / f"{rank}.npz")
    loaded = [SecureXGBClassifier.load(tmp_path / f"{rank}.npz") for rank in (0, 1)]
    for method in ("bins", "thresholds"):
        before, after = (predict_both(m, (X[:9], X[9:12]), method) for m in (training.models, loaded))
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert loaded[0].model.config == training.models[0].model.config


def test_halves_that_do_not_belong_together(tmp_path):
    X, y = table(40, 2, seed=18)
    first, second = (train_both(*halves(X, y, 20), n_estimators=1).models for _ in range(2))
    with pytest.raises(DataError, match="different trainings"):
        predict_both((first[0], second[1]), (X, X))
    with pytest.raises(DataError, match="belongs to party 1"):
        predict_both((first[1], first[1]), (X, X))
    with pytest.raises(DataError, match="both must have the same features, and only the model has 'f1'"):
        predict_both(first, (X[:, :1], X))
    with pytest.raises(ConfigError, match="method"):
        predict_both(first, (X, X), "magic")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match="not a Sharewood model file"):
        SecureXGBClassifier.load(tmp_path / "text.npz")
    with pytest.raises(DataError, match="no such file"):
        SecureXGBClassifier.load(tmp_path / "none.npz")
    with pytest.raises(DataError, match="not fitted"):
        run_both(lambda party: SecureXGBRegressor().predict(party, X))
