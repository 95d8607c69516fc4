"""Memory of a long session: no mask of a matrix outlives its training or prediction."""

import pytest

from protocols.offline.dealer import client as dealt
from protocols.offline.dealer import delivery
from protocols.runtime.local import run_session
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from tests.memory import peak
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("parameters", [{}, {"test_size": 0.3, "eval_epochs": 1}, {"edges": "joint"}])
def test_nothing_is_kept_at_the_dealer_or_at_a_party(partition, parameters):
    X, y = table(40, 4, seed=61)
    tables, labels = halves(X, y, 20) if partition == "horizontal" else columns(X, y, 2)

    def job(party):
        own = tables[party.rank]
        model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, partition=partition, **parameters)
        model.fit(party, own, labels[party.rank])
        trained = party.randomness.matrices_kept
        model.predict_margin(party, own, "bins")
        model.predict_margin(party, own, "thresholds")
        return party.matrices, trained, party.randomness.matrices_kept

    for numbered, trained, at_the_end in run_both(job)[0]:
        assert numbered > 6 and trained == at_the_end == (0, 0)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"test_size": 0.3, "eval_epochs": 1}, {"num_class": 3, "objective": "multi:ova"}, {"edges": "joint"}],
)
def test_after_the_last_plan_the_dealer_is_not_needed(parameters, monkeypatch):
    """A training succeeds if the dealer dies after it has dealt everything."""
    X, y = table(40, 4, seed=61)
    tables, labels = halves(X, y, 20)
    asked = []

    def job(party):
        provide, take = party.randomness.provide, party.randomness.take
        left = []

        def planned(plan):
            left.extend(request for requests, times in plan for _ in range(times) for request in requests)
            provide(plan)

        def taken(request):
            asked.append(bool(left) and left.pop(0) == request)
            return take(request)

        monkeypatch.setattr(party.randomness, "provide", planned)
        monkeypatch.setattr(party.randomness, "take", taken)
        model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, **parameters)
        model.fit(party, tables[party.rank], labels[party.rank])
        assert not left

    run_both(job)
    assert all(asked) and len(asked) > 100


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_long_training_takes_no_more_memory_than_a_short_one(monkeypatch):
    """The randomness of 60 trees is many times the window, but takes no more memory than that of 6 trees."""
    monkeypatch.setattr(dealt, "WINDOW", 1 << 22)
    monkeypatch.setattr(delivery, "PORTION", 1 << 18)
    X, y = table(2_000, 6, seed=61)
    tables, labels = halves(X, y, 1_000)

    def peaks(trees):
        def job(party):
            held = []

            def observe(*_):
                held.append(party.randomness._window.held)

            model = SecureXGBClassifier(n_estimators=trees, max_depth=3, max_bin=16)
            model.fit(party, tables[party.rank], labels[party.rank], observer=observe)
            return max(held), party.randomness.dealt, peak()

        outcome = run_session(job)
        dealer = outcome["dealer"]["memory_peak_bytes"] / 1024
        return [outcome[name]["result"] for name in ("party_a", "party_b")], dealer

    short, dealer = peaks(6)
    long, dealer_of_long = peaks(60)
    for (_, before, memory), (held, all_dealt, memory_of_long) in zip(short, long, strict=True):
        assert held <= 1 << 22 and all_dealt > 9 * before > 9 << 23
        assert memory_of_long < 1.1 * memory
    assert dealer_of_long < 1.1 * dealer
