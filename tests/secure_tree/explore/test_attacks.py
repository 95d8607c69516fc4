"""Planted attacks on what an exploration reveals: refused by a floor, or measured.

The attacks that remain, with what they get, are those of docs/explore.md.
"""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError, PeerFailure
from mpc.host.ledger import Ledger
from protocols.testing.two_parties import run_both
from secure_tree.agreement.releases import plain
from secure_tree.explore import statistics
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.explore import explore
from secure_tree.explore.precision import fraction
from tests.secure_tree.explore.tables import CUT, ROWS, bins_of, counts, divergence, explored, parts, table

# A release that is refused is refused at both parties: the one that refuses says why.
REFUSED = DataError, PeerFailure


def refused(own, match, **parameters):
    """Check that neither party learns anything."""
    learned = []

    def job(party):
        try:
            explore(party, **own[party.rank], **parameters)
        except REFUSED as error:
            learned.append((party.rank, str(error), party.revealed))
            raise

    with pytest.raises(REFUSED, match=match):
        run_both(job)
    assert sorted(rank for rank, _, _ in learned) == [0, 1] and not any(revealed for *_, revealed in learned)
    return dict(sorted((rank, text) for rank, text, _ in learned))


def test_1_a_cell_of_few_rows_is_merged_or_hidden():
    X, y = table()
    # By columns: a category of four rows gets no bin of its own.
    rare = pd.Series(np.where(np.arange(ROWS) < 4, "rare", "usual")).astype("category")
    numbers, _ = bins_of(pd.DataFrame({"c": rare}))
    assert not numbers.any()
    # A weight of evidence of three positives among many rows is hidden, and those of enough are shown.
    few = np.where(
        np.isin(np.arange(ROWS), np.flatnonzero(y == 0)[:90]) | np.isin(np.arange(ROWS), np.flatnonzero(y)[:3]), 0.0, 1
    )
    own = [{"X": np.stack([few, X[:, 6]], axis=1)}, {"X": np.zeros((ROWS, 0)), "y": y}]
    result = explored(own, partition="vertical", reveal="woe", bins=4)[0][0]
    assert np.isnan(result.woe[0, 0, 0]) and not np.isnan(result.woe[0, 0, 1])


