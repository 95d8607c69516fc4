"""Held-out rows: revealed metrics against scikit-learn's, and early stopping."""

import numpy as np
import pytest
from sklearn import metrics

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.setup.unit import UNIT
from tests.secure_tree.public.test_sampling import three_classes
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table

SMALL = dict(max_depth=2, max_bin=8, learning_rate=0.5)


def fit(tables, labels, held=(None, None), kind=SecureXGBClassifier, **parameters):
    """Return both parties' fitted estimators, and the parties."""

    def job(party):
        rank = party.rank
        return kind(**{**SMALL, **parameters}).fit(party, tables[rank], labels[rank], eval_set=held[rank])

    return run_both(job)


def margins(models, rows):
    return np.concatenate(run_both(lambda party: models[party.rank].predict_margin(party, rows[party.rank]))[0])


def evaluated(metric, margin, y):
    probability = 1 / (1 + np.exp(-margin))
    return {
        "error": lambda: ((probability > 0.4) != y).mean(),
        "logloss": lambda: metrics.log_loss(y, probability),
        "auc": lambda: metrics.roc_auc_score(y, margin),
        "rmse": lambda: metrics.root_mean_squared_error(y, margin),
        "mae": lambda: metrics.mean_absolute_error(y, margin),
    }[metric]()


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("metric", ["error", "logloss", "auc", "rmse", "mae"])
def test_an_explicit_set(metric, partition):
    by_rows = partition == "horizontal"
    regression = metric in ("rmse", "mae")
    (X, y), (fresh, truth) = table(80, 4, seed=51), table(60, 4, seed=52)
    if regression:
        y, truth = ((x[:, 0] - x[:, 2]) * 30 - 7 for x in (X, fresh))
    tables, labels = halves(X, y, 30) if by_rows else columns(X, y, 2)
    rows, truths = halves(fresh, truth, 25) if by_rows else columns(fresh, truth, 2)
    kind = SecureXGBRegressor if regression else SecureXGBClassifier
    asked = dict(n_estimators=3, eval_epochs=2, eval_metric=metric, eval_threshold=0.4, partition=partition)
    models, parties = fit(tables, labels, tuple(zip(rows, truths, strict=True)), kind, **asked)
    assert models[0].curve == models[1].curve and [count for count, _ in models[0].curve] == [2, 3]
    expected = evaluated(metric, margins(models, rows), truth)
    assert abs(models[0].curve[-1][1] - expected) < (1e-2 if metric == "auc" else 1e-3)
    evaluated_after = [f"{metric} of held-out rows after {count} trees" for count in (2, 3)]
    assert parties[0].revealed == [UNIT] * regression + evaluated_after


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_rows_held_out_of_the_table(partition):
    X, y = table(80, 3, seed=53)
    tables, labels = halves(X, y, 40) if partition == "horizontal" else columns(X, y, 1)
    models, _ = fit(tables, labels, n_estimators=2, test_size=0.25, random_state=7, partition=partition)
    facts = models[0].model.facts
    counts = ((10, 10), (30, 30)) if partition == "horizontal" else ((20, 20), (60, 60))
    assert (facts.validation_rows, facts.layout.rows) == counts
    assert len(models[0].curve) == 1 and models[0].curve[0][0] == 2


def test_one_party_may_hold_out_all_rows():
    X, y = table(80, 3, seed=53)
    held = table(9, 3, seed=56), None
    models, _ = fit(*halves(X, y, 40), held, n_estimators=1)
    assert models[0].model.facts.validation_rows == (9, 0) and len(models[0].curve) == 1


def test_training_stops_early():
    X, _ = table(80, 2, seed=54)
    y = np.random.default_rng(2).integers(0, 2, 80)
    held = halves(*table(60, 2, seed=55), 30)
    models, _ = fit(
        *halves(X, y, 40), tuple(zip(*held, strict=True)), n_estimators=40, eval_epochs=1, early_stopping_rounds=3
    )
    values = [value for _, value in models[0].curve]
    best = int(np.argmin(values)) + 1
    assert len(values) == best + 3 < 40
    assert models[0].model.ensemble.leaves.shape[0] == best
    expected = evaluated("logloss", margins(models, held[0]), np.concatenate(held[1]))
    assert abs(min(values) - expected) < 1e-3


