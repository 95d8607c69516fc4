"""What a training says of its progress, and the points of a learning curve."""

from types import SimpleNamespace

import pytest

from mpc.meter import Stage, Traffic
from secure_tree.config import TrainConfig
from sharewood.learning_curve import POINTS, points
from sharewood.progress import Progress


def said(caplog, classes=1, offline=0.0, validation=False, **parameters):
    """The lines of a training of ten rounds whose every tree takes two seconds online."""
    party = SimpleNamespace(
        meter=SimpleNamespace(total=Traffic(rounds=7)),
        link=SimpleNamespace(wire_sent=1_000_000, wire_received=2_000_000),
        randomness=SimpleNamespace(received=5_000_000),
        stages={"offline": Stage(seconds=offline)},
        parts={"gains": Stage()},
    )
    caplog.set_level("INFO", "sharewood")
    watch = Progress(party, TrainConfig.of(n_estimators=10, **parameters), validation)
    for number in range(10 * classes):
        party.parts["gains"].seconds += 2 / classes
        watch(number)
    return [record.getMessage() for record in caplog.records]


def test_a_line_for_each_tenth(caplog):
    lines = said(caplog)
    assert len(lines) == 10
    assert lines[2] == (
        "3 of 10 rounds of trees: 7 rounds of messages, 3.0 MB with the other party, 5.0 MB from the dealer, "
        "about 14 s left"
    )


def test_several_trees_a_round(caplog):
    lines = said(caplog, classes=3, objective="multi:ova", num_class=3)
    assert len(lines) == 10 and lines[0].endswith("about 18 s left")


@pytest.mark.parametrize("rows", [{"test_size": 0.5}, {"validation": True}])
def test_dealing_for_later_rounds_is_still_to_come(caplog, rows):
    lines = said(caplog, offline=10.0, eval_epochs=5, **rows)
    assert lines[0].endswith("about 28 s left") and lines[-1].endswith("about 0 s left")


@pytest.mark.parametrize("rounds", [1, 2, 49, 50, 51, 120, 10_000])
def test_points_of_a_curve(rounds):
    chosen = points(rounds)
    assert len(chosen) == min(rounds, POINTS) and chosen[0] >= 1 and chosen[-1] == rounds
    assert chosen == sorted(set(chosen))
