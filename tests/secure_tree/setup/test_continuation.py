"""Training continuation: the trees are those of one longer training, and what does not fit the model is refused."""

import numpy as np
import pytest
from sklearn.metrics import mean_poisson_deviance

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import made_by_both, opened, run_both, with_workers
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.public.layout import place
from secure_tree.setup.continuation import RESIDUALS
from secure_tree.training.checkpoint import Checkpoints
from tests.secure_tree.opened import train_both

xgboost = pytest.importorskip("xgboost")
ROWS, FEATURES = (90, 110), 3
SHAPE = {"max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
RNG = np.random.default_rng(7)
X = RNG.normal(size=(sum(ROWS), FEATURES))
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
MARGIN = 2 * (X[:, 0] > 0.3) + (X[:, 1] > -0.5) + 0.5 * (X[:, 2] > 0.1)
LABELS = {
    "binary:logistic": (MARGIN > 1.2).astype(float),
    "multi:ova": np.digitize(MARGIN, [0.7, 2.2]).astype(float),
    "reg:squarederror": 100 * MARGIN + 1000,
    "count:poisson": np.round(3 * MARGIN + 1),
}
SECOND = (b"c" * 16, b"d" * 16)


def estimator(objective="binary:logistic", **parameters):
    kind = SecureXGBRegressor if objective in ("reg:squarederror", "count:poisson") else SecureXGBClassifier
    classes = {"num_class": 3} if objective == "multi:ova" else {}
    return kind(objective=objective, **{**SHAPE, **classes, **parameters})


def own(party, table, labels, vertical=False):
    if vertical:
        return table[:, place(party.rank, (1, FEATURES - 1))], labels if party.rank == 0 else None
    rows = place(party.rank, ROWS)
    return table[rows], labels[rows]


def in_two(objective, first=2, second=3, table=X, source=None, seeds=SECOND, then=None, **parameters):
    """Return margins of all rows after one training of first + second rounds and after a continued one, and models."""
    labels, vertical = LABELS[objective], parameters.get("partition") == "vertical"
    whole = estimator(objective, n_estimators=first + second, **parameters).config.n_estimators

    def job(party, models):
        mine = own(party, table, labels, vertical)
        if models is None:
            model = estimator(objective, n_estimators=whole, **parameters).fit(party, *mine)
        else:
            begun = estimator(objective, n_estimators=first, **parameters).fit(party, *mine)
            model = estimator(objective, n_estimators=second, **parameters).fit(party, *mine, xgb_model=begun)
        return model, model.predict_margin(party, mine[0]), model.feature_importance(party, "total_gain")

    both = {"source": source} if source else {}
    return [run_both(lambda party, m=m: job(party, m), **both)[0] for m in (None, True)]


CASES = [
    ("binary:logistic", {}),
    ("binary:logistic", {"edges": "joint", "table": HOLES, "missing": "all"}),
    ("binary:logistic", {"partition": "vertical", "colsample_bytree": 1.0}),
    ("binary:logistic", {"monotone_constraints": [1, 1, 0], "min_child_samples": 3}),
    ("binary:logistic", {"interaction_constraints": [[0, 1], [1, 2]], "edges": "joint"}),
    ("binary:logistic", {"num_parallel_tree": 3}),
    ("multi:ova", {}),
    ("multi:ova", {"partition": "vertical", "table": HOLES, "missing": "all"}),
    ("reg:squarederror", {}),
    ("reg:squarederror", {"partition": "vertical"}),
    ("count:poisson", {"edges": "joint"}),
]


@pytest.mark.parametrize(("objective", "parameters"), CASES)
def test_it_is_one_longer_training(no_coins, objective, parameters):
    whole, two = in_two(objective, **parameters)
    unit = whole[0][0].model.facts.margin_unit
    for (seen, margin, gains), (wanted, of_whole, of_gains) in zip(two, whole, strict=True):
        assert seen.model.rounds == wanted.model.rounds == 5
        assert seen.model.config.n_estimators == 5
        assert np.abs(margin - of_whole).max(initial=0) < 1e-2 * unit, "several edges may divide the rows equally"
        assert np.abs(gains - of_gains).max() < 0.02 * of_gains.max()


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("binary:logistic", {"missing": "all"}),
        ("binary:logistic", {"edges": "joint", "monotone_constraints": [1, 0, -1]}),
        ("multi:ova", {"num_class": 3, "max_delta_step": 0.7}),
        ("reg:squarederror", {"reg_alpha": 0.5}),
        ("count:poisson", {}),
    ],
)
def test_later_splits_are_the_twins(objective, parameters):
    table = HOLES if "missing" in parameters else X
    parts = [(part[: ROWS[0]], part[ROWS[0] :]) for part in (table, LABELS[objective])]
    parameters = {"objective": objective, **SHAPE, **parameters}
    begun = train_both(*parts, n_estimators=2, **parameters)
    later = train_both(*parts, n_estimators=3, before=begun.models, **parameters)
    classes = later.config.classes
    assert len(later.trees) == 3 * classes
    margins = [tree.margins for tree in begun.trees[-classes:]]
    for number, (seen, twin) in enumerate(zip(later.trees, later.twins(), strict=True)):
        assert np.array_equal(seen.winner, twin.winner)
        assert np.abs(seen.leaves - twin.leaves).max() < 1e-4
        margins[number % classes] = margins[number % classes] + twin.leaves[twin.leaf]
        assert np.abs(seen.margins - margins[number % classes]).max() < 1e-3, "the first is exactly that of the model"


