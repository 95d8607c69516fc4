"""Models of LightGBM, scikit-learn and CatBoost, and deep ones of XGBoost: predictions equal those of the library."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn.linear_model import LinearRegression

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import Recorder, dealt, made_by_both, run_both
from secure_tree.exchange.catboost import from_catboost
from secure_tree.exchange.libraries import from_library, read_model
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel, reveal_model, share_model
from secure_tree.exchange.trees import Tree, plain_model
from secure_tree.model.shared_model import SharedModel
from tests.secure_tree.exchange.test_share import answers, estimator_of
from tests.secure_tree.test_layouts import with_holes

lightgbm = pytest.importorskip("lightgbm")
treelite = pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(5)
NAMES = ["age", "b", "c", "d"]
X = RNG.normal(size=(900, 4)).astype(np.float32)
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=900)
LABELS = {
    "binary": SIGNAL > 0,
    "regression": 50 * SIGNAL + 100,
    "poisson": np.floor(np.exp(SIGNAL)),
    "multiclass": np.digitize(SIGNAL, [-1, 0.2]),
    "multiclassova": np.digitize(SIGNAL, [-1, 0.2]),
}
CATBOOST = json.loads((Path(__file__).parent / "of_catboost.json").read_text())
CATBOOST_ROWS = np.array(CATBOOST["rows"], np.float32)


def frame(rows=X):
    return pd.DataFrame(rows, columns=NAMES)


def of_lightgbm(objective, rows=X, trees=6, **parameters):
    several = {"num_class": 3} if objective.startswith("multiclass") else {}
    given = {"objective": objective, "verbose": -1, "min_data_in_leaf": 4, **several, **parameters}
    return lightgbm.train(given, lightgbm.Dataset(frame(rows), LABELS[objective]), trees)


def predicted(plain, rows, **how):
    """Predict the other party's rows by a shared model: margins."""
    return answers(plain, pd.DataFrame(rows, columns=list(plain.names)), **how)[0]


@pytest.mark.parametrize(
    ("objective", "parameters", "holes"),
    [
        ("binary", {"num_leaves": 31}, 0.0),
        ("binary", {"num_leaves": 31, "sigmoid": 2.0}, 0.2),
        ("binary", {"max_depth": 3}, 0.2),
        ("binary", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, 0.0),
        ("regression", {"num_leaves": 63, "min_data_in_leaf": 1}, 0.2),
        ("poisson", {"num_leaves": 31}, 0.0),
        ("multiclass", {"num_leaves": 20}, 0.2),
    ],
)
def test_every_kind_of_lightgbm(objective, parameters, holes, tmp_path):
    model = of_lightgbm(objective, with_holes(X, holes), **parameters)
    plain = from_library(model)
    assert plain.names == tuple(NAMES) and (plain.paths is None or "max_depth" not in parameters)
    rows = with_holes(X[:60], holes, seed=3)
    truth = model.predict(frame(rows), raw_score=True) * parameters.get("sigmoid", 1.0)
    truth /= 6 if "boosting" in parameters else 1  # raw scores are not averaged, probabilities are
    # Leaves of classes and counts are rounded to 2^-20.
    assert np.abs(predicted(plain, rows) - truth).max() < 1e-5 * (1 if objective != "regression" else 1e-3)
    model.save_model(tmp_path / "m.txt")
    again = read_model(tmp_path / "m.txt")
    assert all(np.array_equal(a, b) for a, b in zip(plain.pack()[1].values(), again.pack()[1].values(), strict=True))


