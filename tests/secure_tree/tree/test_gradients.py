"""Gradients of numbers over the whole range of margins, beside XGBoost's formulas in float64."""

from dataclasses import replace

import numpy as np
import pytest

from mpc.words import decode_signed
from protocols.testing.two_parties import opened, ring_half, run_both
from secure_tree.functions.powers import log_labels
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.training.cost import Sizes
from secure_tree.tree.gradients import Targets, gradients
from secure_tree.twin.losses import derivatives

UNIT = 1 << MARGIN_SCALE


def context_of(rows, label_scale=1.0, **parameters):
    config = TrainConfig.of(**parameters)
    context = Sizes((rows, rows), (("a",), ("a",))).context(config)
    return TrainingContext(config, replace(context.facts, label_scale=label_scale))


def on_shares(context, margin, targets):
    """Return g and h over the unit of hessians, float64[2, n]."""

    def job(party):
        m = ring_half(np.round(margin * UNIT), party.rank, scale=MARGIN_SCALE)
        y = ring_half(np.round(targets * UNIT), party.rank, scale=MARGIN_SCALE)
        return party.run(gradients(party, context, Targets(y.reshape(1, -1), None), 0, m))[0]

    words = decode_signed(opened(run_both(job)[0]).astype(np.uint32))
    return words / 2.0**context.numerics.histogram_scale


@pytest.mark.parametrize(
    ("parameters", "scale"),
    [
        ({"objective": "reg:gamma"}, 2.0**20),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.001}, 1024.0),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.5}, 2.0**20),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.5}, 2.0**-15),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.999}, 1.0),
    ],
)
def test_powers(parameters, scale):
    context = context_of(1000, scale, **parameters)
    numerics, facts, config = context.numerics, context.facts, context.config
    rng = np.random.default_rng(1)
    # Margins up to where B reaches its limit, and far beyond it on either side.
    margin = np.log(scale) + np.concatenate([rng.uniform(-12, 1, 4000), [-1e5, 1e5, 0.0]])
    labels = scale * np.where(rng.random(len(margin)) < 0.2, 0, rng.uniform(0, 1, len(margin)) ** 4)
    if config.objective == "reg:gamma":
        labels = np.maximum(labels, 1e-9 * scale)
    g, h = on_shares(context, margin, log_labels(labels, numerics.margin_bits))
    a, b = config.power - 1, 2 - config.power
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.minimum(np.exp(b * margin) / facts.power_unit, np.exp(0.7)) if b else np.ones(len(margin))
        over = np.where(labels > 0, labels * np.exp(-a * margin), 0) / facts.power_unit
    over = np.minimum(over, np.exp(0.7) * 2**numerics.reach)
    error = 1.2e-3 * (means + over) + 3e-7 * 2**numerics.reach + 2.0**-numerics.histogram_scale
    assert (np.abs(g - (means - over)) < error).all()
    assert (np.abs(h - (b * means + a * over)) < error).all()
    assert abs((g - (means - over)).mean()) < 3e-4 * (means + over).mean() + 3 * 2.0**-numerics.histogram_scale / 60
    inside = over < np.exp(0.69) * 2**numerics.reach
    inside &= means < np.exp(0.69)
    exact = np.stack(derivatives(config, margin[inside], labels[inside])) / facts.power_unit
    assert inside.sum() > 2000 and (np.abs(np.stack([g, h])[:, inside] - exact) < error[inside]).all()


@pytest.mark.parametrize("slope", [1.0, 3.7, 1e-6])
def test_pseudo_huber(slope):
    context = context_of(1000, slope, objective="reg:pseudohubererror", huber_slope=slope)
    rng = np.random.default_rng(3)
    # Distances of up to 2^20 slopes, half of them within 2.
    margin = np.concatenate([rng.uniform(-1, 1, 2000), np.sinh(rng.uniform(-13, 13, 2000)), [2.0**19, -(2.0**19), 0]])
    labels = np.concatenate([rng.uniform(-1, 1, 4000), [-(2.0**19), 2.0**19, 0]])
    error = on_shares(context, margin, labels) - np.stack(derivatives(context.config, margin, labels))
    unit = 2.0**-context.numerics.histogram_scale
    assert np.abs(error).max() < 4e-4 + unit and np.abs(error.mean(axis=1)).max() < 1e-5 + 3 * unit / 60


def test_soft_labels():
    context = context_of(1000, objective="reg:logistic")
    rng = np.random.default_rng(2)
    margin = np.concatenate([rng.uniform(-20, 20, 4000), [-1e5, 1e5, 0.0]])
    labels = rng.choice([0, 1, rng.random()], len(margin)) * rng.choice([1, 0.5], len(margin))
    exact = np.stack(derivatives(context.config, margin, labels))
    error = on_shares(context, margin, labels) - exact
    unit = 2.0**-context.numerics.histogram_scale
    assert np.abs(error).max() < unit + 3e-6 and np.abs(error.mean(axis=1)).max() < 1e-6 + 3 * unit / 60
