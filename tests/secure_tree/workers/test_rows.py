"""Rows divided among workers: every split is the twin's on the same gradients, for any number of workers."""

import numpy as np
import pandas as pd
import pytest

from protocols.testing.two_parties import dealt, made_by_both, opened, run_both, with_workers
from secure_tree import SecureXGBClassifier
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.training.checkpoint import Checkpoints
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import check, halves, table
from tests.secure_tree.training.test_checkpoint import files


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 3, "max_bin": 8},
        {"max_depth": 2, "max_bin": 8, "min_child_samples": 12, "edges": "joint"},
        {"max_depth": 2, "max_bin": 8, "objective": "squarederror"},
        {"max_depth": 2, "max_bin": 8, "objective": "multi:ova", "num_class": 3},
    ],
)
def test_every_split_is_the_twins(count, parameters):
    X, y = table(90, 3, 1)
    if parameters.get("num_class"):
        y = y + (X[:, 1] > 0.5)
    config = {"n_estimators": 2, "missing": "all", **parameters}
    X[::7, 1] = np.nan
    training = train_both(*halves(X, y, 41), workers=count, **config)
    assert len(check(training, 2)) > 1


ROWS, CUT = 70, 31
X, _ = table(ROWS, 4, seed=41)
Y = ((X[:, 0] > 0.3) & (X[:, 3] > -0.5)).astype(float)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
SOURCES = pytest.mark.parametrize("source", [dealt, made_by_both], ids=["dealer", "pairwise"])
PARTITIONS = pytest.mark.parametrize("partition", ["horizontal", "vertical"])


def data(partition, rows=X, labels=Y, cut=CUT):
    return halves(rows, labels, cut) if partition == "horizontal" else columns(rows, labels, 2)


def weighed(partition):
    w = np.random.default_rng(5).integers(1, 9, ROWS) / 4
    return {"weights": (w[:CUT], w[CUT:]) if partition == "horizontal" else (w, None)}


def of_colours(partition):
    """Return tables with a categorical column on which the labels depend."""
    frame = pd.DataFrame({"x": X[:, 1], "z": X[:, 2], "u": X[:, 3]})
    frame["colour"] = pd.Categorical(np.array(["red", "green", "blue"])[np.digitize(X[:, 0], [-0.4, 0.4])])
    wide = pd.DataFrame({f"colour={c}": (frame["colour"] == c).astype(float) for c in ("blue", "green", "red")})
    numbers = frame[["x", "z", "u"]]
    if partition == "vertical":
        tables, plain = (numbers, frame[["colour"]]), (numbers, wide)
    else:
        wide = pd.concat([numbers, wide], axis=1)
        tables, plain = (frame[:CUT], frame[CUT:]), (wide[:CUT], wide[CUT:])
    return {"tables": tables, "plain": plain}


def with_gaps(partition):
    gaps = np.where(np.random.default_rng(6).random(X.shape) < 0.2, np.nan, X)
    return {"tables": data(partition, gaps)[0], "missing": "all"}


def in_classes(partition):
    return {"labels": data(partition, X, np.digitize(X[:, 0], [-0.4, 0.4]).astype(float))[1], **CLASSES}


CLASSES = {"objective": "multi:ova", "num_class": 3}
# The input of the parties.
CASES = {
    "weights": weighed,
    "categories": of_colours,
    "missing": with_gaps,
    "classes": in_classes,
    "rows sampled": lambda partition: {"subsample": 0.6},
    "columns sampled": lambda partition: {"colsample_bytree": 0.5},
}