def test_only_new_rounds_cost():
    def costs(party, model, rows, labels, before):
        model.fit(party, rows, labels, xgb_model=before)
        return party.stages["online"].rounds, party.stages["online"].bytes_sent

    rounds, sent = go_on(None, n_estimators=3, fit=costs)[0][0]
    more, more_sent = go_on(fitted(), n_estimators=3, fit=costs)[0][0]
    assert more - rounds == 1, "statistics are converted to one scale"
    assert sent <= more_sent < 1.02 * sent


def fitted(objective="binary:logistic", source=None, vertical=False, labels=None, workers=0, **parameters):
    """Return both parties' halves of a model of two rounds."""
    labels = LABELS[objective] if labels is None else labels
    parameters |= {"partition": "vertical" if vertical else "horizontal"}

    def job(party):
        return estimator(objective, n_estimators=2, **parameters).fit(party, *own(party, X, labels, vertical))

    return run_both(with_workers(job, workers) if workers else job, **({"source": source} if source else {}))[0]


def go_on(models, objective="binary:logistic", table=X, labels=None, weights=None, fit=None, workers=0, **parameters):
    """Return both parties' results of `fit(party, estimator, *own, xgb_model)`, and the parties."""
    labels = LABELS[objective] if labels is None else labels
    fit = fit or (lambda party, model, rows, own_labels, before: model.fit(party, rows, own_labels, xgb_model=before))

    def job(party):
        model = estimator(objective, **{"n_estimators": 2, **parameters})
        mine = own(party, table, labels, parameters.get("partition") == "vertical")
        return fit(party, model, *mine, models[party.rank] if models else None)

    return run_both(with_workers(job, workers) if workers else job)


@pytest.mark.parametrize("constraints", [None, [1, 0, 0], {"f0": 1}])
def test_it_goes_on_again_from_files(tmp_path, constraints):
    shared = {"monotone_constraints": constraints}
    for rank, model in enumerate(fitted(**shared)):
        model.save(tmp_path / f"{rank}.npz")
    more = go_on([tmp_path / f"{rank}.npz" for rank in (0, 1)], **shared)[0]
    for rank, model in enumerate(more):
        model.save(tmp_path / f"more_{rank}.npz")
    again = go_on([str(tmp_path / f"more_{rank}.npz") for rank in (0, 1)], **shared)
    assert [model.model.rounds for model in again[0]] == [6, 6]
    whole = go_on(
        None, n_estimators=6, fit=lambda party, model, rows, labels, _: model.fit(party, rows, labels), **shared
    )
    leaves = [opened([m.model.ensemble.leaves for m in run[0]]) / 2**20 for run in (again, whole)]
    assert np.abs(np.sort(leaves[0]) - np.sort(leaves[1])).max() < 1e-2
    assert again[0][0].model.facts.pairing != more[0].model.facts.pairing


