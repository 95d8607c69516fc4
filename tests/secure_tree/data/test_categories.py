"""Categorical columns: splits are the twin's on pandas' indicators, and quality and models match XGBoost's."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

from mpc.errors import DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.public.sampling import column_samples
from secure_tree.twin.boost import draw_coins, grow
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_predict import twin_of
from tests.secure_tree.test_layouts import predict
from tests.secure_tree.test_twin import check

COLOURS = ["red", "green", "blue"]


def paints(n, seed, missing=0.0, colours=COLOURS):
    """Return a table with a categorical column, and labels that depend on one of its categories and on a number."""
    rng = np.random.default_rng(seed)
    colour = pd.Series(rng.choice(colours, n)).where(rng.random(n) >= missing)
    x, z = rng.normal(size=(2, n)).round(2)
    y = ((colour == "green") * 2.0 + x + 0.5 * rng.normal(size=n) > 1).to_numpy(float)
    return pd.DataFrame({"x": x, "colour": pd.Categorical(colour, colours), "z": z}), y


def widened(frame, colours):
    """Return the same table with pandas' indicators."""
    hot = pd.get_dummies(frame["colour"].astype(object), prefix="colour", prefix_sep="=", dtype=float)
    hot = hot.reindex(columns=[f"colour={c}" for c in colours], fill_value=0.0)
    hot[frame["colour"].isna()] = np.nan
    at = list(frame).index("colour")
    return pd.concat([frame.iloc[:, :at], hot, frame.iloc[:, at + 1 :]], axis=1)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_rows_with_categories_of_both_parties(missing):
    a, ya = paints(40, 1, missing)
    b, yb = paints(50, 2, missing, colours=["blue", "green", "white"])
    every = ["red", "green", "blue", "white"]
    wide = [widened(frame, every) for frame in (a, b)]
    given = {"max_cat_to_onehot": 5, **({"missing": ("colour",)} if missing else {})}
    training = train_both(
        (a, b), (ya, yb), plain=tuple(wide), n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.3, **given
    )
    names = ("x", *[f"colour={c}" for c in every], "z")
    assert training.facts.names == names == tuple(wide[0]) and training.facts.indicators == (1, 2, 3, 4)
    used = check(training, 3)
    features = training.data.candidates.features
    sample = column_samples(training.context)[0][:-1]
    # A category is one candidate of each party, plus a copy of each if the column may be missing.
    assert (features[sample] == names.index("colour=blue")).sum() == (4 if missing else 2)
    assert names.index("colour=green") in {features[w] for w in used if w < len(features)}
    for method in ("bins", "thresholds"):
        results, _ = predict(training, (b[:9], a[:0]), method=method)
        assert np.abs(results[0] - twin_of(training).predict_margin(wide[1][:9].to_numpy())).max() < 1e-3
        assert results[1].shape == (0,)


def without_coins(numerics, candidates):
    """Yield masks of 0, with which all logarithms are rounded down."""
    for of_level in draw_coins(numerics, 3, candidates, np.random.default_rng(0)):
        yield tuple(np.zeros_like(masks) for masks in of_level)


def test_every_split_of_a_category_is_found_among_fewer_candidates():
    """The twin grows the same trees with all edges of the indicators, apart from the numbers of equal edges."""
    (a, ya), (b, yb) = paints(60, 12), paints(70, 13)
    wide = tuple(widened(t, COLOURS) for t in (a, b))
    training = train_both((a, b), (ya, yb), plain=wide, n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.3)
    candidates = training.data.candidates
    for seen, sample in zip(training.trees, column_samples(training.context), strict=True):
        few, full = (
            grow(
                training.data,
                training.config,
                training.numerics,
                seen.values,
                without_coins(training.numerics, sizes),
                numbers,
            )
            for numbers, sizes in ((sample, len(sample) - 1), (None, len(candidates.thresholds)))
        )
        for mine, theirs in zip(few.winner, full.winner, strict=True):
            null = len(candidates.thresholds)
            assert (mine == null) == (theirs == null)
            if mine != null:
                assert candidates.features[mine] == candidates.features[theirs]
                assert candidates.thresholds[mine] == candidates.thresholds[theirs]


