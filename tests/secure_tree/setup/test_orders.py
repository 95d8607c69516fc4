"""Columns split by sets of categories: the secret order is that of smoothed means, and every split is the twin's."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

from mpc.checks.verdict import begin as audit
from mpc.errors import ConfigError, DataError, WorkersLost
from protocols.testing.two_parties import dealt, made_by_both, run_both, with_workers
from secure_tree import SecureXGBClassifier
from secure_tree.data.categories import expand
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.exchange.scorecard import scorecard
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import PRODUCT_BITS, RECIPROCAL_BITS, SUM_BITS, Size, plan_numerics
from secure_tree.setup.orders import find_orders
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.twin.boost import train
from secure_tree.twin.search import order as plain_order
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_clients import answered
from tests.secure_tree.prediction.test_predict import twin_of
from tests.secure_tree.test_layouts import predict
from tests.secure_tree.test_twin import check

SMALL = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "learning_rate": 0.5}
PARTITIONS = pytest.mark.parametrize("partition", ["horizontal", "vertical"])
CUT = 50


def cities(rows, seed=1, count=8, missing=0.0):
    """Return a table with a column of categories between two numbers, and what depends on the category."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(5).normal(size=count) * 1.5
    codes, (x, z) = rng.integers(0, count, rows), rng.normal(size=(2, rows)).round(2)
    codes[rng.random(rows) < missing] = -1
    city = pd.Categorical.from_codes(codes, [f"c{k}" for k in range(count)])
    margin = np.where(codes < 0, 0.7, effects[codes]) + x + 0.5 * rng.normal(size=rows)
    return pd.DataFrame({"x": x, "city": city, "z": z}), margin


def widened(frame):
    """Return the table with an indicator in the place of every category."""
    parts = []
    for name in frame:
        column = frame[name]
        if column.dtype != "category":
            parts.append(frame[[name]])
            continue
        hot = pd.DataFrame({f"{name}={c}": (column == c).astype(float) for c in column.cat.categories})
        hot[column.isna()] = np.nan
        parts.append(hot)
    return pd.concat(parts, axis=1)


def divided(frame, labels, partition):
    """Return what `train_both` takes for one of both partitions."""
    if partition == "vertical":
        tables, of_parties = (frame[["x"]], frame[["city", "z"]]), (labels, None)
    else:
        tables, of_parties = (frame[:CUT], frame[CUT:]), (labels[:CUT], labels[CUT:])
    plain = tuple(widened(part.reset_index(drop=True)) for part in tables)
    return {"tables": tables, "labels": of_parties, "plain": plain, "partition": partition}


def of_city(training, trees=None):
    """Return the numbers of the winning candidates that are sets."""
    candidates = training.data.candidates
    winners = {int(w) for seen in (trees or training.trees) for w in seen.winner}
    return [w for w in winners if candidates.cut_of(w)]


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("edges", ["private", "joint"])
@PARTITIONS
def test_every_split_is_the_twins_and_predicts_alike(partition, edges, missing):
    frame, margin = cities(120, missing=missing)
    optional = {"missing": ("city",)} if missing else {}
    given = divided(frame, (margin > 0).astype(float), partition)
    training = train_both(**given, edges=edges, **optional, **SMALL)
    check(training, 2)
    assert of_city(training)
    fresh, _ = cities(30, seed=9, missing=missing)
    rows = (fresh[["x"]], fresh[["city", "z"]]) if partition == "vertical" else (fresh[:13], fresh[13:])
    wide = widened(fresh) if partition == "horizontal" else pd.concat([widened(part) for part in rows], axis=1)
    expected = twin_of(training).predict_margin(wide.to_numpy())
    for method in ("thresholds", "bins"):
        margins = np.concatenate(predict(training, rows, method=method)[0])
        exact = method == "thresholds" or partition == "vertical" or edges == "joint"
        assert (np.abs(margins - expected) < 1e-3).mean() > (0.99 if exact else 0.5)


