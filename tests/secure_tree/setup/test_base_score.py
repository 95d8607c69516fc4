"""The base score on shares against XGBoost's estimate over the whole range, and the unit of a regression."""

import json

import numpy as np
import pytest

from protocols.testing.two_parties import opened, run_both
from secure_tree.agreement.training import agree_on_training
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table, hold_out, read_training
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.setup.base_score import settle
from secure_tree.setup.unit import UNIT

xgboost = pytest.importorskip("xgboost")
RNG = np.random.default_rng(91)


def settled(labels, weights=(None, None), **parameters):
    """Return (base margin per class, facts, what was revealed) for both parties' labels, None if a party has none."""
    config = TrainConfig.of(**parameters)

    def job(party):
        y, w = labels[party.rank], weights[party.rank]
        n = max(len(own) for own in labels if own is not None) if config.partition == "vertical" else len(y)
        own = Here(*hold_out(read_training(np.zeros((n, 1)), y, w, config), config))
        context, base = settle(party, agree_on_training(party, config, own), own)
        return base, context.facts

    (first, second), parties = run_both(job)
    assert first[1] == second[1] and parties[0].revealed == parties[1].revealed
    unit = first[1].margin_unit / 2**MARGIN_SCALE
    return opened((first[0], second[0])) * unit, first[1], parties[0].revealed


def estimated(objective, labels, weights=None):
    """Return XGBoost's base_score, one per class."""
    data = xgboost.DMatrix(np.zeros((len(labels), 1)), label=labels, weight=weights)
    booster = xgboost.train({"objective": objective}, data, 1)
    return json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])


def log_odds(p):
    held = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(held / (1 - held))


def halves(values, cut):
    return (None, None) if values is None else (values[:cut], values[cut:])


@pytest.mark.parametrize("share", [0, 1e-4, 2e-3, 0.13, 0.5, 0.87, 0.999, 1])
def test_probabilities(share):
    n = 10_000
    y = (RNG.permutation(n) < round(share * n)).astype(float)
    base, facts, revealed = settled(halves(y, 300), objective="binary:logistic")
    assert abs(base[0] - log_odds(estimated("binary:logistic", y)[0])) < 2e-4
    assert revealed == [] and facts.label_scale == 1


@pytest.mark.parametrize("mean", [1e-3, 0.05, 1, 30, 1e3])
def test_counts(mean):
    y = RNG.poisson(mean, 20_000 if mean < 1 else 500).astype(float)
    base, _, revealed = settled(halves(y, 200), objective="count:poisson")
    assert abs(base[0] - np.log(estimated("count:poisson", y)[0])) < 2e-4 and revealed == []


@pytest.mark.parametrize("factor", [1e-6, 0.03, 7.0, 1e6])
def test_with_scale_pos_weight_it_is_a_newton_step_as_in_xgboost(factor):
    y = (RNG.permutation(3000) < 400).astype(float)
    base, _, revealed = settled(halves(y, 1000), objective="binary:logistic", scale_pos_weight=factor)
    data = xgboost.DMatrix(np.zeros((3000, 1)), label=y)
    booster = xgboost.train({"objective": "binary:logistic", "scale_pos_weight": factor}, data, 1)
    expected = json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
    assert abs(base[0] - log_odds(expected[0])) < 2e-4 and revealed == []


@pytest.mark.parametrize("given", [1e-30, 1e-9, 1e-3, 1 - 1e-12])
def test_a_given_probability_is_clipped_as_in_xgboost(given):
    y = (np.arange(20) % 2).astype(float)
    base, _, _ = settled(halves(y, 10), objective="binary:logistic", base_score=given)
    assert abs(base[0] - log_odds(given)) < 2e-6


def test_no_count_at_all():
    base, _, _ = settled(halves(np.zeros(50), 20), objective="count:poisson")
    assert abs(base[0] - np.log(1e-6)) < 2e-4


