"""Planted attacks on what a monitoring reveals: refused by a floor or the ledger, left out in secret, or measured.

The attacks that remain, with what they get, are those of docs/monitoring.md.
"""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.ledger import Ledger
from protocols.testing.two_parties import run_both
from secure_tree.agreement import releases
from secure_tree.monitor.monitor import monitor
from tests.secure_tree.monitor.rows import (
    ROWS,
    arguments,
    expected,
    margins_of,
    monitored,
    profiles_of,
    table,
    trained,
)

LATER = table(seed=2, shift=0.2)
IDS = np.array([f"id {i}" for i in range(3 * ROWS)])
DAY = 86_400


def refused(partition, own, match, **parameters):
    """Check that neither party learns anything, and return what each says."""
    models, learned = trained(partition), []
    parameters = {"floors": {"bits": 1.0, **parameters.pop("floors", {})}} | parameters

    def job(party):
        try:
            monitor(party, models[party.rank], **own[party.rank], **parameters)
        except (DataError, PeerFailure) as error:
            learned.append((party.rank, str(error), party.revealed))
            raise

    with pytest.raises((DataError, PeerFailure), match=match):
        run_both(job)
    assert sorted(rank for rank, *_ in learned) == [0, 1] and not any(revealed for *_, revealed in learned)
    return dict(sorted((rank, text) for rank, text, _ in learned))


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the time."""
    return lambda seconds: monkeypatch.setattr(releases.time, "time", lambda: seconds)


def kept(own, tmp_path, ids, partition="vertical"):
    """Let both parties keep a ledger."""
    parts = [ids, ids] if partition == "vertical" else [ids[: len(own[0]["X"])], ids[len(own[0]["X"]) :]]
    return [each | {"ledger": tmp_path / f"{p}.jsonl", "ids": parts[p]} for p, each in enumerate(own)]


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_1_a_group_of_one_row_is_left_out_in_secret(partition):
    """The difference is that of the other groups, and nothing says that one was left out."""
    X, y, group = (each.copy() for each in LATER)
    group[0] = "d"
    own = arguments(partition, X, y, group)
    results, parties = monitored(partition, own)
    plain = group != "d"
    truth = expected(margins_of(partition, own)[plain], y[plain], group[plain])
    for name in ("parity", "odds", "calibration"):
        assert abs(results[0][name] - truth[name]) < 2**-7 + 1e-3
    assert len(parties[0].revealed) == len(results[0].revealed) == 6


def test_2_by_rows_a_group_that_one_party_has_few_rows_of_is_left_out():
    """Pooled is not anonymous: a party subtracts its own rows."""
    X, y, group = (each.copy() for each in LATER)
    group[1100:][group[1100:] == "c"] = "b"
    group[1100:1110] = "c"
    own = arguments("horizontal", X, y, group)
    results, _ = monitored("horizontal", own, statistics=("parity", "loss"))
    truth = expected(margins_of("horizontal", own), y, group, names=("a", "b"))
    assert abs(results[0]["parity"] - truth["parity"]) < 2**-7 + 1e-3
    assert np.isnan(results[1]["loss"]["c"]) and results[0]["loss"]["a"] > 0


def test_3_with_one_group_left_there_is_no_difference():
    X, y, _ = LATER
    own = arguments("vertical", X, y, np.where(np.arange(ROWS) < 49, "few", "others"))
    results, _ = monitored("vertical", own)
    assert all(np.isnan(results[0][name]) for name in ("parity", "odds", "calibration"))
    results, _ = monitored("vertical", own, statistics=("parity",), reveal="alarms")
    assert np.isnan(results[0]["parity"]) and results[0].alarms == []


def test_4_a_protected_attribute_that_equals_the_label():
    """Rates among rows of a label have one group: no equalised odds. What remains: parity is that model's quality."""
    X, y, _ = LATER
    own = arguments("vertical", X, y, y)
    results, _ = monitored("vertical", own)
    assert np.isnan(results[0]["odds"])
    selected = margins_of("vertical", own) >= 0
    assert abs(results[0]["parity"] - (selected[y == 1].mean() - selected[y == 0].mean())) < 2**-7 + 1e-3


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_5_one_class_or_few_positives_are_refused_with_one_bit(partition):
    X, y, group = LATER
    for few in (np.zeros(ROWS), y * (np.cumsum(y) <= 49)):
        own = arguments(partition, X, few, group)
        texts = refused(partition, own, r"floors\.class_rows")
        assert all("fewer than 50 rows" in text and "49" not in text for text in texts.values())


def test_6_few_rows_are_refused():
    own = arguments("vertical", *table(rows=499, seed=2))
    assert all("at least 500 rows" in text for text in refused("vertical", own, "at least 500").values())