def test_several_metrics():
    (X, y), (fresh, truth) = table(80, 4, seed=51), table(60, 4, seed=52)
    rows, truths = halves(fresh, truth, 25)
    asked = ["auc", "gini", "aucpr", "ks", "logloss"]
    held = tuple(zip(rows, truths, strict=True))
    models, parties = fit(*halves(X, y, 30), held, n_estimators=3, eval_epochs=2, eval_metric=asked)
    assert list(models[0].curves) == asked and models[0].curve == models[0].curves["logloss"]
    assert parties[0].revealed == [f"auc, gini, aucpr, ks, logloss of held-out rows after {k} trees" for k in (2, 3)]
    last = {metric: curve[-1][1] for metric, curve in models[0].curves.items()}
    margin = margins(models, rows)
    assert last["gini"] == 2 * last["auc"] - 1
    assert abs(last["auc"] - evaluated("auc", margin, truth)) < 1e-2
    assert abs(last["logloss"] - evaluated("logloss", margin, truth)) < 1e-3
    assert abs(last["aucpr"] - metrics.average_precision_score(truth, margin)) < 3e-2
    false, true, _ = metrics.roc_curve(truth, margin)
    assert -5e-2 < last["ks"] - np.abs(true - false).max() < 1e-3


def test_metrics_that_do_not_suit():
    for parameters, said in (
        (dict(eval_metric=["auc", "rmse"]), "eval_metric must suit binary:logistic, got rmse"),
        (dict(eval_metric=["auc", "auc"]), "eval_metric must name different metrics, got auc, auc"),
        (dict(eval_metric="ks", objective="multi:ova", num_class=3), "eval_metric must suit multi:ova, got ks"),
        (dict(eval_metric=[]), "eval_metric"),
    ):
        with pytest.raises(ConfigError, match=said):
            SecureXGBClassifier(**parameters)


@pytest.mark.parametrize("metric", ["merror", "mlogloss", "auc"])
def test_several_classes(metric):
    X, y = three_classes(80, seed=58)
    fresh, truth = three_classes(50, seed=59)
    held = tuple(zip(*halves(fresh, truth, 20), strict=True))
    asked = dict(objective="multi:ova", num_class=3, n_estimators=4, eval_epochs=3, early_stopping_rounds=4)
    models, parties = fit(*halves(X, y, 40), held, eval_metric=metric, **asked)
    best = (max if metric == "auc" else min)(models[0].curve, key=lambda point: point[1])
    assert models[0].model.ensemble.leaves.shape[0] == 3 * best[0]
    margin = margins(models, (held[0][0], held[1][0]))
    each = 1 / (1 + np.exp(-margin))
    expected = {
        "merror": lambda: (margin.argmax(axis=1) != truth).mean(),
        "mlogloss": lambda: metrics.log_loss(truth, each / each.sum(axis=1, keepdims=True)),
        "auc": lambda: metrics.roc_auc_score(
            truth, each / each.sum(axis=1, keepdims=True), multi_class="ovr", average="weighted"
        ),
    }[metric]()
    assert 0 < best[1] < 1 and abs(best[1] - expected) < {"merror": 1e-9, "mlogloss": 1e-3, "auc": 5e-3}[metric]
    assert parties[0].revealed == [f"{models[0].config.metric} of held-out rows after {n} trees" for n in (3, 4)]


@pytest.mark.parametrize(
    ("parameters", "error", "sentence"),
    [
        ({"early_stopping_rounds": 2}, ConfigError, "early_stopping_rounds needs held-out rows"),
        ({"eval_metric": "rmse"}, ConfigError, "eval_metric must suit binary:logistic, got rmse"),
        (
            {"objective": "multi:ova", "num_class": 3, "eval_metric": "mae"},
            ConfigError,
            "must suit multi:ova, got mae",
        ),
        ({"test_size": 0.99}, DataError, "at least one row to train on, got 0.99 for 20 rows"),
        ({"test_size": 0.1}, DataError, "must hold out at least 5 rows or none, got 2"),
    ],
)
def test_bad_requests(parameters, error, sentence):
    with pytest.raises(error, match=sentence):
        fit(*halves(*table(40, 2, seed=57), 20), n_estimators=1, **parameters)