@pytest.mark.parametrize("source", [dealt, made_by_both], ids=["dealer", "pairwise"])
@pytest.mark.parametrize("workers", [0, 2])
@PARTITIONS
def test_with_and_without_dealer_and_workers(partition, workers, source):
    frame, margin = cities(100, seed=2, count=6)
    given = divided(frame, (margin > 0).astype(float), partition)
    training = train_both(**given, source=source, workers=workers, **SMALL | {"max_depth": 2, "edges": "joint"})
    check(training, 2)
    assert of_city(training)


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "multi:ova", "num_class": 3},
        {"objective": "multi:softprob", "num_class": 3},
        {"objective": "reg:squarederror"},
        {"objective": "count:poisson"},
        {"objective": "reg:tweedie", "reg_alpha": 0.5},
        {"min_child_samples": 7, "max_delta_step": 0.4},
        {"reg_lambda": 0.0, "min_child_weight": 0.0},
        {"subsample": 0.7, "colsample_bytree": 0.7, "n_estimators": 4},
        {"max_bin": "exact"},
        {"num_parallel_tree": 2, "subsample": 0.6, "objective": "multi:ova", "num_class": 3},
        {"interaction_constraints": [["x", "city"]]},
        {"monotone_constraints": {"x": 1}},
    ],
)
@PARTITIONS
def test_every_objective_and_parameter(partition, parameters):
    frame, margin = cities(100, seed=3, count=6)
    kind = parameters.get("objective", "binary:logistic")
    labels = np.digitize(margin, [-1, 1]) if "num_class" in parameters else margin > 0
    labels = {"reg:squarederror": margin, "count:poisson": np.abs(margin).round()}.get(kind, labels)
    labels = np.maximum(margin, 0) if kind == "reg:tweedie" else labels
    training = train_both(**divided(frame, labels.astype(float), partition), **SMALL | parameters)
    check(training, training.config.n_estimators)
    assert of_city(training) or "colsample_bytree" in parameters


@PARTITIONS
def test_the_order_is_that_of_smoothed_means(partition):
    frame, margin = cities(100, seed=4, count=7)
    labels = (margin > 0).astype(float)
    training = train_both(**divided(frame, labels, partition), base_score=0.5, **SMALL)
    codes = frame["city"].cat.codes.to_numpy()
    G, H = (np.bincount(codes, part, 7) for part in (0.5 - labels, np.full(100, 0.25)))
    means = -G / (H + training.config.reg_lambda + training.config.min_child_weight)
    ((order,),) = training.orders
    rank = 6 - order.sum(axis=1)
    assert (np.diff(means[np.argsort(rank)]) > -1e-2).all()


def test_the_twin_orders_by_itself():
    frame, margin = cities(300, seed=5)
    wide = widened(frame).to_numpy()
    given = divided(frame, (margin > 0).astype(float), "horizontal")
    training = train_both(**given, edges="joint", **SMALL)
    names = (training.facts.names,) * 2
    plain = train((wide[:CUT], wide[CUT:]), given["labels"], training.config, np.random.default_rng(1), names)
    ours = np.concatenate([m for m in predict(training, given["tables"], method="thresholds")[0]])
    assert np.corrcoef(plain.margins[-1], ours)[0, 1] > 0.98


def test_few_categories_are_split_one_at_a_time():
    frame, margin = cities(60, seed=6, count=3)
    training = train_both(**divided(frame, (margin > 0).astype(float), "horizontal"), **SMALL)
    assert training.facts.layout.sets == ()
    frame, margin = cities(60, seed=6, count=4)
    given = divided(frame, (margin > 0).astype(float), "horizontal")
    assert train_both(**given, **SMALL).facts.layout.sets == ((1, 5),)
    assert train_both(**given, **SMALL | {"max_cat_to_onehot": 5}).facts.layout.sets == ()


def test_a_constrained_direction_is_refused():
    frame, margin = cities(70, seed=7)
    given = divided(frame, (margin > 0).astype(float), "horizontal")
    sentence = "'city' is split by sets of categories, which have no order: leave it out, or set a larger max_cat"
    with pytest.raises(ConfigError, match=sentence):
        train_both(**given, monotone_constraints={"city=c3": 1}, **SMALL)


def test_categories_without_rows_and_a_party_with_one_row():
    frame, margin = cities(41, seed=8, count=12)
    labels = (margin > 0).astype(float)
    tables, given = (frame[:1], frame[1:]), (labels[:1], labels[1:])
    plain = tuple(widened(part.reset_index(drop=True)) for part in tables)
    training = train_both(tables, given, plain=plain, **SMALL | {"min_child_weight": 0.1})
    check(training, 2)


