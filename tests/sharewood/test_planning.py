"""The plan of a training against what a training between two processes then needs."""

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.runtime.session import run_session
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import TrainConfig
from secure_tree.planning import Sizes
from sharewood.planning import plan


@pytest.mark.parametrize(
    ("parameters", "more"),
    [
        ({}, {}),
        ({"comparison": "keys"}, {}),
        ({"test_size": 0.2, "eval_epochs": 2}, {}),
        ({"colsample_bytree": 0.5, "subsample": 0.5}, {}),
        ({"missing": ("f0", "f2")}, {"largest_weight": 3.0}),
        ({"objective": "multi:ova", "num_class": 3, "missing": "all"}, {"held": (5, 0)}),
        ({"partition": "vertical", "test_size": 0.2, "missing": ("f0",)}, {"optional": (1, 1)}),
        ({"partition": "vertical", "objective": "reg:squarederror"}, {"held": (6, 6), "largest_weight": 3.0}),
    ],
)
def test_the_plan_is_what_happens(parameters, more):
    parameters = (
        dict(objective="binary:logistic", n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.3) | parameters
    )
    vertical = parameters.get("partition") == "vertical"
    rows, features = ((40, 40), (3, 4)) if vertical else ((30, 40), (4, 4))

    def job(party):
        rng = np.random.default_rng(party.rank)

        def table(n):
            X = rng.normal(size=(n, features[party.rank]))
            y = np.arange(n) % parameters.get("num_class", 2)
            return X, None if vertical and party.rank else y

        X, y = table(rows[party.rank])
        weights = np.full(len(X), 3.0) if more.get("largest_weight") and y is not None else None
        held = more.get("held", (0, 0))[party.rank]
        kind = SecureXGBRegressor if "squared" in parameters["objective"] else SecureXGBClassifier
        kind(**parameters).fit(party, X, y, weights, eval_set=table(held) if held else None)
        return {name: [s.rounds, s.bytes_sent, s.bytes_dealt] for name, s in party.stages.items()}

    outcome = run_session(job)
    first, second = (outcome[name]["result"] for name in ("party_a", "party_b"))
    expected = plan(TrainConfig.of(**parameters), Sizes(rows, features, **more))
    measured = ["setup", "online"]
    assert expected["online"]["rounds"] == sum(first[s][0] for s in measured)
    sent = sum(party[s][1] for party in (first, second) for s in measured)
    assert expected["online"]["bytes"] == pytest.approx(sent, rel=0.05)
    dealt = sum(party[s][2] for party in (first, second) for s in ("setup", "offline"))
    assert expected["offline"]["bytes_dealer"] == pytest.approx(dealt, rel=0.05)
    assert expected["network_seconds"]["WAN"]["online"] > expected["online"]["rounds"] * 20e-3


@pytest.mark.parametrize(
    ("parameters", "sizes", "sentence"),
    [
        ({"partition": "vertical"}, Sizes((30, 40), (2, 2)), "the same number of rows"),
        ({}, Sizes((30, 40), (2, 3)), "the same number of features"),
        ({"partition": "vertical", "missing": ("age",)}, Sizes((30, 30), (2, 2)), "is needed for each party"),
    ],
)
def test_sizes_that_contradict_each_other(parameters, sizes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plan(TrainConfig.of(**parameters), sizes)