@pytest.mark.parametrize(
    ("model", "label", "margins"),
    [
        (ensemble.RandomForestRegressor(5, max_leaf_nodes=100, random_state=1), "regression", "predict"),
        (ensemble.RandomForestClassifier(5, max_leaf_nodes=60, random_state=1), "binary", "predict_proba"),
        (ensemble.ExtraTreesRegressor(3, max_depth=4, random_state=1), "regression", "predict"),
        (ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=3), "binary", "decision_function"),
        (ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=10), "multiclass", "decision_function"),
        (
            ensemble.GradientBoostingRegressor(n_estimators=4, max_leaf_nodes=40, max_depth=None),
            "regression",
            "predict",
        ),
        (ensemble.HistGradientBoostingClassifier(max_iter=5), "binary", "decision_function"),
        (ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=5), "poisson", "predict"),
        (ensemble.GradientBoostingClassifier(n_estimators=4, loss="exponential"), "binary", "predict_log_proba"),
    ],
)
def test_every_kind_of_scikit_learn(model, label, margins):
    model.fit(frame(), LABELS[label])
    truth = getattr(model, margins)(frame(X[:50]))
    if margins == "predict_proba":
        truth = truth[:, 1]
    elif margins == "predict_log_proba":
        truth = truth[:, 1] - truth[:, 0]
    elif label == "poisson":
        truth = np.log(truth)
    assert np.abs(predicted(from_library(model), X[:50], missing="none") - truth).max() < 1e-5


@pytest.mark.parametrize("name", ["levels", "leaves", "largest", "counts"])
def test_every_kind_of_catboost(name, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(CATBOOST[name]["model"]))
    plain = read_model(path)
    assert plain.names == ("age", "b b", "c", "d") and (plain.paths is not None) == (name == "leaves")
    assert np.abs(predicted(plain, CATBOOST_ROWS) - CATBOOST[name]["margins"]).max() < 1e-5


def test_forests_with_missing_values():
    rows = with_holes(X, 0.3)
    model = ensemble.RandomForestRegressor(5, max_leaf_nodes=60, random_state=2).fit(rows, LABELS["regression"])
    assert np.abs(predicted(from_library(model), rows[:60]) - model.predict(rows[:60])).max() < 1e-5


def test_a_deep_model_of_xgboost():
    data = xgboost.DMatrix(with_holes(X, 0.2), label=LABELS["binary"], feature_names=NAMES)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 14, "min_child_weight": 0.1}, data, 5)
    rows = with_holes(X[:60], 0.3, seed=3)
    truth = booster.predict(xgboost.DMatrix(rows, feature_names=NAMES), output_margin=True)
    assert from_library(booster).paths is not None
    for count, source in ((60, dealt), (5, made_by_both)):
        margins = predicted(from_library(booster), rows[:count], owner=0, source=source)
        assert np.abs(margins - truth[:count]).max() < 1e-5


def test_values_at_thresholds_go_the_same_way():
    """Thresholds are in double precision, and rows in single."""
    values = np.float32([0.1, 0.2, 0.3, 1 / 3, -0.0, 0.0, 1e-38, 3e38])
    rows = np.stack([np.nextafter(values, np.float32(to)) for to in (-np.inf, np.inf)] + [values]).T.reshape(-1, 1)
    rows = np.repeat(rows, 4, axis=1)
    model = ensemble.ExtraTreesRegressor(4, min_samples_leaf=1, random_state=3)
    model.fit(frame(rows), np.arange(len(rows)))
    assert np.abs(predicted(from_library(model), rows, missing="none") - model.predict(frame(rows))).max() < 1e-5


def grown(leaves, turn):
    """A tree of one feature: `turn(i)` chooses the leaf that is split next, by the number of the split."""
    left, right, thresholds, ends = [-1], [-1], [0.0], [0]
    for split in range(leaves - 1):
        node = ends.pop(turn(split) % len(ends))
        left[node], right[node], thresholds[node] = len(left), len(left) + 1, float(split % 97)
        ends += [len(left) + 1, len(left)]
        left, right, thresholds = ([*part, new, new] for part, new in ((left, -1), (right, -1), (thresholds, 0.0)))
    n = len(left)
    return Tree(
        np.zeros(n, int),
        np.float32(thresholds),
        np.ones(n, bool),
        np.array(left),
        np.array(right),
        np.arange(float(n)),
        np.zeros(n),
    )


def walked(tree, value):
    node = 0
    while tree.left[node] != -1:
        node = tree.left[node] if value < tree.thresholds[node] else tree.right[node]
    return tree.values[node]


