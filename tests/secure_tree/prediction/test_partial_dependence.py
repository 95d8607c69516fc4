"""Partial dependence against the recursion over the exported model, and against its definition on stumps."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import dealt, made_by_both, run_both
from tests.secure_tree.prediction.test_reasons import exported, trained

POINTS = [-1.5, -0.3, 0.0, 0.4, 2.0]


def curve(booster, name, points):
    """Walk down the exported trees, both ways where they split on other features, by their sums of hessians."""
    table = booster.trees_to_dataframe().set_index("ID")
    rows = {key: row for key, row in zip(table.index, table.to_dict("records"), strict=True)}

    def mean(key, x):
        node = rows[key]
        if node["Feature"] == "Leaf":
            return node["Gain"]
        if node["Feature"] == name:
            return mean(node["Yes"] if np.float32(x) < np.float32(node["Split"]) else node["No"], x)
        yes, no = (rows[node[way]]["Cover"] for way in ("Yes", "No"))
        return (yes * mean(node["Yes"], x) + no * mean(node["No"], x)) / (yes + no)

    roots = [key for key in rows if key.endswith("-0")]
    return np.array([[mean(key, x) for key in roots] for x in points])


KINDS = ["depth 1", "depth 4", "joint edges", "depth 6, null splits", "numbers", "missing", "columns"]


@pytest.mark.parametrize(
    ("kind", "source"), [*((kind, dealt) for kind in KINDS), ("depth 1", made_by_both), ("columns", made_by_both)]
)
def test_the_curve_is_that_of_the_exported_model(kind, source):
    models, _, _ = trained(kind)
    booster, names = exported(models), models[0].model.facts.names
    config = json.loads(booster.save_config())
    base = float(str(config["learner"]["learner_model_param"]["base_score"]).strip("[]"))
    base = base if kind == "numbers" else np.log(base / (1 - base))
    unit = models[0].model.facts.margin_unit
    for feature in (0, names[-1]):
        (found, other), parties = run_both(
            lambda party, f=feature: models[party.rank].partial_dependence(party, f, POINTS), source=source
        )
        name = names[feature] if isinstance(feature, int) else feature
        truth = curve(booster, name, POINTS).sum(axis=1) + base
        assert np.abs(found - truth).max() < 5e-5 * unit and (found == other).all()
        assert parties[0].revealed == [f"the mean margin at 5 values of feature {name!r}"]


def test_several_classes():
    models, _, _ = trained("classes")
    found = run_both(lambda party: models[party.rank].partial_dependence(party, 1, POINTS))[0][0]
    trees = curve(exported(models), models[0].model.facts.names[1], POINTS)
    truth = trees.reshape(len(POINTS), -1, 3).sum(axis=1)
    assert np.abs((found - found[0]) - (truth - truth[0])).max() < 5e-5 and found.shape == (5, 3)


def test_bad_input():
    models, _, _ = trained("depth 1")

    def refused(match, *given, error=ConfigError):
        with pytest.raises(error, match=match):
            run_both(lambda party: models[party.rank].partial_dependence(party, *given))

    refused("must be a name that one feature", "nobody", POINTS)
    refused(r"a number 0 \.\. 3", 4, POINTS)
    refused("1 to 10 finite numbers", 0, range(11))
    refused("1 to 10 finite numbers", 0, [float("nan")])
    with pytest.raises(ConfigError, match="disagree on points"):
        run_both(lambda party: models[party.rank].partial_dependence(party, 0, [float(party.rank)]))
    with pytest.raises((ConfigError, DataError)):
        models[0].partial_dependence(None, 0, POINTS)


def test_rounds_and_bytes():
    models, _, _ = trained("depth 4")
    _, parties = run_both(lambda party: models[party.rank].partial_dependence(party, 2, POINTS))
    total = parties[0].meter.total
    assert (total.rounds, total.sent // 8, total.received // 8) == (32, 21923, 21923)