def test_rows_held_out_start_at_the_margins_of_the_model():
    def fit(party, model, rows, labels, before):
        validation = [(rows[:40], labels[:40])]
        return model.fit(party, rows, labels, eval_set=validation, xgb_model=before).curve

    shown = {"eval_epochs": 1, "eval_metric": "logloss"}
    (curve, other), parties = go_on(fitted(), n_estimators=3, fit=fit, **shown)
    whole = go_on(None, n_estimators=5, fit=fit, **shown)[0][0]
    assert curve == other
    assert [rounds for rounds, _ in curve] == [3, 4, 5]
    assert np.allclose([value for _, value in curve], [value for _, value in whole[2:]], atol=2e-3)
    assert all("logloss of held-out rows" in what for what in parties[0].revealed)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_early_stopping_keeps_the_trees_of_the_model(objective):
    labels = LABELS[objective]

    def fit(party, model, rows, own_labels, before):
        other = own_labels[::-1]
        return model.fit(party, rows, own_labels, eval_set=[(rows, other)], xgb_model=before)

    models = fitted(objective)
    (first, second), _ = go_on(
        models, objective, labels=labels, fit=fit, n_estimators=8, early_stopping_rounds=2, eval_epochs=1
    )
    assert first.model.rounds == second.model.rounds
    assert 3 <= first.model.rounds < 10, "held-out labels belong to other rows"
    before, after = (opened([m.model.ensemble.leaves for m in pair]) for pair in (models, (first, second)))
    assert np.array_equal(after[:2], before)


def test_the_parties_bring_other_rows():
    other = np.random.default_rng(9).normal(size=X.shape) * 1.5
    labels = (other[:, 0] > 0.3).astype(float)

    def fit(party, model, rows, own_labels, before):
        model.fit(party, rows, own_labels, xgb_model=before)
        return model.predict_margin(party, rows)

    (first, second), parties = go_on(fitted(), table=other, labels=labels, fit=fit, n_estimators=6)
    margins = np.concatenate([first, second])
    assert np.mean((margins > 0) == labels) > 0.85, "values below the model's first cut are in its first bin"
    assert all("predictions" in what for what in parties[0].revealed)


def test_only_a_regression_reveals_and_only_one_bit():
    _, parties = go_on(fitted("reg:squarederror"), "reg:squarederror")
    assert list(parties[0].revealed) == list(parties[1].revealed) == [RESIDUALS]
    assert not go_on(fitted())[1][0].revealed


def test_labels_far_from_the_model_are_refused():
    models = fitted("reg:squarederror")
    labels = np.where(np.arange(len(X)) % 2, 2000.0, -2000.0)
    with pytest.raises(DataError, match="must be near the predictions of xgb_model"):
        go_on(models, "reg:squarederror", labels=labels)
    with pytest.raises(DataError, match=r"labels must be at most .* in magnitude, in the unit .*: train a new model"):
        go_on(models, "reg:squarederror", labels=1e11 * LABELS["reg:squarederror"])
    go_on(models, "reg:squarederror", labels=LABELS["reg:squarederror"] + 10)


def test_a_larger_label_near_the_others_goes_on():
    labels = LABELS["reg:squarederror"].copy()
    labels[5] = 2100.0
    models, _ = go_on(fitted("reg:squarederror"), "reg:squarederror", labels=labels)
    assert models[0].model.facts.label_bound == 4096