@pytest.mark.parametrize(
    ("leaves", "turn"),
    [
        (256, lambda _: -1),  # 255 levels: a path can be missed at as many nodes
        (256, lambda _: -2),
        (512, lambda split: split * 7919),
        (300, lambda split: split * split),
    ],
)
def test_the_largest_trees(leaves, turn):
    trees = [grown(leaves, turn), grown(2, turn), replace(grown(1, turn), values=np.array([5.0]))]
    plain = plain_model("m", "reg:squarederror", ("x",), (0.5,), trees)
    assert plain.paths.shape[0] == 3 and plain.paths.shape[1] == (256 if leaves == 256 else 512)
    rows = np.float32([-1e9, 0, 3, 50.5, 96, 1e9])[:, None]
    truth = [0.5 + sum(walked(tree, value) for tree in trees) for value in rows[:, 0]]
    assert np.abs(predicted(plain, rows, missing="none") - truth).max() < 1e-5


@pytest.mark.parametrize(
    ("leaves", "turn", "sentence"),
    [(257, lambda _: -1, "depth 256: at most 255"), (513, lambda split: split * 7919, "513 leaves: at most 512")],
)
def test_larger_trees_are_refused(leaves, turn, sentence):
    with pytest.raises(DataError, match=f"^m: the model has trees of {sentence}"):
        plain_model("m", "reg:squarederror", ("x",), (0.5,), [grown(leaves, turn)])


def test_more_trees_than_fit_are_refused():
    plain = plain_model("m", "reg:squarederror", ("x",), (0.5,), [grown(512, lambda split: split * 7919)])
    many = replace(plain, **{name: np.repeat(getattr(plain, name), 513, axis=0) for name in ("leaves", "paths")})
    with pytest.raises(DataError, match="513 trees of up to 512 leaves: of so many, at most 512 can be shared"):
        run_both(lambda party: share_model(party, many if party.rank == 0 else None))


def test_the_wire_depends_on_the_padded_size_only():
    def messages(leaves, turn):
        plain = plain_model("m", "reg:squarederror", ("x",), (0.5,), [grown(leaves, turn)] * 3)

        def job(party):
            party.link = Recorder(party.link)
            estimator = estimator_of(share_model(party, plain if party.rank == 0 else None))
            estimator.predict_margin(party, pd.DataFrame({"x": X[:9, 0]}), "thresholds")
            return [(tag, len(data)) for tag, data in party.link.rounds]

        assert plain.paths.shape == (3, 32, 32)
        return run_both(job)[0]

    assert messages(17, lambda _: -1) == messages(32, lambda _: -2)


def test_halves_and_plain_models_on_disk(tmp_path):
    plain = from_library(of_lightgbm("binary", num_leaves=63, min_data_in_leaf=1))
    plain.save(tmp_path / "plain.npz")
    plain = read_model(tmp_path / "plain.npz")

    def job(party):
        path = tmp_path / f"{party.rank}.npz"
        half = share_model(party, plain if party.rank == 0 else None)
        half.save(path)
        again = SharedModel.load(path)
        table = frame(X[:20] if party.rank else X[:0])
        return [estimator_of(one).predict_margin(party, table, "thresholds") for one in (half, again)]

    margins = run_both(job)[0][1]
    assert np.abs(margins[0] - margins[1]).max() < 1e-5 and len(margins[0]) == 20