def test_7_rows_are_monitored_once_a_period(tmp_path, at):
    at(DAY)
    own = kept(arguments("vertical", *LATER), tmp_path, IDS[:ROWS])
    results, _ = monitored("vertical", own)
    assert results[0].ledger == 0
    lines = [(tmp_path / f"{p}.jsonl").read_text() for p in (0, 1)]
    line = json.loads(lines[0])
    assert lines[0] == lines[1] and line["kind"] == "monitor" and line["bits"] == sum(results[0].bits.values())
    at(2 * DAY - 2)
    # Any row again, in whatever company.
    other = kept(arguments("vertical", *table(seed=3)), tmp_path, IDS[ROWS - 1 : 2 * ROWS - 1])
    for again in (own, other):
        assert "less than 1 days ago" in refused("vertical", again, "less than 1 days")[0]
    # Other rows at once; and the same rows a day later.
    monitored("vertical", kept(arguments("vertical", *table(seed=3)), tmp_path, IDS[ROWS : 2 * ROWS]))
    at(2 * DAY)
    assert monitored("vertical", own)[0][0].ledger == 2


def test_8_two_periods_that_differ_by_one_row_are_refused(tmp_path, at):
    at(DAY)
    own = kept(arguments("vertical", *LATER), tmp_path, IDS[:ROWS])
    monitored("vertical", own)
    at(9 * DAY)
    X, y, group = LATER
    for rows in (slice(1, None), slice(9, None)):
        fewer = kept(arguments("vertical", X[rows], y[rows], group[rows]), tmp_path, IDS[:ROWS][rows])
        refused("vertical", fewer, r"floors\.cell_rows")
    replaced = IDS[:ROWS].copy()
    replaced[0] = "new"
    refused("vertical", kept(own, tmp_path, replaced), r"floors\.cell_rows")
    rows = slice(10, None)
    monitored("vertical", kept(arguments("vertical", X[rows], y[rows], group[rows]), tmp_path, IDS[:ROWS][rows]))


def test_9_the_budget_is_that_of_the_rows(tmp_path, at):
    """Numbers about the same labels add up; other rows have a budget of their own."""
    own = kept(arguments("vertical", *LATER), tmp_path, IDS[:ROWS])
    floors = {"floors": {"bits": 0.03}}
    at(DAY)
    monitored("vertical", own, **floors)
    at(2 * DAY)
    monitored("vertical", own, **floors)
    at(3 * DAY)
    spent = sum(json.loads(line)["bits"] for line in (tmp_path / "0.jsonl").read_text().splitlines())
    assert spent == 2 * 21
    refused("vertical", own, "budget of released bits", floors={"bits": 0.03})
    monitored("vertical", kept(arguments("vertical", *table(seed=3)), tmp_path, IDS[ROWS : 2 * ROWS]), **floors)


def test_10_a_line_is_on_disk_before_anything_is_opened(tmp_path, monkeypatch):
    own = kept(arguments("vertical", *LATER), tmp_path, IDS[:ROWS])
    import secure_tree.monitor.monitor as module

    def killed(*_):
        raise DataError("killed")

    monkeypatch.setattr(module, "computed", killed)
    with pytest.raises(DataError, match="killed"):
        monitored("vertical", own)
    monkeypatch.undo()
    assert [len(Ledger(tmp_path / f"{p}.jsonl").lines) for p in (0, 1)] == [1, 1]
    refused("vertical", own, "less than 1 days")


def test_11_a_ledger_needs_ids_and_both_parties(tmp_path):
    own = arguments("vertical", *LATER)
    with pytest.raises(ConfigError, match="ids must be given with a ledger"):
        monitored("vertical", [each | {"ledger": tmp_path / "x"} for each in own])
    with pytest.raises(ConfigError, match="both parties must keep a ledger"):
        monitored("vertical", [own[0], kept(own, tmp_path, IDS[:ROWS])[1]])


def test_12_a_rounded_difference_changes_with_one_row_only_at_a_step():
    """What remains: a row whose group changes moves a rate, which shows where a step of the digits is near."""
    margin, y, group = np.random.default_rng(1).normal(size=100_000), np.ones(100_000), np.arange(100_000) % 3
    unit = 2.0**-9

    def number(of):
        rates = [(margin >= 0)[of == g].mean() for g in range(3)]
        return np.round((max(rates) - min(rates)) / unit)

    moved = []
    for row in range(300):
        other = group.copy()
        other[row] = (other[row] + 1) % 3
        moved.append(number(other) != number(group))
    assert y.all() and np.mean(moved) < 0.05


def test_13_shares_of_a_profile_do_not_tell_its_counts():
    training = arguments("vertical", *table())
    profiles = profiles_of("vertical", training)
    both = profiles[0].scores.words + profiles[1].scores.words
    assert both[1].sum() == ROWS and all((p.scores.words > 2**20).mean() > 0.9 for p in profiles)