def test_counts_that_grow_go_on_as_in_one_training():
    """The parties continue on counts of which one is far beyond those of the model's training."""
    grown = LABELS["count:poisson"].copy()
    grown[[3, 150]] = 60.0, 200.0
    before = fitted("count:poisson")

    def fit(party, model, rows, own_labels, model_before):
        model.fit(party, rows, own_labels, xgb_model=model_before)
        return model, model.predict(party, rows), model.feature_importance(party, "total_cover")

    (first, second), _ = go_on(before, "count:poisson", labels=grown, fit=fit, n_estimators=10)
    assert before[0].model.facts.label_scale == 16 and first[0].model.facts.label_scale == 256
    predictions = np.concatenate([first[1], second[1]])
    # XGBoost with the same parameters goes on from its own model of the old counts.
    parameters = {"objective": "count:poisson", "max_depth": 2, "max_bin": 8, "eta": 0.5, "tree_method": "hist"}
    old = xgboost.train(parameters, xgboost.DMatrix(X, label=LABELS["count:poisson"]), 2)
    theirs = xgboost.train(parameters, xgboost.DMatrix(X, label=grown), 10, xgb_model=old)
    reference = theirs.predict(xgboost.DMatrix(X))
    ours, others = (mean_poisson_deviance(grown, p) for p in (predictions, reference))
    assert ours < 1.1 * others, (ours, others)
    # The statistics of the model's trees are converted to the larger unit.
    covers = theirs.get_score(importance_type="total_cover").values()
    assert abs(first[2].sum() / sum(covers) - 1) < 0.05


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_depth": 3}, "max_depth must be 2, as in the training of xgb_model, got 3"),
        ({"learning_rate": 0.1}, "learning_rate must be 0.5, as in the training of xgb_model, got 0.1"),
        ({"missing": "all"}, "missing must be none, as in the training of xgb_model, got all"),
        ({"partition": "vertical"}, "partition must be horizontal, as in the training of xgb_model, got vertical"),
        ({"n_estimators": 9999}, "n_estimators"),
    ],
)
def test_other_parameters_are_refused(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        go_on(fitted(), **parameters)


def test_what_is_no_model_of_the_training_is_refused():
    models = fitted()
    with pytest.raises(DataError, match="come from different trainings"):
        go_on([models[0], fitted()[1]])
    with pytest.raises(DataError, match="belongs to party 1, and this is party 0"):
        go_on(models[::-1])
    with pytest.raises(ConfigError, match="both must pass xgb_model, or neither"):
        go_on([models[0], None])
    with pytest.raises(ConfigError, match=r"must be a fitted Sharewood estimator or the path .* got dict"):
        go_on([{}, {}])
    with pytest.raises(DataError, match="fit"):
        go_on([estimator(), estimator()])
    with pytest.raises(DataError, match="both must have the same features, and only the model has"):
        go_on(models, table=X[:, :2])
    with pytest.raises(ConfigError, match=r"objective must be binary:logistic, .* xgb_model, got count:poisson"):
        go_on(models, "count:poisson")

    def weighted(party, model, rows, labels, before):
        return model.fit(party, rows, labels, np.full(len(labels), 3.0), xgb_model=before)

    with pytest.raises(DataError, match="xgb_model, no weights, got a largest weight above 2 and at most 4"):
        go_on(models, fit=weighted)


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:ova", "reg:squarederror"])
def test_its_rounds_are_kept_and_resumed(no_coins, tmp_path, objective):
    class Killed(Exception):
        pass

    def dying(number, tree, rows):
        if number == (2 + 2) * classes:
            raise Killed

    def kept(resume, observer=None):
        def fit(party, model, rows, labels, before):
            folder = Checkpoints(tmp_path / str(party.rank), resume)
            return model.fit(party, rows, labels, checkpoints=folder, xgb_model=before, observer=observer)

        return fit

    classes = 3 if objective == "multi:ova" else 1
    models = fitted(objective)
    whole = go_on(models, objective, n_estimators=4)[0]
    with pytest.raises(Killed):
        go_on(models, objective, n_estimators=4, fit=kept(False, dying))
    assert len(list((tmp_path / "0").glob("round_*"))) == 3
    with pytest.raises(DataError, match="another configuration or other data"):
        go_on(fitted(objective), objective, n_estimators=4, fit=kept(True))
    with pytest.raises(DataError, match="another configuration or other data"):
        go_on(None, objective, n_estimators=4, fit=kept(True))
    resumed = go_on(models, objective, n_estimators=4, fit=kept(True))[0]
    assert [model.model.rounds for model in resumed] == [6, 6]
    leaves = [opened([m.model.ensemble.leaves for m in run]) / 2**20 for run in (whole, resumed)]
    assert np.abs(np.sort(leaves[0]) - np.sort(leaves[1])).max() < 1e-2


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("binary:logistic", {}),
        ("multi:ova", {"edges": "joint"}),
        ("reg:squarederror", {"test_size": 0.1}),
        ("binary:logistic", {"partition": "vertical"}),
    ],
)
def test_shards_go_on_like_one_process(no_coins, objective, parameters):
    def fit(party, model, rows, labels, before):
        model.fit(party, rows, labels, xgb_model=before)
        return model, model.predict_margin(party, rows)

    vertical = parameters.get("partition") == "vertical"
    models = fitted(objective, vertical=vertical, **{k: v for k, v in parameters.items() if k != "partition"})
    runs = [go_on(models, objective, fit=fit, workers=workers, **parameters)[0] for workers in (0, 2)]
    unit = models[0].model.facts.margin_unit
    for (one, margin), (sharded, of_shards) in zip(*runs, strict=True):
        assert sharded.model.rounds == one.model.rounds == 4
        assert np.abs(of_shards - margin).max(initial=0) < 1e-2 * unit
    if objective == "reg:squarederror":
        with pytest.raises(DataError, match="must be near the predictions of xgb_model"):
            go_on(models, objective, labels=np.where(np.arange(len(X)) % 2, 2000.0, -2000.0), workers=2, **parameters)