def test_owners_contribute_rows():
    frame, margin = cities(160, seed=10)
    labels = (margin > 0).astype(float)
    parts = [slice(0, 50), slice(50, 90), slice(90, 160)]
    frames = [frame[part].reset_index(drop=True) for part in parts]
    first, second, bank = frames
    training = train_both(
        (first, second),
        (labels[parts[0]], labels[parts[1]]),
        owners={"bank": (bank, labels[parts[2]])},
        plain=tuple(map(widened, (first, pd.concat([second, bank])))),
        edges="joint",
        edge_bits=12,
        **SMALL,
    )
    check(training, 2)
    assert of_city(training)


@PARTITIONS
def test_a_model_is_continued_with_the_same_orders(partition):
    frame, margin = cities(100, seed=11)
    given = divided(frame, (margin > 0).astype(float), partition)
    first = train_both(**given, **SMALL)
    more = train_both(**given, before=[m.model for m in first.models], **SMALL)
    check(more, 2, before=first)
    half = more.models[0].model
    assert half.rounds == 4 and half.ensemble.factors.shape == half.ensemble.chosen.shape
    if partition == "vertical":
        margins = np.concatenate(predict(more, given["tables"], method="thresholds")[0])
        assert np.abs(margins - more.trees[-1].margins).max() < 1e-4
    ranks = [np.argsort(P.sum(axis=1)) for P in (first.orders[0][0], more.orders[0][0])]
    assert (ranks[0] == ranks[1]).mean() > 0.7, "only coins of rounding differ"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_training_resumes(tmp_path, workers):
    frame, margin = cities(100, seed=12)
    given = divided(frame, (margin > 0).astype(float), "vertical")
    tables, labels = given["tables"], given["labels"]

    def job(rounds, resume):
        def play(party):
            kept = Checkpoints(tmp_path / str(party.rank), resume)
            model = SecureXGBClassifier(partition="vertical", **SMALL | {"n_estimators": rounds})
            model.fit(party, tables[party.rank], labels[party.rank], checkpoints=kept)
            margins = [model.predict_margin(party, tables[party.rank], method) for method in ("bins", "thresholds")]
            return margins, model.model.rounds

        return with_workers(play, workers) if workers else play

    run_both(job(2, False))
    ((bins, thresholds), rounds), _ = run_both(job(4, True))[0]
    assert rounds == 4
    assert np.abs(bins - thresholds).max() < 1e-4
    assert roc_auc_score(labels[0], bins) > 0.9


@PARTITIONS
def test_importance_contributions_and_macs(partition):
    frame, margin = cities(100, seed=13, missing=0.1)
    given = divided(frame, (margin > 0).astype(float), partition)
    training = train_both(**given, missing=("city",), edges="joint", **SMALL)
    rows = given["tables"]

    def job(party):
        model = training.models[party.rank]
        model.feature_importance(party, "total_gain")
        own = rows[party.rank]
        with pytest.raises(ConfigError, match="'city' is split by sets of categories: train with a larger max_cat"):
            model.partial_dependence(party, "city=c2", [1.0])
        reasons = model.contributions(party, own, show="numbers", method="thresholds")
        macs = model.predict_margin(party, own, "thresholds", mac=True)
        plain = reveal_model(party, model.model, 0)
        return model.feature_importances_, reasons, macs, model.predict_margin(party, own, "thresholds"), plain

    (first, second), _ = run_both(job)
    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(first[4])).encode()))
    names = booster.feature_names
    assert sorted(first[0].index) == sorted(names) == ["city", "x", "z"]
    gains = booster.get_score(importance_type="total_gain")
    theirs = np.array([gains.get(name, 0.0) for name in first[0].index])
    assert np.abs(first[0].to_numpy() - theirs / theirs.sum()).max() < 1e-3
    for party, (_, reasons, macs, margins, _) in enumerate((first, second)):
        assert np.abs(macs - margins).max(initial=0) < 1e-5
        every = rows[party] if partition == "horizontal" else pd.concat(rows, axis=1)
        if partition == "vertical" and party:
            continue
        data = xgboost.DMatrix(every, enable_categorical=True)
        assert np.abs(booster.predict(data, output_margin=True) - margins).max() < 1e-5
        expected = pd.DataFrame(booster.predict(data, pred_contribs=True)[:, :-1], columns=names)
        if partition == "horizontal":
            assert np.abs(reasons.values - expected[list(reasons.names)].to_numpy()).max() < 1e-4
        else:
            assert np.abs(reasons.values[:, 0] - expected["x"]).max() < 1e-4


