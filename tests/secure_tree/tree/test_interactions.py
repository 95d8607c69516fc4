"""Interaction constraints: splits of the twin, paths of the models, what it costs, and comparison with XGBoost."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes, plan_training
from tests.secure_tree.opened import train_both

pandas = pytest.importorskip("pandas")
APART = [[0, 1], [2, 3]]
OVERLAPPING = [[0, 1], [1, 2, 3], [3, 4], [0, 3]]


def table(n, seed, missing=False):
    """Return a table whose labels depend on products of features of different groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 0] * X[:, 4] + X[:, 1] + X[:, 3] + 0.5 * rng.normal(size=n)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def paths(features):
    """Features of the nodes of full trees, int[trees, m], -1 for a null split -> the features on each path."""
    found = set()
    for tree in features:
        m = len(tree)
        for leaf in range(m, 2 * m + 1):
            node, used = leaf, set()
            while node:
                node = (node - 1) // 2
                used.add(int(tree[node]))
            found.add(frozenset(used - {-1}))
    return found


def within(found, groups):
    """Check that each path is in one group or has one feature; return the number of features of the longest."""
    for path in found:
        assert len(path) <= 1 or any(path <= set(group) for group in groups)
    return max(map(len, found))


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("groups", [APART, OVERLAPPING, []])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_splits_are_the_twins_and_no_path_mixes_groups(partition, groups, source):
    X, y = table(200, 1)
    labels = (y > 0).astype(float)
    if partition == "vertical":
        parts = ((X[:, :2], X[:, 2:]), (labels, None))
    else:
        parts = ((X[:90], X[90:]), (labels[:90], labels[90:]))
    shape = {"n_estimators": 3, "max_depth": 3, "max_bin": 4, "learning_rate": 0.5, "partition": partition}
    training = train_both(*parts, source=source, interaction_constraints=groups, **shape)
    agree(training)
    assert (within(features_of(training), groups) > 1) == bool(groups)


def agree(training):
    for seen, twin in zip(training.trees, training.twins(), strict=True):
        assert np.array_equal(seen.winner, twin.winner)
        assert np.abs(seen.leaves - twin.leaves).max() < 1e-4


def features_of(training):
    features = np.append(training.data.candidates.features, -1)
    return paths([features[tree.winner] for tree in training.trees])


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 5, "missing": "all"},
        {"max_depth": 4, "min_child_samples": 9, "max_delta_step": 0.5, "partition": "vertical", "missing": "all"},
        {"max_depth": 3, "reg_alpha": 0.7, "min_split_loss": 0.1, "edges": "joint"},
        {"max_depth": 3, "objective": "multi:softprob", "num_class": 3, "subsample": 0.7},
        {"max_depth": 3, "objective": "count:poisson", "colsample_bytree": 0.6, "n_estimators": 5},
        {"max_depth": 4, "objective": "reg:squarederror", "monotone_constraints": [1, 0, 0, -1, 0]},
        {"max_depth": 1, "max_bin": "exact"},
    ],
)
def test_it_goes_with_all_parameters(parameters):
    X, y = table(200, 2, missing="missing" in parameters)
    parameters = {"n_estimators": 3, "max_bin": 8, "learning_rate": 0.5} | parameters
    objective = parameters.get("objective", "binary:logistic")
    labels = {
        "binary:logistic": y > 0,
        "multi:softprob": np.digitize(y, [-1, 1]),
        "count:poisson": np.round(np.exp(y / 3)),
        "reg:squarederror": y,
    }[objective].astype(float)
    if "partition" in parameters:
        parts = ((X[:, :3], X[:, 3:]), (labels, None))
    else:
        parts = ((X[:90], X[90:]), (labels[:90], labels[90:]))
    training = train_both(*parts, interaction_constraints=OVERLAPPING, **parameters)
    agree(training)
    assert within(features_of(training), OVERLAPPING) > (parameters["max_depth"] > 1)


def test_a_node_that_may_split_on_nothing_does_not_split():
    """Of two columns that must not meet, the one above has two values, and only the other one would pay below."""
    rng = np.random.default_rng(3)
    X = np.stack([np.repeat([0.0, 1.0], 60), rng.normal(size=120)], axis=1)
    y = 9 * X[:, 0] + np.sign(X[:, 1])
    parts, labels = (X[::2], X[1::2]), (y[::2], y[1::2])
    shape = {"objective": "reg:squarederror", "n_estimators": 2, "max_depth": 3, "max_bin": 8, "learning_rate": 0.5}
    training = train_both(parts, labels, interaction_constraints=[], **shape)
    agree(training)
    assert features_of(training) == {frozenset({0})}
    assert frozenset({0, 1}) in features_of(train_both(parts, labels, **shape))