@pytest.mark.parametrize(
    "y",
    [
        1e6 + 2 * RNG.normal(size=400),
        -37 + RNG.normal(size=400),
        1e-9 * RNG.normal(size=400),
        np.append(3 * RNG.normal(size=399), 1e5),
        np.repeat([-1e4, 3.0], [100, 300]),
        np.full(400, 7.0),
        np.zeros(400),
    ],
    ids=["far", "near", "small", "outlier", "two groups", "constant", "zero"],
)
@pytest.mark.parametrize("cut", [1, 200])
def test_numbers(y, cut):
    base, facts, revealed = settled(halves(y, cut), objective="reg:squarederror")
    spread = np.sqrt(((y - y.mean()) ** 2).mean())
    floor = facts.label_bound * 2.0**-24
    assert abs(base[0] - y.mean()) <= 2.0**-18 * facts.label_scale
    assert abs(base[0] - estimated("reg:squarederror", y)[0]) <= 2.0**-18 * facts.label_scale + 1e-6 * abs(y.mean())
    assert spread <= facts.label_scale <= max(6 * spread, floor) and revealed == [UNIT]


@pytest.mark.parametrize("given", [1e6, 0.0])
def test_a_given_base_score_is_public_and_sets_the_unit(given):
    y = 1e6 + 2 * RNG.normal(size=400)
    base, facts, _ = settled(halves(y, 150), objective="reg:squarederror", base_score=given)
    spread = np.sqrt(((y - given) ** 2).mean())
    assert base[0] == given and spread <= facts.label_scale <= 6 * spread


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "reg:squarederror"])
@pytest.mark.parametrize("weights", ["mild", "one heavy", "one party", "none at one party"])
def test_weights(objective, weights):
    n, cut = 600, 200
    y = {"binary:logistic": RNG.random(n) < 0.2, "count:poisson": RNG.poisson(3, n)}.get(objective)
    y = 50 + 9 * RNG.normal(size=n) if y is None else y.astype(float)
    w = RNG.random(n) + 0.1
    own = halves(w, cut)
    if weights == "one heavy":
        w[7] = 1e5
    elif weights == "one party":
        w[cut:], own = 1, (w[:cut], None)
    elif weights == "none at one party":
        w[cut:] = 0
    base, facts, _ = settled(halves(y, cut), own, objective=objective)
    (expected,) = estimated(objective, y, w)
    link = {"binary:logistic": log_odds, "count:poisson": np.log}.get(objective, float)
    assert abs(base[0] - link(expected)) < 3e-4 * (9 if objective == "reg:squarederror" else 1)
    assert all(m >= own.sum() / facts.weight_scale for m, own in zip(facts.masses, halves(w, cut), strict=True))
    if objective == "reg:squarederror":
        assert np.sqrt(np.average((y - expected) ** 2, weights=w)) <= facts.label_scale


@pytest.mark.parametrize("holder", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns(holder, weighted):
    y, w = 1e4 + RNG.normal(size=300), RNG.random(300) if weighted else None
    labels, weights = ((x, None) if holder == 0 else (None, x) for x in (y, w))
    base, facts, _ = settled(labels, weights, objective="reg:squarederror", partition="vertical")
    assert abs(base[0] - np.average(y, weights=w)) < 1e-4 and 1 <= facts.label_scale <= 6


def test_several_classes():
    y = RNG.choice(3, 500, p=[0.7, 0.29, 0.01]).astype(float)
    base, _, _ = settled(halves(y, 100), objective="multi:ova", num_class=4)
    shares = np.bincount(y.astype(int), minlength=4) / 500
    assert np.abs(base - log_odds(shares)).max() < 2e-4


def test_held_out_rows_are_not_counted_and_bound_the_unit():
    y = np.append(np.zeros(199), 1e5)
    train, held = (
        Table(np.zeros((100, 1), np.float32), ("f0",), y[:100]),
        Table(np.zeros((100, 1), np.float32), ("f0",), y[100:]),
    )
    config = TrainConfig.of(objective="reg:squarederror")

    def job(party):
        own = Here(train, held)
        return settle(party, agree_on_training(party, config, own), own)

    (first, second), _ = run_both(job)
    assert opened((first[1], second[1]))[0] == 0
    assert first[0].facts.label_scale >= 1e5 / 512