def test_2_a_cell_of_the_other_party_is_hidden_though_the_pooled_one_is_large():
    """Pooled is not anonymous: a party subtracts its own rows."""
    X, y = table(missing=0)
    X[:, 0] = np.arange(ROWS) % 4 + 4.0 * (np.arange(ROWS) < ROWS // 2 + 5)
    result = explored(parts(X, y, "horizontal"), reveal="woe", bins=8)[0][0]
    mine, theirs = X[: ROWS // 2, 0], X[ROWS // 2 :, 0]
    shown = ~np.isnan(result.woe[0, 0])
    for b, start in enumerate(sorted({0.0, *result.starts["f0"][1:]})):
        few = [
            0 < c < 10
            for rows, labels in ((mine, y[: ROWS // 2]), (theirs, y[ROWS // 2 :]))
            for c in np.bincount(labels[rows == start], minlength=2)
        ]
        assert shown[b] != any(few)
    assert not shown.all()


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_3_few_rows_are_refused(partition):
    X, y = table(rows=900)
    texts = refused(parts(X, y, partition), "at least 1000 rows", partition=partition)
    assert all("floors.rows" in text for text in texts.values())


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_4_few_positives_are_refused_with_one_bit(partition):
    X, y = table()
    y = y * (np.cumsum(y) <= 99)
    texts = refused(parts(X, y, partition), r"floors\.class_rows", partition=partition)
    # Neither message has a count.
    assert all("fewer than 100 rows" in text and "99" not in text for text in texts.values())


def test_5_two_exact_statistics_tell_a_label(monkeypatch):
    """Columns of two bins that differ in one row: each value is one equation for the positives in a bin."""
    X, y = table(missing=0)
    none, positives = np.zeros((ROWS, 0)), y.sum()
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)

    def solved(value, rows):
        """Return the positives among `rows`, of which there are more than elsewhere, that fit the value."""
        p = np.arange(positives * rows // ROWS + 1, positives)
        p, q = (np.stack([c, total - c], axis=1) for c, total in ((p, positives), (rows - p, ROWS - positives)))
        return p[np.abs(divergence(p, q)[0] - value).argmin(), 0]

    for row in (*np.flatnonzero(y == 1)[:2], *np.flatnonzero(y == 0)[:2]):
        first = (X[:, 5] > 0.4).astype(float)
        second = np.where(np.arange(ROWS) == row, 1 - first, first)
        own = [{"X": np.stack([first, second], axis=1)}, {"X": none, "y": y}]
        values = explored(own, partition="vertical", reveal="numbers")[0][0].numbers["iv"][0]
        one, other = (solved(value, int(c.sum())) for value, c in zip(values, (first, second), strict=True))
        assert abs(other - one) == y[row]


@pytest.mark.parametrize(("rows", "share", "most"), [(2_600, 0.2, 0.25), (100_000, 0.05, 0.4)])
def test_5_rounded_statistics_tell_a_label_only_at_a_step(rows, share, most):
    """What remains: a moved positive changes the last digit where the value happens to be near a step."""
    rng = np.random.default_rng(1)
    y, told, tried = rng.uniform(size=rows) < share, 0, 500
    config = ExploreConfig.of(partition="vertical")
    unit = 2.0 ** -fraction("iv", config, (rows, rows), 10)
    for row in rng.choice(np.flatnonzero(y), tried):
        column = rng.integers(0, 10, rows)
        p, q = (np.bincount(column[y == v], minlength=10) for v in (True, False))
        here, there = column[row], (column[row] + 1) % 10
        other = p + (np.arange(10) == there) - (np.arange(10) == here)
        first, second = (round(divergence(c[None], q[None])[0][0] / unit) for c in (p, other))
        told += first != second
    assert told / tried < most


def test_6_many_statistics_are_refused_by_the_budget(tmp_path):
    X, y = table(rows=4000, features=40)
    own = [{"X": X, "ledger": tmp_path / "a"}, {"X": np.zeros((4000, 0)), "y": y, "ledger": tmp_path / "b"}]
    asked = {"partition": "vertical", "top": 40}
    texts = refused(own, "floors.bits", reveal="numbers", **asked)
    assert "tells up to 560 bits" in texts[1] and "of at most" in texts[1]
    # The other party learns that the budget would be exceeded, but not how much of it there is.
    assert texts[0].endswith("its budget of released bits would be exceeded (floors.bits)")
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()
    # Small releases add up in the ledger.
    spent = []
    with pytest.raises(REFUSED, match=r"floors\.bits"):
        for i in range(10):
            small = [own[0] | {"X": X[:, 4 * i : 4 * i + 4]}, own[1]]
            result = run_both(
                lambda party, small=small: explore(party, **small[party.rank], partition="vertical", reveal="numbers")
            )[0][1]
            spent.append(result.spent + sum(result.bits.values()))
            assert spent[-1] <= result.budget
    assert spent == [56 * (i + 1) for i in range(len(spent))] and 1 < len(spent) < 10


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_7_almost_the_same_rows_are_refused(tmp_path, partition, ids):
    X, y = table()

    def own(X, y, rows):
        more = {"ids": np.arange(ROWS)[rows]} if ids else {}
        both = parts(X[rows], y[rows], partition, **more)
        return [each | {"ledger": tmp_path / str(p)} for p, each in enumerate(both)]

    asked = {"partition": partition, "top": 2}
    run_both(lambda party: explore(party, **own(X, y, slice(None))[party.rank], **asked))
    assert "floors.cell_rows" in refused(own(X, y, slice(1, None)), "fewer than 10 rows", **asked)[0]
    assert "floors.cell_rows" in refused(own(X, y, slice(9, None)), "fewer than 10 rows", **asked)[0]
    # The same rows, and others, are not refused.
    run_both(lambda party: explore(party, **own(X, y, slice(None))[party.rank], **asked))
    fewer = slice(20, ROWS - 20)
    run_both(lambda party: explore(party, **own(X, y, fewer)[party.rank], **asked))


def test_8_quantiles_are_of_many_rows_and_never_the_extremes():
    X, y = table(missing=0)
    results, _ = explored(parts(X, y, "horizontal"), top=3)
    for f in range(X.shape[1]):
        edges = np.array(results[0].starts[f"f{f}"])
        assert edges[0] == -np.finfo(np.float32).max and len(edges) == 10
        below = np.searchsorted(np.sort(X[:, f]), edges[1:])
        assert below.min() >= ROWS // 10 - 1 and below.max() <= ROWS - ROWS // 10 + 1


def test_9_two_bins_tell_the_positives_in_a_bin_to_about_its_precision():
    """What remains, of an indicator: one equation for one unknown, to the last digit that is shown."""
    rows, positives, inside = 100_000, 5000, 20_000
    config = ExploreConfig.of(partition="vertical")
    unit = 2.0 ** -fraction("iv", config, (rows, rows), 2)

    def value(p):
        cells = np.array([[p, positives - p]]), np.array([[inside - p, rows - inside - positives + p]])
        return round(divergence(*cells)[0][0] / unit)

    for truth in (1000, 1200, 1500):
        fits = [p for p in range(1, 5000) if value(p) == value(truth)]
        # Some counts around the truth, and around its mirror image.
        assert truth in fits and 3 <= len(fits) <= 120


def test_10_a_crafted_column_is_merged_by_the_program_only():
    """What remains: a party that changes its program is not stopped from entering one row's indicator."""
    X, y = table()
    row = int(np.flatnonzero(y)[0])
    own = [{"X": (np.arange(ROWS) == row).astype(float).reshape(-1, 1)}, {"X": X[:, CUT:], "y": y}]
    honest = explored(own, partition="vertical", reveal="numbers")[0][0]
    assert honest.numbers["iv"][0, 0] == 0
    numbers = (np.arange(ROWS) == row).astype(int).reshape(-1, 1)
    unit = 2.0 ** -fraction("iv", ExploreConfig.of(partition="vertical"), (ROWS, ROWS), 2)
    told = [round(divergence(*counts(numbers, 2, labels))[0][0] / unit) for labels in (y, y * (numbers[:, 0] == 0))]
    # The label of the row, for one number of the budget.
    assert told == [1, 0]


def test_the_ledger_is_written_before_anything_is_opened(tmp_path, monkeypatch):
    """A run that ends after the agreement has spent its budget."""
    X, y = table()
    own = [each | {"ledger": tmp_path / str(p)} for p, each in enumerate(parts(X, y, "vertical"))]
    monkeypatch.setattr("secure_tree.explore.explore.own_sums", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_both(lambda party: explore(party, **own[party.rank], partition="vertical", top=2))
    lines = [(tmp_path / str(p)).read_text() for p in (0, 1)]
    assert lines[0] == lines[1] and '"bits":5' in lines[0]


def test_a_line_has_what_was_released_and_nothing_of_the_rows(tmp_path):
    X, y = table()
    own = [each | {"ledger": tmp_path / str(p)} for p, each in enumerate(parts(X, y, "vertical"))]
    results, _ = run_both(lambda party: explore(party, **own[party.rank], partition="vertical", top=2, label="default"))
    (line,) = pd.read_json(tmp_path / "0", lines=True).to_dict("records")
    assert line.keys() == {
        "number",
        "previous",
        "kind",
        "run",
        "time",
        "label",
        "rho",
        "what",
        "bits",
        "options",
        "schema",
        "rows",
    }
    assert line["label"] == "default" and line["what"] == {"names": 5} and line["rows"] == [ROWS, ROWS]
    assert line["options"].keys() == plain(ExploreConfig.of()).keys() and results[0].ledger == 0


def test_a_ledger_at_one_party_only_is_refused(tmp_path):
    X, y = table()
    own = parts(X, y, "vertical")
    own[0]["ledger"] = tmp_path / "ledger"
    with pytest.raises(Exception, match="both parties must keep a ledger, or neither"):
        run_both(lambda party: explore(party, **own[party.rank], partition="vertical"))


@pytest.mark.parametrize("entry", [{"bits": -1000, "rho": 0.0}, {"bits": 5, "rho": -1.0}, {"bits": 5}, {"bits": "5"}])
def test_a_line_of_the_other_party_cannot_give_budget_back(tmp_path, entry):
    """The last line may come from the other party, which says that a crash has kept this one from writing it."""
    X, y = table()
    own = [each | {"ledger": tmp_path / str(p)} for p, each in enumerate(parts(X, y, "vertical"))]
    forged = Ledger(tmp_path / "0")
    forged.append(forged.next({"kind": "explore", "label": "label", **entry}))
    with pytest.raises(DataError, match="a line of the ledger is no release of an exploration"):
        run_both(lambda party: explore(party, **own[party.rank], partition="vertical", top=2))