def test_what_a_model_with_deep_trees_does_not_have():
    plain = from_library(of_lightgbm("binary", num_leaves=63, min_data_in_leaf=1))
    assert plain.paths is not None

    def ask(question):
        def job(party):
            half = share_model(party, plain if party.rank == 0 else None)
            return question(party, half, estimator_of(half))

        return run_both(job)[0]

    for question, sentence in (
        (lambda party, half, _: reveal_model(party, half, 1), "deeper than 8 cannot be revealed"),
        (lambda party, _, model: model.predict_margin(party, frame(), "thresholds", mac=True), "mac must be false"),
        (lambda party, _, model: model.contributions(party, frame(), method="thresholds"), "reasons need trees"),
    ):
        with pytest.raises((ConfigError, DataError), match=sentence):
            ask(question)
    used = (plain.features != NO_SPLIT).reshape(-1)
    counts = np.bincount(plain.features.reshape(-1)[used], minlength=4)
    found = ask(lambda party, _, model: model.feature_importance(party, "weight"))
    assert all(np.array_equal(counts, each) for each in found)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: of_lightgbm("multiclassova"), "margins go through multiclass_ova cannot be shared"),
        (lambda: ensemble.RandomForestClassifier(2).fit(frame(), LABELS["multiclass"]), "probabilities of several"),
        (lambda: ensemble.IsolationForest(n_estimators=2).fit(frame()), "exponential_standard_ratio"),
        (lambda: of_lightgbm("binary", zero_as_missing=True), "zero_as_missing cannot be shared"),
        (lambda: of_lightgbm("regression", linear_tree=True), "linear trees cannot be shared"),
        (lambda: of_lightgbm("regression", reg_sqrt=True), "margins go through signed_square"),
        (lambda: ensemble.GradientBoostingRegressor(init=LinearRegression()).fit(frame(), SIGNAL), "init estimator"),
        (lambda: ensemble.RandomForestRegressor(2).fit(frame(), np.stack([SIGNAL, SIGNAL], 1)), "not a model of"),
        (lambda: ensemble.BaggingRegressor(), "not a model of XGBoost, LightGBM or scikit-learn"),
        (lambda: {"no": "model"}, "not a model of XGBoost, LightGBM or scikit-learn"),
    ],
)
def test_models_that_cannot_be_shared(make, sentence):
    with pytest.raises(DataError, match=sentence):
        from_library(make())


def test_categories_and_wrong_names_are_refused():
    data = pd.DataFrame({"kind": pd.Categorical(RNG.integers(0, 9, 900)), "x": X[:, 0]})
    train_on = lightgbm.Dataset(data, label=data["kind"].astype(int) % 2)
    model = lightgbm.train({"objective": "binary", "verbose": -1}, train_on, 2)
    with pytest.raises(DataError, match="categorical splits"):
        from_library(model)
    with pytest.raises(DataError, match="has 4 features, got 2 names"):
        from_library(of_lightgbm("binary"), ["a", "b"])
    assert from_library(of_lightgbm("binary"), list("wxyz")).names == tuple("wxyz")
    booster = xgboost.train({}, xgboost.DMatrix(X, label=LABELS["binary"]), 1)
    assert from_library(booster, list("wxyz")).names == tuple("wxyz")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["model_info"]["params"]["loss_function"].update(type="YetiRank"), "a model with loss YetiRank"),
        (lambda d: d["features_info"].update(categorical_features=[{}]), "a model with categorical features"),
        (lambda d: d["oblivious_trees"][0]["leaf_weights"].pop(), "not a model of CatBoost"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(split_type="OnlineCtr"), "a split of type OnlineCtr"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(float_feature_index=4), "not a model of CatBoost"),
        (lambda d: d["oblivious_trees"][0]["leaf_values"].__setitem__(0, float("nan")), "not finite"),
        (lambda d: d["oblivious_trees"].clear(), "at least one tree"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(float_feature_index=1.5), "must be of integer"),
        (lambda d: d["features_info"]["float_features"][0].update(feature_index=3), "not in their order"),
        (lambda d: d.update(scale_and_bias=[1, [float("nan")]]), "a base score that is not finite"),
        (lambda d: d.pop("scale_and_bias"), "no entry 'scale_and_bias'"),
    ],
)
def test_documents_of_catboost_that_cannot_be_shared(change, sentence):
    document = json.loads(json.dumps(CATBOOST["levels"]["model"]))
    change(document)
    with pytest.raises(DataError, match=sentence):
        from_catboost(document, "m.json")


def test_files_that_are_no_model(tmp_path):
    for name, content in (("m.txt", "tree\nversion=v4\n"), ("m.txt", ""), ("m.npz", "x"), ("m.json", "{}")):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=f"{name}: not a"):
            read_model(tmp_path / name)
    with pytest.raises(DataError, match="there is no such file"):
        read_model(tmp_path / "nothing.txt")


def test_without_treelite(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "treelite", None)
    with pytest.raises(ConfigError, match=r"need treelite: pip install .*\[forests\]"):
        read_model(tmp_path / "m.txt")


def test_a_plain_model_of_full_trees_has_no_paths(tmp_path):
    plain = from_library(of_lightgbm("binary", max_depth=3))
    plain.save(tmp_path / "plain.npz")
    assert PlainModel.load(tmp_path / "plain.npz").paths is None
