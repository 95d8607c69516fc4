"""Monitored statistics against their definitions in the clear."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError
from mpc.shares import AShare, BShare
from protocols.testing.two_parties import dealt, made_by_both, opened, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.monitor import agreement
from secure_tree.monitor.calibration import curves
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.monitor import drift, fairness, monitor
from secure_tree.monitor.profile import Profile, own_counts
from secure_tree.monitor.scores import COARSE, FINE, counts, score
from tests.secure_tree.monitor.rows import (
    EVERY,
    ROWS,
    arguments,
    bins_of,
    expected,
    margins_of,
    monitored,
    profiles_of,
    psi,
    table,
    trained,
)

# Largest error of a number before it is rounded.
ERRORS = dict.fromkeys(EVERY, 1e-4) | {"slope": 1e-3}
LATER = table(seed=2, shift=0.2)


@pytest.fixture
def finest(monkeypatch):
    """Reveal numbers to 2^-19, to see their errors."""
    monkeypatch.setattr(agreement, "plain_fraction", lambda *_: 19)


def check(result, margin, y, group, own, profiles, before, dealer):
    truth = expected(margin, y, group)
    # Pairs of rows between the same two cuts count one half.
    bins = bins_of(margin, FINE)
    per_bin = np.array([np.bincount(bins[y == of], minlength=FINE) / (y == of).sum() for of in (0, 1)])
    at_cuts = {"auc": roc_auc_score(y, bins), "ks": -np.diff(per_bin.cumsum(axis=1), axis=0).min()}
    between = {"auc": per_bin.prod(axis=0).sum() / 2, "ks": per_bin.max()}
    for name, exact in at_cuts.items():
        assert abs(result[name] - exact) < ERRORS[name]
        assert abs(result[name] - truth[name]) <= between[name] + ERRORS[name]
    for name in ("ece", "slope", "parity", "odds", "calibration"):
        # Without a dealer, probabilities have a random error of up to 0.0125, and none on average.
        assert abs(result[name] - truth[name]) < max(ERRORS[name], 0 if dealer else 1e-3), name
    assert np.abs(np.array([*result["loss"].values()]) - truth["loss"]).max() < ERRORS["loss"]
    now, then = (np.bincount(bins_of(m), minlength=COARSE) for m in (margin, before))
    assert abs(result["scores"] - psi(now, then)) < ERRORS["scores"]
    by_rows = result.groups == ("a", "b", "c") and len(own[0]["X"]) != len(y)
    pairs = [(profile.features, profile.count(part["X"])) for profile, part in zip(profiles, own, strict=True)]
    then, now = (
        [a + b for a, b in zip(*e, strict=True)] if by_rows else [*e[0], *e[1]] for e in zip(*pairs, strict=True)
    )
    truth = [psi(a.astype(float), b.astype(float)) for a, b in zip(now, then, strict=True)]
    assert np.abs(np.array([*result["features"].values()]) - truth).max() < ERRORS["features"]


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize(("partition", "holder"), [("horizontal", 0), ("vertical", 0), ("vertical", 1)])
def test_all_statistics(finest, partition, holder, source):
    """Labels and groups are of one party, or of different ones."""
    X, y, group = table()
    training = arguments(partition, X, y, group, holder)
    own = arguments(partition, *LATER, holder)
    profiles = profiles_of(partition, training, source, holder)
    results, parties = monitored(partition, own, profiles, source, holder, statistics=EVERY)
    before, margin = (margins_of(partition, each, holder) for each in (training, own))
    for result in results:
        check(result, margin, *LATER[1:], own, profiles, before, source is dealt) if result.groups else None
        assert result.rows == ((ROWS, ROWS) if partition == "vertical" else (1100, 900))
    assert parties[0].revealed[-14:] == parties[1].revealed[-14:] and len(results[0].revealed) == 14


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_by_thresholds_and_another_cut(finest, partition):
    own = arguments(partition, *LATER)
    results, _ = monitored(partition, own, method="thresholds", cut=0.3)
    truth = expected(margins_of(partition, own), *LATER[1:], cut=0.3)
    for name in ("parity", "odds", "calibration"):
        assert abs(results[1][name] - truth[name]) < 1e-2 if name == "calibration" else 2e-3


def test_numbers_are_rounded_to_their_error():
    own = arguments("vertical", *LATER)
    results, _ = monitored("vertical", own)
    truth = expected(margins_of("vertical", own), *LATER[1:])
    assert results[0].resolution == 2**-6
    for name in ("parity", "odds", "calibration"):
        assert results[0][name] * 64 % 1 == 0 and abs(results[0][name] - truth[name]) < 2**-7 + 1e-4


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_alarms(partition):
    """Each statistic beyond its alarm is one bit; thresholds on both sides of every value."""
    training, own = (arguments(partition, *each) for each in (table(), LATER))
    profiles = profiles_of(partition, training)
    asked = tuple(name for name in EVERY if name != "loss")
    margin = margins_of(partition, own)
    truth = expected(margin, *LATER[1:])
    strict = dict(psi=1e-4, auc_drop=1e-3, ks_drop=1e-3, ece=1e-3, slope=1e-3, parity=0.99, odds=1e-3, calibration=1e-3)
    results, _ = monitored(partition, own, profiles, statistics=asked, reveal="alarms", alarms=strict)
    before = expected(margins_of(partition, training), *table()[1:])
    rising = {name for name in ("auc", "ks") if truth[name] > before[name]}
    assert set(asked) - rising - {"auc", "ks"} <= set(results[0].alarms)
    assert results[0].numbers["features"].all() and not set(results[0].alarms) & rising
    loose = dict(psi=8, auc_drop=0.5, ks_drop=0.9, ece=0.9, slope=0.99, parity=0.01, odds=0.99, calibration=0.9)
    results, _ = monitored(partition, own, profiles, statistics=asked, reveal="alarms", alarms=loose)
    assert results[1].alarms == [] and not any(np.isnan(v).any() for v in results[1].numbers.values())


def test_the_parity_alarm_is_that_of_the_ratio():
    own = arguments("vertical", *LATER)
    p, groups = 1 / (1 + np.exp(-margins_of("vertical", own))), LATER[2]
    rates = [(p >= 0.5)[groups == g].mean() for g in "abc"]
    ratio = min(rates) / max(rates)
    for least, alarm in ((ratio + 1e-3, 1), (ratio - 1e-3, 0)):
        results, _ = monitored("vertical", own, statistics=("parity",), reveal="alarms", alarms={"parity": least})
        assert results[0]["parity"] == alarm


def test_scored_rows_are_monitored_without_predicting_again(finest):
    own = arguments("vertical", *LATER)
    models = trained("vertical")

    def job(party):
        scored = score(party, models[party.rank], own[party.rank]["X"])
        before = party.stages["predict"].rounds
        found = fairness(party, models[party.rank], scored, own[party.rank]["y"], group=own[party.rank]["group"])
        assert party.stages["predict"].rounds == before
        return found

    results, _ = run_both(job)
    assert results[0].numbers == monitored("vertical", own)[0][0].numbers


@pytest.mark.parametrize("n", [1, 125, 126, 127, 400])
def test_counts(n):
    bits = np.random.default_rng(n).integers(0, 2, (2, n, 3)).astype(np.uint8)
    results, _ = run_both(lambda party: party.run(counts(party, BShare(bits[party.rank], party.rank))))
    assert ((results[0].words + results[1].words) == (bits[0] ^ bits[1]).sum(axis=0)).all()


def test_margins_at_the_ends_and_one_class_of_probabilities(finest):
    """Margins of the same value in all rows: no division by 0, and no false alarm."""
    X, y, group = LATER
    own = arguments("vertical", np.full_like(X, 50.0), y, group)
    profiles = profiles_of("vertical", own)
    results, _ = monitored("vertical", own, profiles, statistics=EVERY)
    assert all(abs(results[0][name]) < 5e-5 for name in ("parity", "odds", "scores", "slope"))
    assert abs(results[0]["auc"] - 0.5) < 1e-4 and results[0]["ks"] == 0


def test_no_rows_of_a_group_at_a_party_and_missing_values(finest):
    X, y, group = (each.copy() for each in LATER)
    group = group.astype(object)
    group[:300] = None
    own = arguments("horizontal", X, y, group)
    own[1]["group"] = None
    results, _ = monitored("horizontal", own, floors={"group_rows": 10})
    margin = margins_of("horizontal", own)
    there = slice(300, 1100)
    truth = expected(margin[there], y[there], group[there])
    for name in ("parity", "odds", "calibration"):
        assert abs(results[0][name] - truth[name]) < 1e-4


@pytest.mark.parametrize("key", [None, "key"])
def test_a_profile_is_kept(tmp_path, key, finest):
    from mpc.host.encryption import FileKey

    key = key and FileKey(bytes(range(32)), "the test")
    training, own = (arguments("vertical", *each) for each in (table(), LATER))
    profiles = profiles_of("vertical", training)
    for p, profile in enumerate(profiles):
        profile.save(tmp_path / f"{p}.npz", key)
    again = [Profile.load(tmp_path / f"{p}.npz", key) for p in (0, 1)]
    models = trained("vertical")
    both = [
        run_both(lambda party, some=some: drift(party, models[party.rank], own[party.rank]["X"], some[party.rank]))[0][
            0
        ]
        for some in (profiles, again)
    ]
    assert both[0]["scores"] == both[1]["scores"] and both[0]["features"] == both[1]["features"]
    (tmp_path / "0.npz").write_bytes(b"PK" + bytes(50))
    with pytest.raises(DataError, match="not a Sharewood profile"):
        Profile.load(tmp_path / "0.npz")


def test_a_profile_by_rows_needs_rows():
    with pytest.raises(DataError, match="at least 500 rows of each party"):
        profiles_of("horizontal", arguments("horizontal", *table(rows=1000)))


def test_curves_of_more_rows_than_pairs_fit_a_word():
    rng = np.random.default_rng(3)
    ones = rng.integers(0, 20_000, 96) + np.arange(96) * 100
    every = ones + rng.integers(0, 40_000, 96) + np.arange(96)[::-1] * 100
    n = int(every.sum())
    assert n >= 1 << 21

    def job(party):
        counted = AShare(np.stack([ones, every]).astype(np.uint64) * np.uint64(party.rank == 0), party.rank)
        return party.run(curves(party, MonitorConfig.of(statistics=("auc", "ks")), counted, n, None))

    (first, second), _ = run_both(job)
    auc, ks = (opened([a.value, b.value])[0] / 2**20 for a, b in zip(first, second, strict=True))
    zeros = every - ones
    wins = (ones * (np.cumsum(zeros) - zeros / 2)).sum() / ones.sum() / zeros.sum()
    assert abs(auc - wins) < 5e-5
    assert abs(ks - np.abs(np.cumsum(ones) / ones.sum() - np.cumsum(zeros) / zeros.sum()).max()) < 5e-5


def test_own_counts_have_missing_values_last():
    found = own_counts(np.array([[np.nan], [-5.0], [0.5], [9.0]], np.float32), np.arange(10.0, dtype=np.float32)[None])
    assert found.tolist() == [[2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]] and FINE % COARSE == 0


def test_bad_input():
    own = arguments("vertical", *LATER)

    def refused(match, error=DataError, parts=own, profiles=None, **given):
        with pytest.raises(error, match=match):
            monitored("vertical", parts, profiles, **given)

    changed = lambda p, **new: [own[r] | (new if r == p else {}) for r in (0, 1)]  # noqa: E731
    refused("group must be given", parts=changed(1, group=None))
    refused("only one party must have the groups", parts=changed(0, group=LATER[2]))
    refused("at least two values", parts=changed(1, group=["a"] * ROWS))
    refused("at most 64 values", parts=changed(1, group=np.arange(ROWS)))
    refused("a value for each of the 2000 rows", parts=changed(1, group=["a"]))
    refused("y must be given at one party", parts=changed(0, y=None))
    refused("both parties have labels", parts=changed(1, y=LATER[1]))
    refused("label must be 0 or 1", parts=changed(0, y=LATER[1] + 1))
    refused("profile must be given for drift", statistics=("scores",))
    refused("profile must be given for alarms", ConfigError, statistics=("auc",), reveal="alarms")
    refused("at least 5000 rows", floors={"rows": 5000})
    refused("statistics must be distinct", ConfigError, statistics=("auc", "auc"))
    refused("span must be two log-odds", ConfigError, span=(2.0, 1.0))
    refused("must not have loss with alarms", ConfigError, statistics=("loss",), reveal="alarms")
    profiles = profiles_of("vertical", arguments("vertical", *table()))
    refused("that of another model", profiles=profiles[::-1], statistics=("scores",))
    refused(
        "span must be that of the profile", ConfigError, profiles=profiles, statistics=("scores",), span=(-4.0, 4.0)
    )
    refused("different profiles", profiles=[profiles[0], profiles_of("vertical", own)[1]], statistics=("scores",))


def test_parties_must_agree():
    own, models = arguments("vertical", *LATER), trained("vertical")

    def job(party):
        more = {"cut": 0.5 + 0.1 * party.rank}
        return monitor(party, models[party.rank], **own[party.rank], **more)

    with pytest.raises(ConfigError, match="disagree on cut"):
        run_both(job)


@pytest.mark.parametrize(
    "model", [SecureXGBRegressor(), SecureXGBClassifier(objective="multi:ova", num_class=3), SecureXGBClassifier()]
)
def test_other_models_are_refused(model):
    half = trained("vertical")[0].model
    if model.config.objective != "binary:logistic":
        from dataclasses import replace

        model.model = replace(half, config=model.config)
    with pytest.raises((ConfigError, DataError), match=r"only models of two classes|not fitted"):
        run_both(lambda party: monitor(party, model, np.zeros((3, 2))))
