"""Labels and weights as bits: what they stand for after the lift, over the whole range, and what cannot be said."""

import numpy as np
import pytest

from mpc.errors import DataError
from mpc.shares import BShare
from mpc.words import decode_signed
from protocols.testing.two_parties import opened, run_both
from secure_tree.data.table import Table
from secure_tree.owners.encoding import (
    WEIGHT_BITS,
    exponents,
    label_bits,
    label_width,
    lift_labels,
    lift_weights,
    weight_bits,
)
from secure_tree.owners.halves import divide_bits, half_of_bits
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts, PublicFacts, TrainingContext
from secure_tree.public.layout import Layout

LAYOUT = Layout("horizontal", (5, 5, 5), (1, 1, 1), (2, 2, 2), ((), (), ()), True)


def lifted(context, owner, bits, lift):
    parts = divide_bits(bits)

    def job(party):
        half = half_of_bits(party.rank, parts[party.rank], bits.shape, "bank")
        return party.run(lift(party, context, owner, BShare(half, party.rank)))

    halves, _ = run_both(job)
    return decode_signed(opened(halves)) / 2.0 ** halves[0].scale


def context(config, bound=1.0, weight_scale=None):
    return TrainingContext(config, PublicFacts("", ("x",), LAYOUT, bound, weight_scale, label_bound=bound))


def table(labels, weights=None):
    return Table(np.zeros((len(labels), 1), np.float32), ("x",), np.array(labels, float), weights)


@pytest.mark.parametrize("own", [-90, -3, 0, 1, 40, 90])
@pytest.mark.parametrize("above", [0, 1, 7, 30, 150])
def test_numbers(own, above):
    config, rng = TrainConfig.of(objective="squarederror"), np.random.default_rng(1000 + own + above)
    labels = np.append(rng.uniform(-1, 1, 50), [0.999999, -0.999999, 0.5, -0.5, 0]) * 2.0**own
    exponent, _ = exponents(config, table(labels))
    assert exponent == own
    bits = label_bits(config, table(labels), exponent)
    assert bits.shape == (label_width(config), 55) and label_width(config) == 35
    bound = 2.0 ** (own + above)
    owner = OwnerFacts("bank", "", 55, exponent)
    found = lifted(context(config, bound), owner, bits, lift_labels)[0] * bound
    assert np.abs(found - labels).max() <= 2.0**own * 2.0**-35 + bound * 2.0**-35


def test_powers_of_two_and_whole_numbers_are_exact():
    config = TrainConfig.of(objective="count:poisson")
    labels = np.array([0, 1, 2, 3, 4, 7, 8, 100, 1024])
    exponent, _ = exponents(config, table(labels))
    bits = label_bits(config, table(labels), exponent)
    assert len(bits) == 34
    found = lifted(context(config, 2.0**13), OwnerFacts("bank", "", 9, exponent), bits, lift_labels)[0] * 2.0**13
    assert np.array_equal(found, labels)


@pytest.mark.parametrize("objective", ["squarederror", "count:poisson"])
def test_whatever_bits_an_owner_sends_the_label_is_within_its_bound(objective):
    config = TrainConfig.of(objective=objective)
    bits = np.stack([np.ones(label_width(config)), np.zeros(label_width(config))], axis=1).astype(np.uint8)
    found = lifted(context(config, 8.0), OwnerFacts("bank", "", 2, 3), bits, lift_labels)[0] * 8
    assert np.abs(found).max() <= 8 and found.min() >= (0 if config.counts else -8)


@pytest.mark.parametrize(("own", "scale"), [(0, 0), (-3, 0), (-25, 4), (5, 5), (-40, 0)])
def test_weights(own, scale):
    rng = np.random.default_rng(own + 50)
    weights = np.append(rng.uniform(0, 1, 40), [0, 0.5, 1 - 2.0**-30]) * 2.0**own
    bits = weight_bits(weights, own)
    assert len(bits) == WEIGHT_BITS
    owner = OwnerFacts("bank", "", 43, weight=own)
    found = lifted(context(TrainConfig.of(), 1.0, 2.0**scale), owner, bits, lift_weights) * 2.0**scale
    assert np.abs(found - weights).max() <= 2.0**own * 2.0**-20 + 2.0**scale * 2.0**-29 and found.min() >= 0


def test_rows_without_weights_count_1():
    owner = OwnerFacts("bank", "", 4)

    def job(party):
        return party.run(lift_weights(party, context(TrainConfig.of(), 1.0, 8.0), owner, None))

    halves, _ = run_both(job)
    assert np.array_equal(opened(halves) / 2.0 ** halves[0].scale * 8, np.ones(4))


def test_magnitudes():
    numbers, classes = TrainConfig.of(objective="squarederror"), TrainConfig.of()
    assert exponents(numbers, table([0, 0])) == (None, None) and exponents(classes, table([0, 1])) == (None, None)
    assert exponents(classes, table([0, 1], np.array([0.0, 0]))) == (None, 0)
    assert exponents(numbers, table([4, 3], np.array([0.3, 1]))) == (3, 1)
    with pytest.raises(DataError, match="largest label must be between"):
        exponents(numbers, table([1e31]))
    with pytest.raises(DataError, match="largest weight must be between"):
        exponents(classes, table([1], np.array([1e-33])))
