"""The four systems under the same attacks, which find leaks and planted values, but nothing in Sharewood."""

import json

import numpy as np
import pytest

from benchmarks import attacks
from benchmarks.attack_secureboost import Notes
from benchmarks.four_systems import DOCS
from benchmarks.four_systems_page import advantage, page
from benchmarks.four_systems_runs import Table, by_columns, by_rows

STUDY = json.loads((DOCS / "figures" / "four_systems.json").read_text())


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] + rng.normal(size=160)
    boosting = {"n_estimators": 4, "max_depth": 3, "learning_rate": 0.3, "max_bin": 8, "min_child_weight": 1.0}
    return Table(X[:120], y[:120], X[120:], y[120:], boosting)


def by_name(runs):
    return {run.system: run for run in runs}


def test_by_columns_the_guest_of_secureboost_finds_bins_and_a_party_of_sharewood_nothing(small):
    runs = by_columns(small)
    guessing, secret, boost = runs[0].found, by_name(runs)["Sharewood"], by_name(runs)["SecureBoost"]
    assert guessing["values"] < 0.2 and boost.found["values"] > 0.4
    # The words are uniform: standard errors of the two figures are about 0.03.
    assert secret.found["values"] < 0.3 and abs(secret.found["labels"] - 0.5) < 0.25
    assert boost.found["labels"] > 0.55
    assert secret.dealt > 0 and boost.dealt is None and min(secret.rounds, boost.rounds) > 0
    worst = 1.3 * by_name(runs)["XGBoost, pooled"].quality
    assert max(secret.quality, boost.quality) < worst


def test_by_rows_trees_and_boundaries_are_values_and_words_are_not(small):
    runs = by_name(by_rows(small))
    secret, llr, virtual = runs["Sharewood"].found, runs["FedXGBllr"].found, runs["virtual samples"].found
    assert llr["values"] == virtual["values"] == 1 and secret["values"] < 0.1
    assert llr["members"] > 0.8 and abs(secret["members"] - 0.5) < 0.25
    assert llr["labels"] > 0.9 and abs(secret["labels"] - 0.5) < 0.25


def test_the_attacks_find_what_is_planted_in_words():
    rng = np.random.default_rng(1)
    labels, noise = rng.integers(0, 2, 200), rng.integers(-(2**63), 2**63, (3, 200), dtype=np.int64)
    hidden = [noise[0].tobytes(), bytes(7), noise[1].tobytes()]
    assert abs(attacks.guess_from_few(attacks.words_of_rows(hidden, 200), labels) - 0.5) < 0.2
    small_words, bits = (noise[2] >> 20) + (labels << 62), np.packbits(labels.astype(np.uint8))
    for leak in (small_words.tobytes(), bits.tobytes()):
        assert attacks.guess_from_few(attacks.words_of_rows([*hidden, leak], 200), labels) > 0.8
    column = rng.normal(size=(50, 1)).astype(np.float32)
    seen = attacks.words_as_values([column[:10].tobytes()], column)
    assert attacks.share_of_values(seen, column) == 1
    assert attacks.share_of_values([np.zeros(0)], column) == 0


def test_sums_in_words_are_found_by_the_equations():
    rng = np.random.default_rng(2)
    bins, coefficients = rng.integers(0, 4, 30), list(rng.normal(size=(60, 30)))
    sums = [np.array([[row[bins == b].sum() for b in range(4)]]) for row in coefficients]
    notes = Notes(coefficients, sums)
    assert attacks.share_of_bins(notes, bins[:, None]) > 0.95
    unit = 2.0**63 / np.abs(np.stack(sums)).max() * 0.999
    words = [(each * unit).astype(np.int64).tobytes() for each in sums]
    assert attacks.share_of_bins(attacks.words_as_sums(words, notes), bins[:, None]) > 0.95
    random = [rng.integers(-(2**63), 2**63, 4, dtype=np.int64).tobytes() for _ in sums]
    assert attacks.share_of_bins(attacks.words_as_sums(random, notes), bins[:, None]) < 0.7
    with pytest.raises(ValueError, match="240 words, 4 were received"):
        attacks.words_as_sums(random[:1], notes)


def test_the_page_is_written_from_the_figures():
    assert (DOCS / "four_systems.md").read_text() == page(STUDY), "python -m benchmarks.four_systems --page"


def test_at_sharewood_no_attack_is_above_guessing_in_the_study():
    for each in STUDY["sets"]:
        for division, runs in each["divisions"].items():
            secret, guessing = by_system(runs, "Sharewood"), runs[0]["found"]["values"]
            assert advantage(secret["labels"], 0.5) < 0.1 and advantage(secret["values"], guessing) < 0.02
            assert division == "columns" or advantage(secret["members"], 0.5) < 0.15


def by_system(runs, name):
    return next(run["found"] for run in runs if run["system"] == name)