def test_an_exported_model_takes_text_and_is_shared_again():
    frame, margin = cities(100, seed=14)
    training = train_both(**divided(frame, (margin > 0).astype(float), "horizontal"), **SMALL)
    fresh, _ = cities(30, seed=15)

    def job(party):
        plain = reveal_model(party, training.models[party.rank].model, 0)
        read = from_xgboost(json.loads(json.dumps(to_xgboost(plain))), "model") if plain else None
        model = SecureXGBClassifier()
        model.model = share_model(party, read)
        own = fresh if party.rank else fresh[:0]
        return model.predict_margin(party, own, "thresholds"), plain

    (_, plain), (shared, _) = run_both(job)[0]
    (_, ours), _ = predict(training, (fresh[:0], fresh), method="thresholds")
    assert np.abs(shared - ours).max() < 1e-5
    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))
    text = expand(fresh.assign(city=fresh["city"].astype(str)), booster.feature_names)
    theirs = booster.predict(xgboost.DMatrix(text, enable_categorical=True), output_margin=True)
    assert np.abs(theirs - ours).max() < 1e-5
    with pytest.raises(ConfigError, match=r"a scorecard must have .*: train with a larger max_cat_to_onehot"):
        scorecard(replace(plain, features=plain.features[:, :1]))


@pytest.mark.parametrize("source", [dealt, made_by_both], ids=["dealer", "pairwise"])
@PARTITIONS
def test_an_audit(partition, source):
    frame, margin = cities(100, seed=16)
    given = divided(frame, (margin > 0).astype(float), partition)
    tables, labels = given["tables"], given["labels"]

    def job(party):
        audit(party)
        model = SecureXGBClassifier(partition=partition, **SMALL).fit(party, tables[party.rank], labels[party.rank])
        return model.predict_margin(party, tables[party.rank], "thresholds")

    margins = np.concatenate(run_both(job, source=source)[0])
    assert roc_auc_score((margin > 0), margins) > 0.9


def test_clients_name_their_categories():
    frame, margin = cities(100, seed=22, missing=0.1)
    training = train_both(**divided(frame, (margin > 0).astype(float), "horizontal"), missing=("city",), **SMALL)
    rows = frame[:CUT], frame[:0]
    expected, _ = run_both(lambda p: training.models[p.rank].predict_proba(p, rows[p.rank], "thresholds"))
    columns = {name: frame[name][:CUT].tolist() for name in frame}
    columns["city"] = [None if value != value else value for value in columns["city"]]
    got, _ = answered(training.models, {"frame": frame[:CUT], "columns": columns})
    assert np.array_equal(got["frame"], expected[0]) and np.array_equal(got["columns"], expected[0])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_many_categories(missing):
    """256 categories are compared by keys beyond 2^33, and 257 are split one at a time."""
    frame, margin = cities(400, seed=17, count=256, missing=missing)
    optional = {"missing": ("city",)} if missing else {}
    parameters = SMALL | {"edges": "joint", "learning_rate": 1.0, "max_depth": 2} | optional
    training = train_both(**divided(frame, (margin > 0).astype(float), "horizontal"), **parameters)
    check(training, 2)
    assert of_city(training)
    rows = frame[:60], frame[60:90]
    expected = twin_of(training).predict_margin(widened(frame[:90]).to_numpy())
    for method in ("thresholds", "bins"):
        assert np.abs(np.concatenate(predict(training, rows, method=method)[0]) - expected).max() < 1e-3
    more, margin = cities(120, seed=18, count=257)
    given = divided(more, (margin > 0).astype(float), "horizontal")
    assert train_both(**given, **SMALL | {"n_estimators": 1}).facts.layout.sets == ()


