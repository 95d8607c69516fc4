"""Exploring joint tables: beside definitions and libraries, by columns and by rows, with a dealer and without."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError
from protocols.runtime import run_local
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.explore import statistics
from secure_tree.explore.explore import explore
from tests.secure_tree.explore.tables import (
    CUT,
    FEATURES,
    ROWS,
    bins_of,
    counts,
    divergence,
    explored,
    frame,
    parts,
    table,
)

ALL = ("iv", "auc", "ks")


@pytest.fixture
def exact(monkeypatch):
    """Numbers are revealed to 2^-19, not to their standard errors."""
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)


def by_definition(numbers, size, y, least=10):
    p, q = counts(numbers, size, y)
    iv, woe = divergence(p, q)
    auc, ks = [], []
    for column in numbers.T:
        there = column < 10
        auc.append(roc_auc_score(y[there], column[there]))
        ks.append(stats.ks_2samp(column[there & (y == 1)], column[there & (y == 0)]).statistic)
    return {"iv": iv, "auc": np.array(auc), "ks": np.array(ks)}, np.where((p >= least) & (q >= least), woe, np.nan)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("holder", [0, 1])
def test_by_columns(source, holder):
    X, y = table()
    own = parts(X, y, "vertical", holder)
    results, parties = explored(own, source, partition="vertical", reveal="woe", statistics=ALL)
    both = [bins_of(X[:, :CUT]), bins_of(X[:, CUT:])]
    expected, woe = by_definition(np.concatenate([b for b, _ in both], axis=1), 11, y)
    for result, party in zip(results, parties, strict=True):
        assert result.features == [(0, f"f{i}") for i in range(CUT)] + [(1, f"f{i}") for i in range(FEATURES - CUT)]
        for name in ALL:
            assert np.abs(result.numbers[name][0] - expected[name]).max() < 1e-5, name
        assert np.array_equal(np.isnan(result.woe[0]), np.isnan(woe))
        assert np.nanmax(np.abs(result.woe[0] - woe)) < 2**-4 + 1e-5
        assert len(result.revealed) == 5 and set(result.revealed) == set(party.revealed)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("source", [dealt, made_by_both])
def test_by_rows(source):
    X, y = table()
    results, _ = explored(parts(X, y, "horizontal"), source, reveal="woe", statistics=ALL, floors={"cell_rows": 20})
    edges = np.array([results[0].starts[f"f{i}"] for i in range(FEATURES)])
    # Joint edges are quantiles of all rows.
    assert np.allclose(
        np.diff([np.searchsorted(np.sort(X[:, f]), e) for f, e in enumerate(edges)]), ROWS * 0.095, atol=3
    )
    numbers = np.stack([np.searchsorted(e, x, side="right") - 1 for e, x in zip(edges, X.T, strict=True)], axis=1)
    numbers[np.isnan(X)] = 10
    expected, _ = by_definition(numbers, 11, y)
    halves = [counts(numbers[r], 11, y[r]) for r in (slice(0, ROWS // 2), slice(ROWS // 2, None))]
    shown = np.all([(c == 0) | (c >= 20) for half in halves for c in half], axis=0)
    assert shown.any() and not shown.all()
    for result in results:
        for name in ALL:
            assert np.abs(result.numbers[name][0] - expected[name]).max() < 1e-5, name
        assert np.array_equal(~np.isnan(result.woe[0]), shown)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("rank", ["iv", "auc", "ks"])
def test_only_the_names_of_the_best_are_revealed(partition, rank):
    X, y = table()
    results, parties = explored(parts(X, y, partition), partition=partition, top=3, rank=rank)
    # The AUC does not see the U of the last feature.
    best = (3, 4, 5) if rank == "auc" else (4, 5, 6)
    expected = [(int(f >= CUT), f"f{f % CUT}") if partition == "vertical" else (0, f"f{f}") for f in best]
    for result, party in zip(results, parties, strict=True):
        assert result.features == expected and not result.numbers and result.woe is None
        assert party.revealed[-1] == f"which 3 of 7 features have the largest {rank}"
        assert len(result.revealed) == (2 if partition == "horizontal" else 1)


def test_numbers_are_rounded_to_their_standard_errors():
    X, y = table()
    own = parts(X, y, "vertical")
    coarse = explored(own, partition="vertical", reveal="numbers", statistics=ALL)[0][0]
    for name, fraction in (("iv", 8), ("auc", 7), ("ks", 7)):
        units = coarse.numbers[name] * 2**fraction
        assert np.array_equal(units, np.round(units)) and (units % 2 == 1).any(), name


def test_numbers_go_to_one_party_only():
    X, y = table()
    results, _ = explored(parts(X, y, "vertical"), partition="vertical", reveal="woe", to=0)
    assert results[0].numbers.keys() == {"iv"} and results[0].woe is not None
    assert not results[1].numbers and results[1].woe is None and not results[1].revealed
    with pytest.raises(DataError, match="iv was not revealed"):
        _ = results[1].iv


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_stability_between_periods(partition):
    X, y = table()
    period = (np.arange(ROWS) % 5 == 0).astype(int)
    X[period == 1, 2] += 0.5
    own = parts(X, y, partition, period=period)
    results, _ = explored(own, partition=partition, reveal="numbers", statistics=("psi",))
    found = (
        np.array(list(results[0].by_name("psi").values()))
        if partition == "horizontal"
        else results[0].numbers["psi"][0]
    )
    assert found[2] > 0.15 and np.delete(found, 2).max() < 0.05
    if partition == "vertical":
        both = np.concatenate([bins_of(X[:, :CUT])[0], bins_of(X[:, CUT:])[0]], axis=1)
        assert np.abs(found - divergence(*counts(both, 11, period))[0]).max() < 1e-5


@pytest.mark.usefixtures("exact")
def test_stability_between_parties():
    X, y = table()
    X[: ROWS // 2, 1] += 0.5
    results, _ = explored(parts(X, y, "horizontal"), reveal="numbers", statistics=("psi",))
    found = results[1].by_name("psi")
    assert found["f1"] > 0.15 and max(v for k, v in found.items() if k != "f1") < 0.06
    # No labels are needed, and nothing about them is told.
    assert results[0].bits == {} and results[0].budget is None


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_categories(partition):
    X, y = frame()
    results, _ = explored(parts(X, y, partition), partition=partition, reveal="woe", bins=6, statistics=ALL)
    for result in results:
        numbers = result.numbers
        categorical = [i for i, name in enumerate(result.names) if name.startswith("category")]
        assert (
            np.isnan(numbers["auc"][0, categorical]).all()
            and not np.isnan(np.delete(numbers["auc"][0], categorical)).any()
        )
        assert (numbers["iv"][0, categorical] > 0.1).all()
    if partition == "vertical":
        codes = X["category 0"].cat.codes.to_numpy()
        # The five most frequent categories, and one bin for the others.
        kept = X["category 0"].value_counts().index[:5].tolist()
        assert results[0].starts["category 0"] == kept
        places = np.array([kept.index(c) if c in kept else 5 for c in X["category 0"].cat.categories] + [6])
        found = results[0].numbers["iv"][0, 0]
        assert abs(found - divergence(*counts(places[codes][:, None], 7, y))[0][0]) < 1e-5


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_weights(partition, source):
    X, y = table()
    weights = np.random.default_rng(5).integers(1, 17, ROWS) / 4
    own = parts(X, y, partition, sample_weight=weights)
    results, _ = explored(own, source, partition=partition, reveal="numbers")
    if partition == "vertical":
        both = np.concatenate([bins_of(X[:, :CUT])[0], bins_of(X[:, CUT:])[0]], axis=1)
        expected = divergence(*counts(both, 11, y, weights * 1024))[0]
        assert np.abs(results[0].numbers["iv"][0] - expected).max() < 1e-5
    else:
        plain, _ = explored(parts(X, y, partition), source, reveal="numbers")
        same, _ = explored(parts(X, y, partition, sample_weight=np.full(ROWS, 0.3)), source, reveal="numbers")
        assert np.abs(same[0].numbers["iv"] - plain[0].numbers["iv"]).max() < 1e-5
        assert np.abs(results[0].numbers["iv"] - plain[0].numbers["iv"]).max() > 1e-3


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_several_classes(partition):
    X, y = table()
    y = y + (X[:, 0] > 0.3)
    results, _ = explored(
        parts(X, y, partition), partition=partition, reveal="numbers", classes=3, statistics=("iv", "auc")
    )
    found = results[0].numbers
    assert found["iv"].shape == (3, FEATURES)
    if partition == "vertical":
        both = np.concatenate([bins_of(X[:, :CUT])[0], bins_of(X[:, CUT:])[0]], axis=1)
        for c in range(3):
            assert np.abs(found["iv"][c] - divergence(*counts(both, 11, y == c))[0]).max() < 1e-5
    assert results[0].to_frame().columns.tolist()[2:5] == ["iv_0", "iv_1", "iv_2"]
    # Each of the three numbers of a feature tells bits.
    assert results[0].bits == {"iv": 3 * FEATURES * 14, "auc": 3 * FEATURES * 7}
    assert next(iter(results[0].iv.values())) == pytest.approx(found["iv"][:, 0].sum())


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_labels_that_are_numbers(partition):
    X, _ = table()
    y = np.round(np.nan_to_num(X[:, 1]) + np.random.default_rng(6).normal(size=ROWS), 2)
    results, _ = explored(parts(X, y, partition), partition=partition, reveal="numbers", classes=2, numbers=True)
    above = y >= np.quantile(y, 0.5, method="inverted_cdf")
    found = results[0].numbers["iv"][0]
    assert found[1] > 0.5 and np.delete(found, 1).max() < 0.1
    if partition == "vertical":
        both = np.concatenate([bins_of(X[:, :CUT])[0], bins_of(X[:, CUT:])[0]], axis=1)
        assert np.abs(found - divergence(*counts(both, 11, above))[0]).max() < 1e-5


def test_without_missing_values_there_is_no_bin_for_them():
    X, y = table(missing=0)
    results, _ = explored(parts(X, y, "vertical"), partition="vertical", reveal="woe")
    assert results[0].woe.shape == (1, FEATURES, 10)


def test_cost_by_columns():
    """One byte per row, feature of the other party and bin; the features of the labels' owner cost nothing."""
    X, y = table()
    _, parties = explored(parts(X, y, "vertical"), partition="vertical", top=2)
    total = parties[0].meter.total
    rest = total.sent // 8 - ROWS * CUT * 11, total.received // 8 - ROWS
    assert (total.rounds, rest) == (33, (22013, 22013))


