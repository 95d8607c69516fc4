"""Cross-validation and grid search on shares: equal to trainings on the same folds, and what they reveal."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.cross_validation import _folds, cross_validate, grid_search
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table

SMALL = dict(max_depth=2, max_bin=8, learning_rate=0.5, n_estimators=2)


def test_folds_hold_every_row_out_once():
    for rows, folds in ((20, 5), (23, 5), (7, 7), (11, 2)):
        held = list(_folds(rows, folds, 3))
        assert sorted(np.concatenate(held)) == list(range(rows))
        sizes = [len(each) for each in held]
        assert len(sizes) == folds and max(sizes) - min(sizes) <= 1
    assert not np.array_equal(next(_folds(40, 2, 0)), next(_folds(40, 2, 1)))


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_a_fold_is_a_training_on_the_other_rows(no_coins, partition):
    X, y = table(60, 4, seed=81)
    tables, labels = halves(X, y, 30) if partition == "horizontal" else columns(X, y, 2)

    def job(party):
        model = SecureXGBClassifier(**SMALL, partition=partition, eval_metric=["auc", "logloss"])
        mine, own = pd.DataFrame(tables[party.rank]), labels[party.rank]
        scores = cross_validate(party, model, mine, own, folds=3)
        assert model.model is None and model.curve == []
        margins = []
        for held in _folds(len(mine), 3, 0):
            rest = np.delete(np.arange(len(mine)), held)
            fold = SecureXGBClassifier(**SMALL, partition=partition)
            fold.fit(party, mine.iloc[rest], None if own is None else own[rest])
            margins.append((fold.predict_margin(party, mine.iloc[held]), None if own is None else own[held]))
        return scores, margins

    results, parties = run_both(job)
    (scores, first), (same, second) = results
    assert all(np.array_equal(scores[metric], same[metric]) for metric in ("auc", "logloss"))
    assert [len(values) for values in scores.values()] == [3, 3]
    for k in range(3):
        parts = [part for part in (first[k], second[k]) if part[1] is not None]
        margin, truth = (np.concatenate(each) for each in zip(*parts, strict=True))
        assert abs(scores["logloss"][k] - metrics.log_loss(truth, 1 / (1 + np.exp(-margin)))) < 1e-3
        assert abs(scores["auc"][k] - metrics.roc_auc_score(truth, margin)) < 2e-2
    assert parties[1].revealed[:3] == ["auc, logloss of held-out rows after 2 trees"] * 3


def test_a_grid_search():
    X, _ = table(60, 3, seed=82)
    truth = np.where(X[:, 0] > 0, 3.0, -1.0)
    tables, labels = halves(X, truth, 30)
    grid = {"n_estimators": [1, 4], "max_depth": [1, 2]}

    def job(party):
        model = SecureXGBRegressor(max_bin=8, learning_rate=0.5)
        found = grid_search(party, model, grid, tables[party.rank], labels[party.rank], folds=2)
        return found.best.get_params(), found.results.to_dict("list")

    (best, results), other = run_both(job)[0]
    assert (best, results) == other
    assert best["n_estimators"] == 4 and best["learning_rate"] == 0.5
    assert sorted(zip(results["n_estimators"], results["max_depth"], strict=True)) == [(1, 1), (1, 2), (4, 1), (4, 2)]
    assert results["rmse_mean"] == sorted(results["rmse_mean"]) and results["n_estimators"][0] == 4


def test_what_is_refused():
    X, y = table(40, 3, seed=83)

    def refused(said, error=ConfigError, *, folds=(2, 2), rows=20, **parameters):
        def job(party):
            model = SecureXGBClassifier(**SMALL, **parameters)
            cross_validate(party, model, X[:rows], y[:rows], folds=folds[party.rank])

        with pytest.raises(error, match=said):
            run_both(job)

    refused("the parties disagree on the number of folds: [23] here", folds=(2, 3))
    refused("folds must be a number from 2 to 100, got 1", folds=(1, 1))
    refused("test_size must be 0", test_size=0.2)
    refused("at least 5 rows or none, got 4", DataError, folds=(5, 5))
    with pytest.raises(ConfigError, match="grid must list at least one value"):
        run_both(lambda party: grid_search(party, SecureXGBClassifier(), {"max_depth": []}, X, y))


def test_parameters_that_trees_on_shares_do_not_have():
    with pytest.raises(ConfigError, match="max_leaves is not supported: trees are grown level by level"):
        SecureXGBClassifier(max_leaves=8)
    with pytest.raises(ConfigError, match="grow_policy is not supported"):
        SecureXGBRegressor(grow_policy="lossguide")