def test_several_columns_of_both_parties():
    frame, margin = cities(100, seed=19)
    other, more = cities(100, seed=20, count=6)
    frame["shop"] = other["city"].cat.rename_categories(lambda c: f"s{c}")
    frame["few"] = pd.Categorical.from_codes(np.arange(100) % 3, ["a", "b", "c"])
    labels = (margin + more > 0).astype(float)
    tables = frame[["city", "x", "few"]], frame[["z", "shop"]]
    plain = tuple(map(widened, tables))
    training = train_both(tables, (labels, None), plain=plain, partition="vertical", **SMALL | {"n_estimators": 4})
    assert training.facts.layout.sets == ((0, 8), (13, 19))
    check(training, 4)
    columns = {training.data.candidates.cut_of(w)[0] for w in of_city(training)}
    assert columns == {0, 1}
    margins = predict(training, tables, method="thresholds")[0][0]
    assert np.abs(margins - twin_of(training).predict_margin(np.concatenate(plain, axis=1))).max() < 1e-3


def test_numbers_with_such_names_are_no_categories():
    rng = np.random.default_rng(21)
    frame = pd.DataFrame(rng.normal(size=(60, 6)), columns=[f"a={k}" for k in range(6)])
    labels = (frame["a=1"] > 0).to_numpy(float)

    def job(party):
        rows = slice(0, 30) if party.rank == 0 else slice(30, None)
        return SecureXGBClassifier(**SMALL).fit(party, frame[rows], labels[rows]).model.facts.layout.sets

    assert run_both(job)[0][0] == ()


@pytest.mark.parametrize("rows", [2, 200, 20_000, 1_000_000])
@pytest.mark.parametrize(
    "parameters", [{}, {"reg_lambda": 0.0, "min_child_weight": 1e-3}, {"objective": "count:poisson"}]
)
def test_quotients_fit_the_arithmetic(rows, parameters):
    numerics = plan_numerics(TrainConfig.of(**parameters), Size((rows,)))
    order = numerics.order
    largest = SUM_BITS + order.high - order.low - order.early
    assert largest + RECIPROCAL_BITS <= PRODUCT_BITS and order.low <= order.high <= 44
    assert order.shift >= 1 and order.bits == largest + RECIPROCAL_BITS - order.shift + 1 < 62
    rng = np.random.default_rng(rows)
    H = rng.integers(0, 1 << numerics.high, 9)
    G = rng.integers(-H - 1, H + 1)
    rank = 8 - plain_order(numerics, np.stack([G, H])).sum(axis=1)
    keys = -G / (H + order.smoothing)
    apart = np.abs(keys[:, None] - keys) > 1e-3 * np.abs(keys).max()
    assert ((rank[:, None] > rank) == (keys[:, None] > keys))[apart].all()


def test_names_beyond_ascii_are_exported_as_numbers():
    frame, margin = cities(100, seed=23)
    frame["city"] = frame["city"].cat.rename_categories({"c0": "Zürich", "c1": "a=b", "c2": "x <z>"})
    training = train_both(**divided(frame, (margin > 0).astype(float), "horizontal"), **SMALL)
    plain = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))[0][0]
    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))
    theirs = booster.predict(xgboost.DMatrix(frame, enable_categorical=True), output_margin=True)
    ours = np.concatenate(predict(training, (frame[:CUT], frame[CUT:]), method="thresholds")[0])
    assert np.abs(theirs - ours).max() < 1e-5
    trained = xgboost.train({}, xgboost.DMatrix(frame, label=margin, enable_categorical=True), 1)
    with pytest.raises(DataError, match="categories must have ASCII names, column 'city' has others: rename them"):
        from_xgboost(json.loads(trained.save_raw("json")), "model")


def test_orders_are_made_again_after_a_worker_is_lost(monkeypatch):
    frame, margin = cities(100, seed=24)
    given = divided(frame, (margin > 0).astype(float), "horizontal")
    recovered, lost = [], set()

    def losing(party, context, rows):
        if party.live and party.rank not in lost:
            lost.add(party.rank)
            raise WorkersLost("shard 0: its worker has ended")
        return (yield from find_orders(party, context, rows))

    def job(party):
        own = given["tables"][party.rank], given["labels"][party.rank]
        model = SecureXGBClassifier(**SMALL).fit(party, *own)
        return model.predict_margin(party, own[0])

    monkeypatch.setattr("secure_tree.training.train.find_orders", losing)
    monkeypatch.setattr("secure_tree.training.train._recover", lambda party, *_: recovered.append(party.rank))
    margins = np.concatenate(run_both(job)[0])
    assert sorted(recovered) == [0, 1] and roc_auc_score(margin > 0, margins) > 0.9
