"""num_parallel_tree: trees of a round from the same gradients, beside the twin and XGBoost, and what they cost."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import AuditFailure, ConfigError
from protocols.runtime import run_local
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import PlainModel, reveal_model, share_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from secure_tree.public.config import TrainConfig
from secure_tree.public.sampling import column_samples
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.training.cost import Sizes, plan_training
from secure_tree.tree.rows import LocalTreeRows
from secure_tree.twin.boost import train
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import check, halves, table

ARRAYS = ("features", "thresholds", "missing_left", "leaves", "gains", "covers")
SHAPE = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "learning_rate": 0.4, "num_parallel_tree": 3}


def parts_of(X, y, partition):
    return columns(X, y, 2) if partition == "vertical" else halves(X, y, 80)


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_every_split_is_the_twins(partition, source):
    X, y = table(200, 4, seed=1)
    training = train_both(*parts_of(X, y, partition), source=source, subsample=0.5, partition=partition, **SHAPE)
    check(training, 2)
    kept = np.array([(seen.values != 0).any(axis=0) for seen in training.trees])
    assert (np.abs(kept.mean(axis=1) - 0.5) < 5 * np.sqrt(0.25 / 200)).all()
    for first, *others in (training.trees[:3], training.trees[3:]):
        for other in others:
            both = (first.values != 0).any(axis=0) & (other.values != 0).any(axis=0)
            assert np.array_equal(first.values[:, both], other.values[:, both]), "from the same gradients"
            assert 0.1 < both.mean() < 0.4, "each tree has its own sample"


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "multi:softprob", "num_class": 3, "subsample": 0.6},
        {"objective": "multi:ova", "num_class": 3, "subsample": 0.6, "partition": "vertical", "missing": "all"},
        {"objective": "squarederror", "subsample": 0.4, "colsample_bytree": 0.5, "edges": "joint"},
        {"objective": "count:poisson", "colsample_bytree": 0.5, "partition": "vertical"},
        {"min_child_samples": 9, "subsample": 0.5, "max_delta_step": 0.5, "monotone_constraints": [1, 0, 0, -1]},
        {"interaction_constraints": [[0, 1], [2, 3]], "subsample": 0.8, "num_parallel_tree": 2},
        {"max_depth": 1, "max_bin": "exact", "reg_alpha": 0.3, "subsample": 0.5},
        {"n_estimators": 1, "num_parallel_tree": 7, "subsample": 0.5, "learning_rate": 1.0},
    ],
)
def test_it_goes_with_all_parameters(parameters):
    X, y = table(160, 4, seed=2)
    labels = {
        "multi:softprob": np.digitize(X[:, 0] - X[:, 3], [-1, 1]).astype(float),
        "multi:ova": np.digitize(X[:, 0] - X[:, 3], [-1, 1]).astype(float),
        "squarederror": 9 * X[:, 0] - X[:, 3],
        "count:poisson": np.random.default_rng(2).poisson(np.exp(X[:, 0])).astype(float),
    }.get(parameters.get("objective"), y)
    if "missing" in parameters:
        X[::7, 0] = np.nan
    training = train_both(*parts_of(X, labels, parameters.get("partition")), **SHAPE | parameters)
    check(training, training.config.n_estimators)
    if "colsample_bytree" in parameters:
        samples = column_samples(training.context)
        assert any(len(set(map(tuple, samples[start : start + 3]))) > 1 for start in (0, 3)), "each has its own sample"


def test_without_samples_the_trees_of_a_round_are_alike():
    X, y = table(160, 4, seed=3)
    forest, single = (train_both(*halves(X, y, 80), **SHAPE | {"num_parallel_tree": k}) for k in (2, 1))
    check(forest, 2)
    first, second, *_ = forest.trees
    assert np.array_equal(first.values, second.values)
    # The coins of the search differ, so a split that is as good may be another.
    assert np.corrcoef(forest.trees[-1].margins, single.trees[-1].margins)[0, 1] > 0.95


@pytest.mark.parametrize("classes", [{}, {"objective": "multi:softprob", "num_class": 3}])
@pytest.mark.parametrize("dealer", [True, False])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_rounds_of_messages_are_those_of_one_tree(partition, dealer, classes):
    names = ("a", "b", "c")
    own = (names[:1], names[1:]) if partition == "vertical" else (names, names)

    def demands(k):
        shape = {"max_depth": 3, "max_bin": 8, "subsample": 0.5, "partition": partition, "num_parallel_tree": k}
        return plan_training(TrainConfig.of(**shape, **classes), Sizes((500, 500), own), dealer)

    (setup, one, _), (_, two, _), (same, four, _) = demands(1), demands(2), demands(4)
    assert (setup.rounds, setup.sent) == (same.rounds, same.sent), "set-up does not change"
    assert one.rounds == two.rounds == four.rounds
    assert one.sent < two.sent < 2 * one.sent, "the gradients are computed once"
    assert abs((four.sent - two.sent) / (two.sent - one.sent) - 2) < 1e-3


def test_a_model_goes_on_with_forests():
    X, y = table(160, 4, seed=7)
    begun = train_both(*halves(X, y, 80), subsample=0.5, **SHAPE)
    more = train_both(*halves(X, y, 80), subsample=0.5, before=begun.models, **SHAPE)
    check(more, 2, begun)
    assert more.models[0].model.rounds == 4 and begun.models[0].model.rounds == 2
    with pytest.raises(ConfigError, match="num_parallel_tree must be 3, as in the training of xgb_model, got 2"):
        train_both(*halves(X, y, 80), before=begun.models, **SHAPE | {"num_parallel_tree": 2, "subsample": 0.5})


def job_of(parameters, X, y, then, estimator=SecureXGBClassifier, checkpoints=None):
    """Return a job that trains by rows, and returns what `then` does with the model, the party and its rows."""

    def job(party):
        rows = slice(None, len(X) // 2) if party.rank == 0 else slice(len(X) // 2, None)
        kept = checkpoints and checkpoints(party.rank)
        model = estimator(**parameters).fit(party, X[rows], y[rows], checkpoints=kept)
        return then(model, party, X[rows])

    return job


def margins_of(model, party, X):
    return model.predict_margin(party, X)


@pytest.mark.parametrize("classes", [1, 3])
def test_xgboost_reads_the_exported_model_by_rounds(classes):
    xgboost = pytest.importorskip("xgboost")
    X, y = table(300, 4, seed=5)
    parameters = SHAPE | {"subsample": 0.5, "edges": "joint"}
    if classes > 1:
        y = np.digitize(X[:, 0] - X[:, 3], [-1, 1]).astype(float)
        parameters |= {"objective": "multi:softprob", "num_class": 3}
    job = job_of(
        parameters, X, y, lambda m, party, own: (m.predict_margin(party, own), reveal_model(party, m.model, 0))
    )
    ((first_half, plain), (second_half, _)), _ = run_both(job)
    margins = np.concatenate([first_half, second_half])
    document = to_xgboost(plain)
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(document).encode()))
    rows = xgboost.DMatrix(X, feature_names=list(plain.names))
    assert np.abs(booster.predict(rows, output_margin=True) - margins).max() < 1e-5
    assert booster.num_boosted_rounds() == 2 and len(booster.get_dump()) == 6 * classes
    theirs = xgboost.train(
        {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 3}
        if classes > 1
        else {"num_parallel_tree": 3},
        xgboost.DMatrix(X, y),
        2,
    )
    for key in ("tree_info", "iteration_indptr", "gbtree_model_param"):
        kept = json.loads(theirs.save_raw("json"))["learner"]["gradient_booster"]["model"][key]
        assert document["learner"]["gradient_booster"]["model"][key] == kept
    # One round: the first trees of all classes.
    first = replace(plain, **{name: getattr(plain, name)[: 3 * classes] for name in ARRAYS})
    of_first = xgboost.Booster()
    of_first.load_model(bytearray(json.dumps(to_xgboost(first)).encode()))
    expected = of_first.predict(rows, output_margin=True)
    assert np.abs(booster.predict(rows, output_margin=True, iteration_range=(0, 1)) - expected).max() < 1e-6
    # And back.
    again = from_xgboost(json.loads(booster.save_raw("json")), "m.json")
    assert again.parallel == plain.parallel == 3
    booster.load_model(bytearray(json.dumps(to_xgboost(again)).encode()))
    assert np.abs(booster.predict(rows, output_margin=True) - margins).max() < 1e-5
    assert to_xgboost(again)["learner"]["gradient_booster"]["model"]["tree_info"] == [*np.repeat(range(classes), 3)] * 2


def used(model, party, X):
    """Return margins of three kinds, the sums of contributions, feature importance, and the plain model."""
    margins = [model.predict_margin(party, X, method) for method in ("bins", "thresholds")]
    macs = model.predict_margin(party, X, mac=True, method="thresholds")
    reasons = model.contributions(party, X, show="numbers")
    weight = model.feature_importance(party, "weight")
    return margins, macs, reasons, weight, reveal_model(party, model.model, to=0)


@pytest.mark.parametrize("classes", [1, 3])
def test_forests_are_used_as_other_models(classes):
    X, y = table(80, 4, seed=8)
    parameters = SHAPE | {"subsample": 0.5, "edges": "joint", "max_depth": 2}
    if classes > 1:
        y = np.digitize(X[:, 0] - X[:, 3], [-1, 1]).astype(float)
        parameters |= {"objective": "multi:softprob", "num_class": 3}
    results, _ = run_both(job_of(parameters, X, y, used))
    plain = results[0][-1]
    assert plain.leaves.shape == (6 * classes, 4) and plain.parallel == 3
    for (bins, thresholds), macs, reasons, weight, _ in results:
        assert np.abs(bins - thresholds).max() < 1e-5 and np.abs(macs - thresholds).max() < 1e-5
        assert np.abs(reasons.values.sum(axis=-1) + reasons.mean - thresholds).max() < 1e-3
        assert np.array_equal(weight, [(plain.features == f).sum() for f in range(4)])


def test_early_stopping_counts_rounds():
    X, y = table(200, 4, seed=9)
    y = np.random.default_rng(9).permutation(y)
    stop = {"n_estimators": 12, "test_size": 0.3, "eval_epochs": 1, "early_stopping_rounds": 2}
    parameters = SHAPE | stop | {"subsample": 0.5, "learning_rate": 1.0}
    models, _ = run_both(job_of(parameters, X, y, lambda model, *_: model))
    for model in models:
        assert model.model.rounds == model.best_iteration + 1 < 12
        assert len(model.model.ensemble.leaves) == 3 * model.model.rounds
        assert [rounds for rounds, _ in model.curve] == list(range(1, len(model.curve) + 1))
        assert len(model.curve) == model.model.rounds + 2


def test_checkpoints_keep_whole_rounds(tmp_path):
    X, y = table(120, 3, seed=10)
    y = ((X[:, 0] > 0.3) & (X[:, 1] > -0.5)).astype(float)
    folder = lambda resume: lambda rank: Checkpoints(tmp_path / str(rank), resume)  # noqa: E731
    shape = SHAPE | {"subsample": 0.7}
    first, _ = run_both(job_of(shape, X, y, lambda model, *_: model, checkpoints=folder(False)))
    kept = tmp_path / "0" / "round_00002.npz"
    content = kept.read_bytes()
    more, _ = run_both(job_of(shape | {"n_estimators": 3}, X, y, lambda model, *_: model, checkpoints=folder(True)))
    assert kept.read_bytes() == content and sorted(tmp_path.glob("0/round_*"))[-1].name == "round_00003.npz"
    for before, after in zip(first, more, strict=True):
        assert after.model.rounds == 3 and len(after.model.ensemble.leaves) == 9
        assert np.array_equal(after.model.ensemble.leaves.words[:6], before.model.ensemble.leaves.words)


@pytest.mark.parametrize("parameters", [{}, {"objective": "multi:ova", "num_class": 3}])
def test_rows_divided_among_workers(parameters):
    X, y = table(90, 3, seed=11)
    y = y + (X[:, 1] > 0.5) if parameters else y
    check(train_both(*halves(X, y, 41), workers=2, subsample=0.6, **SHAPE, **parameters), 2)


@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
@pytest.mark.parametrize("audit", [False, True])
def test_two_processes(offline, audit):
    X, y = table(80, 3, seed=12)
    small = SHAPE | {"max_depth": 2, "subsample": 0.5, "n_estimators": 1}
    outcome = run_local(job_of(small, X, y, margins_of), offline=offline, audit=audit)
    assert roc_auc_score(y, np.concatenate(outcome)) > 0.7


def test_an_audit_adds_up_the_leaves_of_all_trees():
    X, y = table(80, 3, seed=13)

    def job(party):
        add = LocalTreeRows.add_leaves

        def wrong(self, party, leaves):
            yield from add(self, party, leaves)
            if len(self.landed) == 2 and party.rank == 0:
                self.rows.margins[self.k] = self.rows.margins[self.k] + 1

        LocalTreeRows.add_leaves = wrong
        return job_of(SHAPE, X, y, margins_of)(party)

    with pytest.raises(AuditFailure, match="leaf weights: margins grow by the leaves"):
        run_local(job, audit=True)


@pytest.mark.parametrize("classes", [1, 3])
def test_forests_of_xgboost_are_shared_and_revealed(classes):
    xgboost = pytest.importorskip("xgboost")
    X, y = table(200, 4, seed=14)
    several = {"objective": "multi:softprob", "num_class": 3} if classes > 1 else {"objective": "binary:logistic"}
    y = np.digitize(X[:, 0] - X[:, 3], [-1, 1]) if classes > 1 else y
    given = {"num_parallel_tree": 5, "subsample": 0.5, "max_depth": 3, **several}
    rows = xgboost.DMatrix(X, y, feature_names=["f0", "f1", "f2", "f3"])
    booster = xgboost.train(given, rows, 2)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "m.json")
    assert plain.parallel == 5 and len(plain.leaves) == 10 * classes

    def job(party):
        half = share_model(party, plain if party.rank == 0 else None)
        model = SecureXGBClassifier(**half.config.model_dump())
        model.model = half
        own = X if party.rank == 1 else X[:0]
        return half.rounds, model.predict_margin(party, own, "thresholds"), reveal_model(party, half, to=1)

    (rounds, _, _), (_, margins, back) = run_both(job)[0]
    truth = booster.predict(rows, output_margin=True)
    assert rounds == 2 and np.abs(margins - truth).max() < 1e-4
    again = xgboost.Booster()
    again.load_model(bytearray(json.dumps(to_xgboost(back)).encode()))
    assert np.abs(again.predict(rows, output_margin=True) - truth).max() < 1e-4


def test_rounds_of_different_sizes_have_no_common_number():
    xgboost = pytest.importorskip("xgboost")
    X, y = table(100, 3, seed=19)
    booster = xgboost.train({"num_parallel_tree": 2}, xgboost.DMatrix(X, y), 3)
    for starts, parallel in (([0, 2, 4, 6], 2), ([0, 1, 4, 6], 1), ([0, 2, 4, 5, 6], 1), (None, 2)):
        document = json.loads(booster.save_raw("json"))
        model = document["learner"]["gradient_booster"]["model"]
        model["iteration_indptr"] = starts
        if starts is None:
            del model["iteration_indptr"]
        plain = from_xgboost(document, "m.json")
        assert plain.parallel == parallel and len(plain.leaves) == 6


def test_a_revealed_model_is_a_file(tmp_path):
    X, y = table(60, 3, seed=15)
    (plain, _), _ = run_both(job_of(SHAPE, X, y, lambda model, party, _: reveal_model(party, model.model, to=0)))
    plain.save(tmp_path / "plain.npz")
    again = PlainModel.load(tmp_path / "plain.npz")
    assert again.parallel == 3 and np.array_equal(again.leaves, plain.leaves)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (0, "num_parallel_tree must be at least 1, got 0"),
        (-3, "num_parallel_tree must be at least 1, got -3"),
        (1.5, "num_parallel_tree must be a whole number, got 1.5"),
        ("many", "num_parallel_tree must be a whole number, got 'many'"),
        (None, "num_parallel_tree must be a whole number, got None"),
        (10_001, "num_parallel_tree must be at most 10000, got 10001"),
    ],
)
def test_odd_numbers_are_a_sentence(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SecureXGBClassifier(num_parallel_tree=given)


def test_the_rate_of_a_tree_is_large_enough():
    with pytest.raises(ConfigError, match="learning_rate over num_parallel_tree, 200, must be at least 1e-05"):
        SecureXGBClassifier(num_parallel_tree=200, learning_rate=1e-3)


def test_both_parties_give_the_same_number():
    X, y = table(60, 3, seed=16)

    def job(party):
        return job_of(SHAPE | {"num_parallel_tree": 2 + party.rank}, X, y, margins_of)(party)

    with pytest.raises(ConfigError, match="the parties disagree on num_parallel_tree"):
        run_both(job)


def test_one_row_each():
    X, y = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    check(train_both(*halves(X, y, 1), min_child_weight=0.0, subsample=0.5, **SHAPE), 2)


def test_the_twins_forest_is_as_good():
    X, y = table(1200, 5, seed=17)
    config = TrainConfig.of(n_estimators=15, num_parallel_tree=4, subsample=0.5, learning_rate=0.3, max_bin=16)
    twin = train((X[:400], X[400:800]), (y[:400], y[400:800]), config, np.random.default_rng(17))
    assert len(twin.trees) == 60
    forest = roc_auc_score(y[800:], twin.predict_margin(X[800:]))
    assert abs(forest - xgboosts_auc(X, y, 800, 17)) < 0.012


def xgboosts_auc(X, y, cut, seed):
    import xgboost

    shape = {"num_parallel_tree": 4, "subsample": 0.5, "max_depth": 3, "max_bin": 16, "min_child_weight": 0.5}
    booster = xgboost.train(
        {"objective": "binary:logistic", "learning_rate": 0.3, "seed": seed, **shape},
        xgboost.DMatrix(X[:cut], y[:cut]),
        15,
    )
    return roc_auc_score(y[cut:], booster.predict(xgboost.DMatrix(X[cut:])))


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_accuracy_is_near_xgboosts(partition):
    pytest.importorskip("xgboost")
    X, y = table(2400, 5, seed=18)
    shape = {"n_estimators": 15, "num_parallel_tree": 4, "subsample": 0.5, "learning_rate": 0.3, "max_bin": 16}
    tables, labels = columns(X[:1200], y[:1200], 3) if partition == "vertical" else halves(X[:1200], y[:1200], 600)
    later = (X[1200:, :3], X[1200:, 3:]) if partition == "vertical" else (X[1200:], X[:0])

    def job(party):
        model = SecureXGBClassifier(edges="joint", partition=partition, **shape)
        model.fit(party, tables[party.rank], labels[party.rank])
        return model.predict_margin(party, later[party.rank])

    ours = roc_auc_score(y[1200:], run_both(job)[0][0])
    assert abs(ours - np.mean([xgboosts_auc(X, y, 1200, seed) for seed in range(3)])) < 0.01
