"""Shared XGBoost models of one party: predictions of the other party's rows equal those of `Booster.predict`."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, RangeError
from protocols.testing.two_parties import Recorder, dealt, run_both
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import NO_SPLIT, reveal_model, share_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.test_layouts import with_holes

xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(9)
X = RNG.normal(size=(400, 4)).astype(np.float32)
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = {
    "binary:logistic": (SIGNAL > 0).astype(float),
    "reg:logistic": 1 / (1 + np.exp(-SIGNAL)),
    "reg:squarederror": 50 * SIGNAL + 100,
    "reg:absoluteerror": 50 * SIGNAL + 100,
    "count:poisson": np.floor(np.exp(SIGNAL)),
    "reg:tweedie": np.floor(np.exp(SIGNAL)),
    "reg:gamma": np.exp(SIGNAL),
    "multi:softprob": np.digitize(SIGNAL, [-1, 0.2]),
    "multi:softmax": np.digitize(SIGNAL, [-1, 0.2]),
}


def train(objective, holes=0.0, rounds=8, features=X, **parameters):
    several = {"num_class": 3} if objective.startswith("multi") else {}
    data = xgboost.DMatrix(with_holes(features, holes), label=LABELS[objective][: len(features)])
    return xgboost.train({"objective": objective, **several, **parameters}, data, rounds)


def plain_of(booster):
    return from_xgboost(json.loads(booster.save_raw("json")), "m.json")


def estimator_of(half):
    model = (SecureXGBClassifier if half.config.logistic else SecureXGBRegressor)(**half.config.model_dump())
    model.model = half
    return model


def predicted(booster, rows, owner=1, missing="all"):
    """Predict the other party's rows by a shared model: margins, `predict` and `predict_proba`."""
    return answers(plain_of(booster), rows, owner, missing, asked=("predict_margin", "predict", "predict_proba"))


def answers(plain, rows, owner=1, missing="all", source=dealt, asked=("predict_margin",)):
    """Ask a shared model about the other party's rows."""

    def job(party):
        model = estimator_of(share_model(party, plain if party.rank == owner else None, missing))
        own = rows if party.rank != owner else rows[:0]
        return [getattr(model, one, model.predict)(party, own, "thresholds") for one in asked]

    results, parties = run_both(job, source=source)
    assert parties[owner].revealed == [] and set(parties[1 - owner].revealed) == {"predictions of its own rows"}
    assert all(len(part) == 0 for part in results[owner])
    return results[1 - owner]


@pytest.mark.parametrize(
    ("objective", "parameters", "holes"),
    [
        ("binary:logistic", {"max_depth": 6}, 0.0),
        ("binary:logistic", {"max_depth": 1, "base_score": 0.3}, 0.2),
        ("reg:logistic", {"max_depth": 3}, 0.0),
        ("binary:logistic", {"max_depth": 8, "grow_policy": "lossguide", "max_leaves": 7}, 0.2),
        ("reg:squarederror", {"max_depth": 6, "gamma": 100.0}, 0.2),
        ("reg:squarederror", {"max_depth": 2, "base_score": 0.3, "tree_method": "exact"}, 0.0),
        ("reg:absoluteerror", {"max_depth": 3}, 0.0),
        ("count:poisson", {"max_depth": 3}, 0.2),
        ("reg:tweedie", {"max_depth": 3, "base_score": 2.0}, 0.0),
        ("reg:gamma", {"max_depth": 3}, 0.2),
        ("multi:softprob", {"max_depth": 4}, 0.0),
        ("multi:softprob", {"max_depth": 4}, 0.2),
        ("multi:softmax", {"max_depth": 3, "num_parallel_tree": 2, "subsample": 0.5}, 0.0),
        ("multi:softprob", {"max_depth": 2, "base_score": 0.25}, 0.2),
    ],
)
def test_every_kind(objective, parameters, holes):
    booster = train(objective, holes, **parameters)
    rows = with_holes(X[:60], holes, seed=3)
    margins, values, probabilities = predicted(booster, rows, missing="all" if holes else "none")
    data = xgboost.DMatrix(rows)
    assert np.abs(margins - booster.predict(data, output_margin=True)).max() < 1e-3
    truth = booster.predict(data)
    if objective == "multi:softprob":
        assert np.abs(probabilities - truth).max() < 1e-3 and np.array_equal(values, truth.argmax(axis=1))
    elif objective.endswith("logistic"):
        assert np.abs(probabilities[:, 1] - truth).max() < 1e-3
    else:
        assert np.abs(values - truth).max() < 1e-3 * (
            1 if "error" in objective or "multi" in objective else truth.max()
        )