def test_a_model_from_xgboost_has_no_bins_to_go_on_with():
    def fit(party, model, rows, labels, before):
        plain = reveal_model(party, before.model, to=0)
        shared = share_model(party, plain)
        return model.fit(party, rows, labels, xgb_model=shared)

    with pytest.raises(ConfigError, match="xgb_model must be a model that was trained here"):
        go_on(fitted(), fit=fit)


def test_columns_divided_otherwise_are_refused():
    models = fitted(vertical=True)

    def fit(party, model, rows, labels, before):
        columns = place(party.rank, (2, FEATURES - 2))
        return model.fit(party, X[:, columns], labels, xgb_model=before)

    with pytest.raises(DataError, match=r"must have 1 and 2 columns, .* got 2 and 1"):
        go_on(models, partition="vertical", fit=fit)

    def fewer(party, model, rows, labels, before):
        columns = place(party.rank, (0, FEATURES - 1))
        return model.fit(party, X[:, columns], labels, xgb_model=before)

    # Names of columns without any repeat.
    with pytest.raises(DataError, match="the same features, and the model has 3 and the table 2"):
        go_on(models, partition="vertical", fit=fewer)


def test_the_labels_stay_where_they_were():
    def fit(party, model, rows, labels, before):
        return model.fit(party, rows, LABELS["binary:logistic"] if party.rank == 1 else None, xgb_model=before)

    with pytest.raises(DataError, match="party 0 must have the labels"):
        go_on(fitted(vertical=True), partition="vertical", fit=fit)


def test_categories_are_those_of_the_model():
    pandas = pytest.importorskip("pandas")
    colours = np.where(X[:, 0] > 0.3, "red", np.where(X[:, 1] > 0, "green", "blue"))

    def fit(party, model, rows, labels, before):
        own = colours[place(party.rank, ROWS)]
        known = ["blue", "green", "red"] if before is None else ["green", "red"]
        own = np.where(np.isin(own, known), own, "green")
        frame = pandas.DataFrame({"colour": pandas.Categorical(own, known), "size": rows[:, 2]})
        return model.fit(party, frame, labels, xgb_model=before)

    models = go_on(None, fit=fit)[0]
    more = go_on(models, fit=fit)[0]
    assert more[0].model.facts.names == models[0].model.facts.names
    assert more[0].model.facts.indicators == (0, 1, 2)
    assert more[0].model.rounds == 4


def test_without_a_dealer():
    whole, two = in_two("binary:logistic", source=made_by_both, max_depth=1, max_bin=4)
    assert np.abs(two[0][1] - whole[0][1]).max() < 1e-2


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_weights_go_on(objective):
    weights = np.random.default_rng(3).uniform(0.5, 3, len(X))
    weights[:2] = weights[-2:] = 3.5

    def fit(party, model, rows, labels, before):
        mine = weights[place(party.rank, ROWS)]
        model.fit(party, rows, labels, mine, xgb_model=before)
        return model, model.predict_margin(party, rows)

    begun = [model for model, _ in go_on(None, objective, fit=fit)[0]]
    more, whole = (
        np.concatenate([margin for _, margin in run])
        for run in (go_on(begun, objective, fit=fit)[0], go_on(None, objective, fit=fit, n_estimators=4)[0])
    )
    assert np.abs(more - whole).max() < 1e-2
