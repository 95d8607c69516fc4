"""Pages from figures: what a party may know, hostile names, and rows without the data of a chart."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import average_precision_score, roc_auc_score

from secure_tree.public.config import TrainConfig
from sharewood.page import prediction_page, training_page
from sharewood.page.charts import ChartLine, lines
from sharewood.page.units import number, seconds, size
from sharewood.report.figures import Phase, Run
from sharewood.report.run import (
    PartyCosts,
    PredictionReport,
    PredictionTable,
    RoundsOfTrees,
    TrainingReport,
    TrainingTables,
)
from tests.sharewood.page.pages import check_page

SPENT = Phase(seconds=1.25, rounds=1234, bytes=5_600_000, bytes_dealt=7_800_000)
FILES = {"train_data": "a & b.csv", "model": "model_a.json"}
DIGESTS = {"train_data": "0a1b2c3d:" + "5e" * 32}
RUN = Run("2026-07-12T14:03:05+00:00", "1.2.3", "4f1c" * 8, FILES, DIGESTS, "77aa" * 4)
ALL = RoundsOfTrees(asked=4, grown=4, kept=4, metric=0.1234, resumed_after=0)
LEARNED = "error of held-out rows after 4 trees"
PARAMETERS = {"n_estimators": 4, "max_depth": 2, "max_bin": 32}


def costs(stages, revealed=(LEARNED,), parts=()):
    return PartyCosts(dict.fromkeys(stages, SPENT), dict.fromkeys(parts, SPENT), list(revealed), {"a": 150_000_000})


def training(stages=("setup", "offline", "online"), revealed=(LEARNED,), **more):
    curve = [(2, 0.25), (4, 0.1234)]
    report = TrainingReport(
        costs=costs(stages, revealed, ("gains", "best split")),
        run=RUN,
        rounds_of_trees=ALL,
        data=TrainingTables([1500, 900], [10, 20], 3),
        config=TrainConfig.of(**PARAMETERS),
        metric="error",
        curve=curve,
        curves={"error": curve},
    )
    return check_page(training_page("bank & co <a>", ("bank & co <a>", "b"), replace(report, **more)))


def test_a_training_with_held_out_rows():
    text = training()
    for figure in ("0.1234", "0.2500", "1,234", "3,702", "16.8 MB", "23.4 MB", "150 MB", "1,500", "30 held-out rows"):
        assert figure in text, figure
    assert "bank & co <a>" in text and "error of held-out rows after 4 trees" in text


def test_a_page_says_which_run_it_is_of():
    text = training()
    assert (
        f"2026-07-12 14:03 UTC; Sharewood 1.2.3; id of the model: {'4f1c' * 8}; train data: a & b.csv; "
        "model: model_a.json." in text
    )


def test_the_headline_of_an_early_stopped_training_is_of_the_model_that_was_kept():
    curve = [(4, 0.7), (8, 0.75), (12, 0.7857), (16, 0.7811), (20, 0.7822)]
    kept = RoundsOfTrees(asked=60, grown=20, kept=12, metric=0.7857, resumed_after=0)
    text = training(metric="auc", curve=curve, curves={"auc": curve}, rounds_of_trees=kept)
    assert "AUC 0.7857 held-out rows, after 12 rounds of trees" in text
    assert "12 rounds of trees, those with the best metric: training stopped after 20 of at most 60." in text


def test_a_resumed_training_says_so():
    text = training(rounds_of_trees=replace(ALL, resumed_after=3))
    assert "Resumed after round 3: times and traffic are those of this run only." in text
    assert "This run" in text and "In all" not in text


@pytest.mark.parametrize(
    ("x", "ticks"),
    [([5, 10, 15], [5, 10, 15]), (list(range(1, 51)), [1, 8, 15, 22, 29, 36, 43, 50]), ([7], [7])],
)
def test_ticks_are_where_points_are(x, ticks):
    chart = lines("curve", "AUC.", [ChartLine("held-out rows", x, [0.5] * len(x))], "rounds of trees", "AUC")
    drawn = [int(text) for text in re.findall(r">(\d+)</text>", chart.svg)]
    assert [n for n in drawn if n] == ticks


def test_a_training_by_columns():
    config = TrainConfig.of(**PARAMETERS, partition="vertical", missing=("age", "device"))
    stages = "rows", "setup", "offline", "online"
    text = training(data=TrainingTables([748, 748], [187, 187], 8), config=config, stages=stages)
    assert "748, the same at both parties" in text and "187 held-out rows." in text and "374" not in text
    assert "comparing the ids of the rows" in text and "4,936" in text, "their rounds are among all"
    assert "age, device" in text


def test_a_long_training():
    rounds = range(1, 101)
    learned = [f"error of held-out rows after {n} trees" for n in rounds]
    curve = [(n, 1 / n) for n in rounds]
    text = training(curve=curve, curves={"error": curve}, revealed=[*learned, "predictions of its own rows"])
    assert "error of held-out rows after 1, 2, 3, " in text and ", 99, 100 trees; predictions of its own rows" in text
    assert "1 1.0000 12 0.0833 23" in text and "100 0.0100" in text


def test_several_metrics():
    curves = {"logloss": [(2, 0.5), (4, 0.45)], "ks": [(2, 0.61), (4, 0.6321)]}
    text = training(metric="ks", curve=curves["ks"], curves=curves)
    assert "rounds of trees log loss KS statistic" in text and "4 0.4500 0.6321" in text


def test_a_training_without_held_out_rows():
    text = training(curve=[], curves={}, revealed=[], rounds_of_trees=replace(ALL, metric=None))
    assert "nothing about quality was revealed" in text and "0.1234" not in text


@pytest.mark.parametrize(
    ("labels", "binary", "sentence"),
    [
        (None, True, "This party knows no labels"),
        (np.zeros(5), True, "need two classes"),
        (np.arange(5.0), False, "against the labels"),
        (np.array([0, 0, 1, 0, 1]), True, "Precision against recall"),
    ],
)
def test_a_prediction(labels, binary, sentence):
    how = {"output": "margin", "method": "bins", "to": None}
    table = PredictionTable(5, 3)
    report = PredictionReport(costs=costs(("predict",)), run=RUN, data=table, config=TrainConfig(), predict=how)
    text = check_page(prediction_page("a", report, np.linspace(-1, 1, 5), labels, binary))
    assert sentence in text and DIGESTS["train_data"] in text
    two = sentence.startswith("Precision")
    assert ("ROC: true positive" in text) == ("Calibration and cut-offs" in text) == two


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_calibration_and_cut_offs_are_of_probabilities(output):
    rng = np.random.default_rng(8)
    margins = rng.normal(-3, 1, 1000)
    labels = (rng.uniform(size=1000) < 1 / (1 + np.exp(-margins))).astype(float)
    values = margins if output == "margin" else 1 / (1 + np.exp(-margins))
    how = {"output": output, "method": "bins", "to": None}
    table = PredictionTable(1000, 3)
    report = PredictionReport(costs=costs(("predict",)), run=RUN, data=table, config=TrainConfig(), predict=how)
    text = check_page(prediction_page("a", report, values, labels, True))
    order = np.argsort(-margins)
    caught, cut = labels[order[:100]].sum(), 1 / (1 + np.exp(-margins[order[99]]))
    assert f"10.0% {cut:.4f} {caught / 100:.1%} {caught / labels.sum():.1%}" in text
    assert f"{labels.mean():.2%} of these rows are positive: the same answer for all is right in" in text
    average, ks = average_precision_score(labels, margins), ks_2samp(margins[labels == 1], margins[labels == 0])
    gini = 2 * roc_auc_score(labels, margins) - 1
    assert f"average precision {average:.4f}, KS {ks.statistic:.4f}, Gini {gini:.4f}" in text


def test_a_training_says_whether_rows_have_weights_and_how_many_are_positive():
    rows = ([1500, 900], [10, 20], 3)
    assert "have weights and 6.83% positive labels" in training(data=TrainingTables(*rows, True, 0.0683))
    assert "have no weights. This report" in training(data=TrainingTables(*rows, False))
    assert "The rows of" not in training(data=TrainingTables(*rows))


def test_units():
    assert [number(v) for v in (0, 0.012345, 12.345, 1234.5, 1e-5)] == ["0", "0.0123", "12.3", "1,234", "0.00001"]
    assert [seconds(v) for v in (0.5, 61, 125, 7260)] == ["0.5 s", "61 s", "2 min 05 s", "2 h 01 min"]
    assert [size(v) for v in (12, 45_600, 2_500_000, 7_000_000_000)] == ["0.012 kB", "45.6 kB", "2.5 MB", "7 GB"]