@pytest.mark.parametrize(
    ("objective", "parameters"), [("binary:logistic", {}), ("multi:softprob", {"num_class": 3, "num_parallel_tree": 2})]
)
def test_the_trees_up_to_the_best_round_are_shared(objective, parameters):
    y = np.where(RNG.random(400) < 0.3, RNG.permutation(LABELS[objective]), LABELS[objective])
    train_on, judge_by = xgboost.DMatrix(X[:300], label=y[:300]), xgboost.DMatrix(X[300:], label=y[300:])
    stopped = xgboost.train(
        {"objective": objective, "learning_rate": 0.5, **parameters},
        train_on,
        60,
        evals=[(judge_by, "held")],
        early_stopping_rounds=5,
        verbose_eval=False,
    )
    best = stopped.best_iteration + 1
    assert best < stopped.num_boosted_rounds()
    assert len(plain_of(stopped).leaves) == best * 3 * 2 if parameters else best
    margins, _, _ = predicted(stopped, X[:40])
    truth = stopped.predict(xgboost.DMatrix(X[:40]), output_margin=True, iteration_range=(0, best))
    assert np.abs(margins - truth).max() < 1e-3


def test_large_margins():
    rows = xgboost.DMatrix(X, label=3e6 * SIGNAL)
    booster = xgboost.train({"objective": "reg:squarederror", "max_depth": 3}, rows, 30)
    margins, _, _ = predicted(booster, X[:60])
    truth = booster.predict(xgboost.DMatrix(X[:60]), output_margin=True)
    assert np.abs(margins - truth).max() < 1e-6 * np.abs(truth).max()


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e-4, 0.0), (1e12, 0.0), (1.0, 1e6)])
def test_labels_of_any_size(scale, offset):
    rows = xgboost.DMatrix(X, label=scale * SIGNAL + offset)
    booster = xgboost.train({"max_depth": 3, "lambda": 0.0, "min_child_weight": 0.0}, rows, 40)
    margins, _, _ = predicted(booster, X[:60])
    plain = plain_of(booster)
    (node_count,) = plain.features.shape[1:]
    exact = np.full(60, plain.base_margins[0])
    for features, thresholds, leaves in zip(plain.features, plain.thresholds, plain.leaves, strict=True):
        node = np.zeros(60, int)
        while (node < node_count).all():
            # A node without a split has equal leaves below it.
            node = 2 * node + 2 - (X[np.arange(60), np.maximum(features[node], 0)] < thresholds[node])
        exact += leaves[node - node_count]
    assert np.abs(margins - exact).max() < 1e-6 * scale * SIGNAL.std()


def test_probabilities_that_xgboost_holds():
    for labels in (np.zeros(400), np.ones(400)):
        booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, label=labels), 2)
        margins, _, _ = predicted(booster, X[:9])
        assert np.abs(margins - booster.predict(xgboost.DMatrix(X[:9]), output_margin=True)).max() < 1e-3


def test_any_value_may_be_missing_or_extreme():
    booster = train("binary:logistic", max_depth=4)
    cuts = np.array(sorted({t for tree in plain_of(booster).thresholds for t in tree}), np.float32)
    on_cuts = RNG.choice(cuts, size=(40, 4))
    rows = np.concatenate([np.full((1, 4), np.nan), [[3e38, -3e38, 0.0, -0.0]], on_cuts, with_holes(on_cuts, 0.4)])
    margins, _, _ = predicted(booster, rows, owner=0)
    assert np.abs(margins - booster.predict(xgboost.DMatrix(rows), output_margin=True)).max() < 1e-3


def test_values_are_missing_only_where_both_parties_say_so():
    booster = train("binary:logistic", 0.2, max_depth=3)
    rows = X[:20].copy()
    rows[::2, 1] = np.nan
    margins, _, _ = predicted(booster, rows, missing=("f1",))
    assert np.abs(margins - booster.predict(xgboost.DMatrix(rows), output_margin=True)).max() < 1e-3
    for missing, sentence in (("none", "row 0: value is missing"), (("f9",), "no party has a feature 'f9'")):
        with pytest.raises((DataError, ConfigError), match=sentence):
            predicted(booster, rows, missing=missing)
    plain = plain_of(booster)
    with pytest.raises(ConfigError, match="disagree on missing"):
        run_both(lambda party: share_model(party, None if party.rank else plain, ("none", "all")[party.rank]))


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror", "count:poisson", "multi:softprob"])
def test_shared_and_revealed_again(objective):
    booster = train(objective, 0.2, max_depth=4)
    plain = plain_of(booster)

    def job(party):
        return reveal_model(party, share_model(party, plain if party.rank == 0 else None, "all"), 1)

    (nothing, again), _ = run_both(job)
    rows = with_holes(X, 0.3, seed=4)
    truth = booster.predict(xgboost.DMatrix(rows), output_margin=True)
    assert nothing is None
    for model in (plain, again):
        document = to_xgboost(model)
        assert document["learner"]["objective"]["name"] == objective
        assert np.abs(booster_margins(document, rows, list(model.names)) - truth).max() < 1e-3