def test_a_bad_table_is_refused():
    X, y = table()
    own = parts(X, y, "vertical")

    def refused(match, error=DataError, rank=0, **changed):
        given = [dict(each) for each in own]
        given[rank].update(changed)
        with pytest.raises(error, match=match):
            explored(given, partition="vertical")

    refused("must have 2 dimensions", X=X[:, 0])
    refused("neither party has labels", y=None, rank=1)
    refused("both parties have labels", y=y)
    refused("the same rows in the same order", X=X[:-1, :CUT])
    refused("label must be 0 or 1", y=y + 1, rank=1)
    refused("weight for each of the 2600 rows", sample_weight=y[:-1], rank=1)
    refused("only at a party with labels", sample_weight=y)
    refused("is infinite", X=np.where(np.isnan(X[:, :CUT]), np.inf, X[:, :CUT]))
    with pytest.raises(DataError, match="at both parties for psi"):
        explored(own, partition="vertical", reveal="numbers", statistics=("psi",))
    with pytest.raises(ConfigError, match="unknown parameter bin: did you mean bins"):
        explored(own, bin=3)
    with pytest.raises(ConfigError, match="must be the party that talks"):
        explore(X, y)


def test_unequal_parameters_are_refused():
    X, y = table()
    own = parts(X, y, "vertical")
    with pytest.raises(ConfigError, match=r"disagree on floors\.cell_rows"):
        run_both(
            lambda party: explore(party, **own[party.rank], partition="vertical", floors={"cell_rows": 10 + party.rank})
        )


@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_between_processes(tmp_path, offline):
    X, y = table(rows=1200, features=3)

    def job(party):
        own = {"X": X[:, :2]} if party.rank == 0 else {"X": X[:, 2:], "y": y}
        ledger = tmp_path / f"{party.rank}.jsonl"
        found = explore(party, **own, partition="vertical", top=2, ledger=ledger, floors={"bits": 0.5})
        return found.names, found.revealed, ledger.read_text()

    first, second = run_local(job, offline=offline)
    assert first == second and first[0] == ["f1", "f0"] and first[1] == ["which 2 of 3 features have the largest iv"]


@pytest.mark.usefixtures("exact")
def test_categories_in_another_order_at_each_party():
    X, y = frame()
    own = parts(X, y, "horizontal")
    expected = explored(own, reveal="numbers")[0][0].iv["category 0"]
    other = own[1]["X"]["category 0"]
    own[1]["X"] = own[1]["X"].assign(**{"category 0": other.cat.reorder_categories(other.cat.categories[::-1])})
    assert explored(own, reveal="numbers")[0][1].iv["category 0"] == pytest.approx(expected, abs=1e-5)