def test_ors_of_many_groups():
    """A feature in so many groups that one look-up does not combine them."""
    X, y = table(150, 4)
    X = np.concatenate([X, X + np.random.default_rng(4).normal(size=X.shape)], axis=1)
    groups = [[0, other] for other in range(1, 10)]
    labels = (y > 0).astype(float)
    training = train_both(
        (X[:70], X[70:]), (labels[:70], labels[70:]), n_estimators=3, max_bin=4, interaction_constraints=groups
    )
    agree(training)
    assert within(features_of(training), groups) == 2


def test_the_exported_model_keeps_the_groups():
    xgboost = pytest.importorskip("xgboost")
    X, y = table(300, 5)
    frame = pandas.DataFrame(X[:, :4], columns=["age", "income", "debt", "rate"])
    frame["kind"] = pandas.Categorical(np.where(X[:, 4] > 0.5, "x", np.where(X[:, 4] < -0.5, "y", "z")))
    groups = [["age", "kind"], ["income", "debt"]]

    def job(party):
        rows = slice(0, 140) if party.rank == 0 else slice(140, None)
        model = SecureXGBRegressor(n_estimators=6, max_depth=4, max_bin=8, interaction_constraints=groups)
        model.fit(party, frame[rows], y[rows])
        return reveal_model(party, model.model, to=0)

    plain = run_both(job)[0][0]
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(to_xgboost(plain)).encode()))
    found = set()

    def walk(node, used):
        if "leaf" in node:
            found.add(frozenset(used))
        for child in node.get("children", ()):
            walk(child, used | {node["split"].partition("=")[0]})

    for tree in booster.get_dump(dump_format="json"):
        walk(json.loads(tree), set())
    assert within(found, groups) == 2


@pytest.mark.parametrize("groups", [APART, OVERLAPPING])
def test_accuracy_is_near_xgboosts(groups):
    xgboost = pytest.importorskip("xgboost")
    metrics = pytest.importorskip("sklearn.metrics")
    X, y = table(2400, 6)
    y = (y > 0).astype(float)
    parameters = {"n_estimators": 20, "max_depth": 3, "learning_rate": 0.3, "max_bin": 32}
    rows, later = (slice(0, 600), slice(600, 1200)), slice(1200, None)

    def job(party):
        model = SecureXGBClassifier(interaction_constraints=groups, edges="joint", **parameters)
        model.fit(party, X[rows[party.rank]], y[rows[party.rank]])
        return model.predict_margin(party, X[later] if party.rank == 0 else X[:0])

    def reference(given):
        more = {} if given is None else {"interaction_constraints": json.dumps(given)}
        theirs = xgboost.XGBClassifier(min_child_weight=0.5, **parameters, **more).fit(X[:1200], y[:1200])
        return metrics.roc_auc_score(y[later], theirs.predict_proba(X[later])[:, 1])

    ours = metrics.roc_auc_score(y[later], run_both(job)[0][0])
    assert abs(ours - reference(groups)) < 0.015 < reference(None) - reference(APART)


def test_both_parties_give_the_same_groups():
    X, y = table(60, 7)
    y = (y > 0).astype(float)

    def job(party, given):
        rows = slice(0, 30) if party.rank == 0 else slice(30, None)
        SecureXGBClassifier(n_estimators=1, interaction_constraints=given[party.rank]).fit(party, X[rows], y[rows])

    with pytest.raises(ConfigError, match="the parties disagree on interaction_constraints"):
        run_both(lambda party: job(party, ([[0, 1]], [[0, 2]])))
    with pytest.raises(ConfigError, match="interaction_constraints: no party has a column 'age'"):
        run_both(lambda party: job(party, ([["age"]], [["age"]])))


@pytest.mark.parametrize("dealer", [True, False])
@pytest.mark.parametrize(
    ("partition", "sent"),
    [
        ("horizontal", {1: (0, 0), 2: (24, 28), 4: (163, 189)}),
        ("vertical", {1: (0, 0), 2: (14, 18), 4: (93, 119)}),
    ],
)
def test_what_constraints_cost(partition, sent, dealer):
    names = ("a", "b", "c", "d", "e")
    own = (names[:1], names[1:]) if partition == "vertical" else (names, names)

    def of_trees(depth, count, groups):
        config = TrainConfig.of(max_depth=depth, max_bin=8, partition=partition, interaction_constraints=groups)
        setup, trees, finish = plan_training(config, Sizes((count, count), own), dealer)
        return trees, setup, finish

    for depth, expected in sent.items():
        for count in (90, 900):
            free = of_trees(depth, count, None)
            assert of_trees(depth, count, [names, ["a"]]) == free, "no constraint, no cost"
            for groups, more in zip((APART, OVERLAPPING), expected, strict=True):
                trees, *others = of_trees(depth, count, groups)
                assert others == list(free[1:]), "only trees cost more"
                assert (trees.rounds, trees.sent) == (free[0].rounds, free[0].sent + more), "no round, nothing per row"