def test_columns_with_categories():
    table, y = paints(80, 3, missing=0.2)
    tables = table[["x"]], table[["z", "colour"]]
    wide = tables[0], widened(tables[1], COLOURS)
    training = train_both(
        tables, (y, None), plain=wide, partition="vertical", missing="all", n_estimators=3, max_bin=8, learning_rate=0.5
    )
    check(training, 3)
    results, _ = predict(training, tables, method="thresholds")
    expected = twin_of(training).predict_margin(np.concatenate(wide, axis=1))
    assert np.abs(results[0] - expected).max() < 1e-3


def test_a_revealed_model_names_column_and_category():
    (a, ya), (b, yb) = paints(60, 4), paints(60, 5)
    training = train_both((a, b), (ya, yb), n_estimators=2, max_bin=8, plain=[widened(t, COLOURS) for t in (a, b)])
    counts, _ = run_both(lambda p: training.models[p.rank].feature_importance(p))
    assert dict(zip(training.facts.names, counts[0], strict=True))["colour=green"] > 0
    (plain, _), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))
    assert "colour=green" in booster.get_score()
    theirs = booster.predict(xgboost.DMatrix(widened(b, COLOURS)), output_margin=True)
    ours, _ = predict(training, (a[:0], b), method="thresholds")
    assert np.abs(ours[1] - theirs).max() < 1e-4


def test_quality_beside_xgboosts_one_hot_splits():
    table, y = paints(600, 6)
    parameters = dict(max_depth=3, learning_rate=0.3, max_bin=32, min_child_weight=1.0, reg_lambda=1.0)
    booster = xgboost.train(
        dict(objective="binary:logistic", base_score=0.5, max_cat_to_onehot=10, **parameters),
        xgboost.DMatrix(table, label=y, enable_categorical=True),
        6,
    )
    a, b = table[:250], table[250:].reset_index(drop=True)

    def job(party):
        model = SecureXGBClassifier(n_estimators=6, min_split_loss=0.0, **parameters)
        own = ((a, y[:250]), (b, y[250:]))[party.rank]
        return model.fit(party, *own).predict_margin(party, own[0])

    ours = np.concatenate(run_both(job)[0])
    theirs = booster.predict(xgboost.DMatrix(table, enable_categorical=True))
    assert abs(roc_auc_score(y, ours) - roc_auc_score(y, theirs)) < 0.005


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (lambda t: t, lambda t: t.assign(colour=1.0), "'colour' is categorical at one party but not at the other"),
        (lambda t: t, lambda t: t.assign(colour=t["colour"].astype(object)), "'colour' is categorical at one party"),
        (lambda t: t.rename(columns={"colour": "a=b"}), lambda t: t, "categorical column 'a=b' must not contain '='"),
        (lambda t: t.rename(columns={"x": "colour=red"}), lambda t: t, "'colour=red' has the name of an indicator"),
        (
            lambda t: t.assign(colour=t["colour"].where(t["x"] < 0)),
            lambda t: t,
            "'colour=red', row .*: value is missing",
        ),
    ],
)
def test_tables_that_do_not_fit(first, second, sentence):
    (a, ya), (b, yb) = paints(20, 7), paints(20, 8)
    with pytest.raises(DataError, match=sentence):
        train_both((first(a), second(b)), (ya, yb), n_estimators=1)


def test_a_category_that_the_model_does_not_know():
    (a, ya), (b, yb) = paints(30, 9), paints(30, 10)
    training = train_both((a, b), (ya, yb), n_estimators=1, max_bin=8, plain=[widened(t, COLOURS) for t in (a, b)])
    other, _ = paints(5, 11, colours=["black", "red"])
    other["colour"] = pd.Categorical(["red", "black", "red", "red", "red"])
    with pytest.raises(DataError, match="'colour', row 1: value must be one of red, green, blue, got 'black'"):
        predict(training, (other, b))
