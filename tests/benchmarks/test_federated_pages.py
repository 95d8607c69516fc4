"""The tables of the federated systems' pages follow from the committed results."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.federated_figures import SIZES, paired_loss, read_runs, table_1, traffic
from benchmarks.fedxgbllr_rates import table as table_of_rates
from benchmarks.fedxgbllr_tables import CLASSES, DIFFERING, NETWORKS, PAPER_SIZES, SETS, TABLES, sizes, table_5
from benchmarks.virtual_samples_update import page

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUNS = DOCS / "figures"


@pytest.mark.parametrize("name", ["rare", "default_credit"])
def test_table_1(name):
    page, runs = (DOCS / "virtual_samples.md").read_text(), read_runs(RUNS / f"virtual_samples_{name}.csv")
    assert table_1(runs) in page
    assert paired_loss(runs) in page
    assert runs.groupby(["method", "clusters", "phase"])["seed"].nunique().eq(10).all()


def test_traffic_of_virtual_samples_beside_the_rows():
    runs = {name: read_runs(RUNS / f"virtual_samples_{name}.csv") for name in SIZES}
    assert traffic(runs) in (DOCS / "virtual_samples.md").read_text()


def test_405_clusters_lose_at_most_a_hundredth_of_f1_within_the_interval():
    parts = [read_runs(RUNS / f"virtual_samples_rare{part}.csv") for part in ("", "_405")]
    said = paired_loss(pd.concat(parts).query("clusters in ['405', 'original']"))
    assert said in (DOCS / "virtual_samples.md").read_text()
    for loss in said.split(": ")[1].split(", "):
        mean, half = loss.split(" update ")[1].split(" ± ")
        assert float(mean) + float(half) <= 0.01


@pytest.mark.parametrize("table", TABLES)
def test_tables_of_fedxgbllr(table):
    assert table(pd.read_csv(RUNS / "fedxgbllr.csv")) in (DOCS / "fedxgbllr.md").read_text()


def runs_of_table_2():
    runs = pd.read_csv(RUNS / "fedxgbllr.csv").query("start == 'mean' and architecture == 'interpretable'")
    return runs[runs["data"].isin(SETS) & (runs["divided"] == "equal")]


def test_the_network_is_not_worse_than_the_mean_of_margins():
    """Compare, on test rows, the log loss of classes by run, and the mean squared error of numbers over seeds."""
    runs = runs_of_table_2()
    said = f"No network was kept in {(runs['kept'] == 0).sum()} of {len(runs)} runs"
    assert said in (DOCS / "fedxgbllr.md").read_text()
    classes = runs["data"].isin(CLASSES)
    assert (runs[classes]["logloss_network"] <= runs[classes]["logloss_mean"] + 1e-6).all()
    errors = runs[~classes].groupby(["data", "clients"])[["network", "mean"]].mean()
    assert (errors["network"] <= errors["mean"] * (1 + 1e-5)).all()


def test_where_clients_differ_the_network_is_worth_most():
    runs = pd.read_csv(RUNS / "fedxgbllr.csv").query("start == 'mean' and clients == 5 and seed < 2")
    runs = runs[(runs["architecture"] == "interpretable") & runs["data"].isin(DIFFERING)]
    # The loss by which networks are trained: log loss, or mean squared error.
    gain = (runs["logloss_mean"] - runs["logloss_network"]).fillna(runs["mean"] - runs["network"])
    by_division = gain.groupby([runs["data"], runs["divided"]]).mean().unstack()
    assert (by_division["component"] > 2 * by_division["equal"]).all()
    assert (by_division["labels"] > by_division["equal"]).all()


def test_at_100_batches_the_network_of_the_paper_is_better_than_the_mean():
    runs = pd.read_csv(RUNS / "fedxgbllr.csv").query("local == '100 batches' and architecture == 'interpretable'")
    means = runs[runs["data"].isin(CLASSES)].groupby(["data", "clients", "divided"])[["network", "mean"]].mean()
    assert len(means) >= 10 and (means["network"] > means["mean"]).all()


def test_learned_rates():
    learned = json.loads((RUNS / "fedxgbllr_rates.json").read_text())
    assert table_of_rates(learned) in (DOCS / "fedxgbllr.md").read_text()
    assert all(np.shape(each["rates"]) == (5, 100) for each in learned.values())


def test_the_updates_of_virtual_samples():
    assert page(pd.read_csv(RUNS / "virtual_samples_update.csv")) in (DOCS / "virtual_samples.md").read_text()


def test_table_5():
    assert table_5() in (DOCS / "fedxgbllr.md").read_text()
    for (architecture, clients), paper in zip(NETWORKS, PAPER_SIZES, strict=True):
        ours = sizes(architecture, clients)
        assert ours[0] == paper[0]
        assert ours[1:] == pytest.approx(paper[1:], abs=0.0101)