@SOURCES
@PARTITIONS
@pytest.mark.parametrize("case", CASES)
def test_shards_train_as_one_process_does(case, partition, source):
    """The first gradients are those of one process, apart from random rounding.

    Given the gradients and the coins of the search, every split is that of the twin, which has no shards.
    """
    tables, labels = data(partition)
    asked = {"tables": tables, "labels": labels, "partition": partition, "base_score": 0.5}
    asked |= SMALL | CASES[case](partition)
    training = train_both(source=source, workers=3, **asked)
    assert len(check(training, 2)) > 1
    one = train_both(**asked | {"n_estimators": 1, "subsample": 1})
    # Two roundings each, as in `test_sampling`: weights to 2^-28, gradients over the label scale to 2^-20.
    allowed = 2.2 + 2.2 * 2.0 ** (training.numerics.histogram_scale - 20)
    kept = np.array([(seen.values != 0).any(axis=0) for seen in training.trees])
    for seen, expected, sample in zip(training.trees, one.trees, kept, strict=False):
        assert np.abs((seen.values - expected.values)[:, sample]).max() <= allowed
    if case == "rows sampled":
        assert (np.abs(kept.mean(axis=1) - 0.6) < 6 * np.sqrt(0.6 * 0.4 / ROWS)).all()
        assert (kept[0] != kept[1]).any(), "each tree has its own sample"
    else:
        assert kept.all()


class Killed(Exception):
    pass


def grown(workers, partition, source, held=None, kept=None, dies=None, **parameters):
    """Train with this number of workers, or without, and return margins and curves.

    The margins are those of training rows, as grown with the trees and as predicted, and those of held-out rows.
    """
    tables, labels = data(partition)

    def job(party):
        own, last = tables[party.rank], []

        def observe(number, tree, rows):
            last[:] = [rows.margin]
            if number == dies:
                raise Killed

        model = SecureXGBClassifier(**{**SMALL, "partition": partition, **parameters})
        held_out = tuple(part[party.rank] for part in held) if held else None
        checkpoints = Checkpoints(kept[0] / str(party.rank), kept[1]) if kept else None
        model.fit(party, own, labels[party.rank], eval_set=held_out, observer=observe, checkpoints=checkpoints)
        fresh = model.predict_margin(party, held[0][party.rank]) if held else None
        return last[0], model.predict_margin(party, own), fresh, model.curves

    (a, b), _ = run_both(with_workers(job, workers, source) if workers else job, source=source)
    assert a[3] == b[3]
    predicted = np.concatenate([a[1], b[1]])
    fresh = np.concatenate([a[2], b[2]]) if held else None
    return opened([a[0], b[0]]) / 2**MARGIN_SCALE, predicted, fresh, a[3]


@SOURCES
@PARTITIONS
def test_held_out_rows_stop_a_training_in_shards(partition, source):
    fresh, _ = table(50, 4, seed=43)
    truth = ((fresh[:, 0] > 0.3) & (fresh[:, 3] > -0.5)).astype(float)
    asked = dict(n_estimators=7, eval_epochs=1, early_stopping_rounds=1, eval_metric="error", learning_rate=0.9)
    _, _, margins, curves = grown(3, partition, source, held=data(partition, fresh, truth, 20), **asked)
    values = [value for _, value in curves["error"]]
    best = int(np.argmin(values))
    assert len(values) == best + 2 < 7, "training stops after the first round that is not better"
    assert values[best] == np.mean((margins > 0) != truth) < 0.2


@PARTITIONS
@pytest.mark.parametrize(
    ("before", "after", "source"), [(2, 3, dealt), (3, 0, dealt), (0, 2, dealt), (2, 3, made_by_both)]
)
def test_a_training_is_resumed_with_another_number_of_shards(tmp_path, before, after, partition, source):
    with pytest.raises(Killed):
        grown(before, partition, source, kept=(tmp_path, False), dies=2, n_estimators=4)
    first = files(tmp_path, 3)
    trained, predicted, *_ = grown(after, partition, source, kept=(tmp_path, True), n_estimators=4)
    assert files(tmp_path, 3) == first
    assert np.abs(trained - predicted).max() < 1e-5
    assert np.mean((predicted > 0) == Y) > 0.9
