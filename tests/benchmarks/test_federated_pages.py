"""The tables of the federated systems' pages follow from the committed results."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.federated_figures import SIZES, paired_loss, read_runs, table_1, traffic
from benchmarks.fedxgbllr_tables import CLASSES, NETWORKS, PAPER_SIZES, TABLES, sizes, table_5
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
def test_tables_2_to_4(table):
    assert table(pd.read_csv(RUNS / "fedxgbllr.csv")) in (DOCS / "fedxgbllr.md").read_text()


def test_the_network_is_not_worse_than_the_mean_of_margins():
    """Compare, on test rows, the log loss of classes by run, and the mean squared error of numbers over seeds."""
    runs = pd.read_csv(RUNS / "fedxgbllr.csv").query("start == 'mean' and architecture == 'interpretable'")
    classes = runs["data"].isin(CLASSES)
    assert (runs[classes]["logloss_network"] <= runs[classes]["logloss_mean"] + 1e-6).all()
    errors = runs[~classes].groupby(["data", "clients"])[["network", "mean"]].mean()
    assert (errors["network"] <= errors["mean"] * (1 + 1e-5)).all()


def test_the_updates_of_virtual_samples():
    assert page(pd.read_csv(RUNS / "virtual_samples_update.csv")) in (DOCS / "virtual_samples.md").read_text()


def test_table_5():
    assert table_5() in (DOCS / "fedxgbllr.md").read_text()
    for (architecture, clients), paper in zip(NETWORKS, PAPER_SIZES, strict=True):
        ours = sizes(architecture, clients)
        assert ours[0] == paper[0]
        assert ours[1:] == pytest.approx(paper[1:], abs=0.0101)