def test_the_wire_does_not_depend_on_the_model():
    def messages(booster):
        plain = plain_of(booster)

        def job(party):
            party.link = Recorder(party.link)
            model = estimator_of(share_model(party, plain if party.rank == 0 else None))
            model.predict_margin(party, X[:9], "thresholds")
            return [(tag, len(data)) for tag, data in party.link.rounds]

        return run_both(job)[0]

    full, sparse = (train("binary:logistic", max_depth=3, gamma=gamma) for gamma in (0.0, 8.0))
    splits = [(plain_of(booster).features != NO_SPLIT).sum() for booster in (full, sparse)]
    assert splits[0] > 2 * splits[1] and messages(full) == messages(sparse)


def test_a_shared_model_has_no_bins():
    plain = plain_of(train("reg:squarederror", rounds=1, max_depth=2))

    def job(party):
        estimator_of(share_model(party, plain if party.rank == 0 else None)).predict_margin(party, X, "bins")

    with pytest.raises(ConfigError, match="predict by thresholds"):
        run_both(job)
    with pytest.raises(ConfigError, match="neither party brings a model"):
        run_both(lambda party: share_model(party, None))


@pytest.mark.parametrize(
    ("objective", "parameters", "sentence"),
    [
        ("binary:logistic", {"booster": "dart", "one_drop": True}, "a dart model cannot be shared, only gbtree"),
        ("binary:logistic", {"booster": "gblinear"}, "a gblinear model cannot be shared, only gbtree"),
        ("rank:pairwise", {}, "a model with objective rank:pairwise cannot be shared"),
        ("multi:softprob", {"num_class": 3, "multi_strategy": "multi_output_tree"}, "several outputs per leaf"),
        ("multi_target", {}, "several targets"),
        ("categorical", {}, "categorical splits"),
        ("large", {}, "at most 2\\^30"),
    ],
)
def test_models_that_cannot_be_shared(objective, parameters, sentence):
    rows = X[:60]
    if objective == "multi_target":
        booster = xgboost.train({}, xgboost.DMatrix(rows, label=rows[:, :2]), 1)
    elif objective == "categorical":
        codes = (np.arange(60) % 5)[:, None].astype(np.float32)
        data = xgboost.DMatrix(codes, label=codes[:, 0] == 2, feature_types=["c"], enable_categorical=True)
        booster = xgboost.train({"max_cat_to_onehot": 1}, data, 1)
    elif objective == "large":
        booster = train("count:poisson", rounds=1)
    else:
        data = xgboost.DMatrix(rows, label=np.arange(60) % 2)
        booster = xgboost.train({"objective": objective, **parameters}, data, 3)
    with pytest.raises((DataError, RangeError), match=sentence):
        plain = plain_of(booster)
        plain = replace(plain, leaves=plain.leaves * 1e12) if objective == "large" else plain
        run_both(lambda party: share_model(party, plain if party.rank == 0 else None))


def test_a_dart_model_as_xgboost_3_4_writes_it():
    document = json.loads(train("binary:logistic", rounds=2, max_depth=2).save_raw("json"))
    document["learner"]["gradient_booster"]["model"]["weight_drop"] = [1.0, 1.0]
    assert from_xgboost(document, "m.json").features.shape == (2, 3)
    document["learner"]["gradient_booster"]["model"]["weight_drop"] = [1.0, 0.5]
    with pytest.raises(DataError, match=r"m\.json: a dart model cannot be shared, only gbtree"):
        from_xgboost(document, "m.json")


def bad(change):
    document = json.loads(train("binary:logistic", rounds=1, max_depth=2).save_raw("json"))
    change(document["learner"], document["learner"]["gradient_booster"]["model"]["trees"][0])
    return document


@pytest.mark.parametrize(
    "document",
    [
        {"hello": 1},
        bad(lambda learner, tree: tree["split_indices"].__setitem__(0, 4)),
        bad(lambda learner, tree: tree["split_conditions"].__setitem__(0, float("nan"))),
        bad(lambda learner, tree: tree["left_children"].__setitem__(1, 0)),
        bad(lambda learner, tree: learner["learner_model_param"].__setitem__("base_score", "[2]")),
        bad(lambda learner, tree: learner["learner_model_param"].__setitem__("base_score", "[0.1,0.2]")),
    ],
)
def test_documents_that_are_no_model(document):
    with pytest.raises(DataError, match=r"m\.json: not a model of XGBoost"):
        from_xgboost(document, "m.json")
