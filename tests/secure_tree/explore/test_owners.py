"""Explorations with rows of further owners: statistics are those of all rows, and floors hold for each owner."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.explore import statistics
from secure_tree.explore.explore import explore
from secure_tree.owners.contributing import contribute
from secure_tree.owners.stored import Stored
from tests.secure_tree.explore.tables import counts, divergence, frame, table
from tests.secure_tree.explore.test_explore import ALL, by_definition
from tests.secure_tree.opened import contributing

ROWS = 2000
FLOORS = {"bits": 1.0}


@pytest.fixture
def exact(monkeypatch):
    monkeypatch.setattr(statistics, "fraction", lambda *_: 19)


def divided(X, y, sizes, **more):
    """Return the tables of both parties and of owners."""
    cuts = np.cumsum([0, *sizes])
    rows = [slice(a, b) for a, b in pairwise(cuts)]
    made = [{"X": X[r], "y": y[r], **{k: v[r] for k, v in more.items()}} for r in rows]
    return made[:2], {f"bank_{k}": tuple(each.values()) for k, each in enumerate(made[2:])}


def explored(own, owners, source=dealt, given=None, floors=FLOORS, begin=lambda _: None, **parameters):
    lines, said = contributing({} if given else owners)

    def job(party):
        begin(party)
        contributed = given[party.rank] if given else lines[party.rank]
        return explore(party, **own[party.rank], contributed=contributed, floors=floors, **parameters)

    results, parties = run_both(job, source=source)
    for each in said:
        each.result()
    return results, parties


def joint_numbers(result, X):
    edges = np.array([result.starts[name] for name in result.names])
    numbers = np.stack([np.searchsorted(e, x, side="right") - 1 for e, x in zip(edges, X.T, strict=True)], axis=1)
    numbers[np.isnan(X)] = edges.shape[1]
    return numbers


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize(
    "sizes", [(ROWS, 1500, 1200), (0, 0, 1100, 1300, 1900), (1100, 0, 1000, 1000, 1000, 1000, 1000)]
)
def test_statistics_are_those_of_all_rows(source, sizes):
    X, y = table(rows=sum(sizes))
    results, _ = explored(
        *divided(X, y, sizes),
        source,
        reveal="numbers",
        statistics=(*ALL, "missing", "label_rate"),
        floors={"bits": 1.0},
    )
    numbers = joint_numbers(results[0], X)
    expected, _ = by_definition(numbers, 11, y)
    for result in results:
        for name in ALL:
            assert np.abs(result.numbers[name][0] - expected[name]).max() < 1e-5, name
        assert np.abs(result.moments["missing"] - np.isnan(X).mean(axis=0)).max() <= 2**-7
        assert abs(result.label_rate - y.mean()) <= 2**-7
        # The joint edges are quantiles of all rows.
        quantiles = np.nanquantile(X[:, 0], np.arange(1, 10) / 10, method="inverted_cdf")
        assert np.abs(np.array(result.starts["f0"][1:]) - quantiles).max() < 0.02


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("weighted", [(0, 1, 2, 3), (3,), (0,)])
def test_weights(weighted):
    sizes = (1300, 1200, 1100, 1000)
    X, y = table(rows=sum(sizes))
    rng = np.random.default_rng(3)
    parties, owners = divided(X, y, sizes)
    made = [*parties, *({"X": a, "y": b} for a, b in owners.values())]
    given = [rng.integers(1, 64, n) / 16 if k in weighted else None for k, n in enumerate(sizes)]
    own = [each if w is None else {**each, "sample_weight": w} for each, w in zip(made[:2], given, strict=False)]
    of = {f"bank_{k}": (*each.values(), w) for k, (each, w) in enumerate(zip(made[2:], given[2:], strict=True))}
    results, _ = explored(own, of, reveal="numbers")
    every = np.concatenate([np.ones(n) if w is None else w for n, w in zip(sizes, given, strict=True)])
    expected, _ = divergence(*counts(joint_numbers(results[0], X), 11, y, every * 1024))
    assert np.abs(results[0].numbers["iv"][0] - expected).max() < 1e-5


@pytest.mark.usefixtures("exact")
def test_several_classes_and_categories():
    X, y = frame()
    y = np.where(X["number 0"].fillna(0) > 0.5, 2, y)
    X, y = pd.concat([X, X[::-1]], ignore_index=True), np.concatenate([y, y[::-1]])
    own, owners = divided(X, y, (1100, 1000, 1500, 1600))
    # Parties and owners have the same categories, in another order.
    of = owners["bank_1"][0]["category 1"]
    owners["bank_1"][0]["category 1"] = of.cat.reorder_categories(of.cat.categories[::-1])
    asked = {"reveal": "numbers", "classes": 3, "bins": 6, "statistics": ("iv", "label_rate")}
    owners = {k: (*v, None, {}) for k, v in owners.items()}
    results, _ = explored(own, owners, **asked)
    for column in ("category 0", "category 1"):
        place = results[0].names.index(column)
        codes = X[column].astype(pd.CategoricalDtype(results[0].starts[column])).cat.codes.to_numpy().astype(int)
        numbers = np.where(codes < 0, 6, np.minimum(codes, 5))
        for c in range(3):
            expected, _ = divergence(*counts(numbers[:, None], 7, y == c))
            assert abs(results[0].numbers["iv"][c, place] - expected[0]) < 1e-5
    assert abs(results[0].label_rate - (y > 0).mean()) <= 2**-7


@pytest.mark.usefixtures("exact")
def test_weights_of_evidence_above_the_floor_of_every_owner():
    sizes = (1300, 1200, 1100, 1000)
    X, y = table(rows=sum(sizes), features=4)
    results, _ = explored(*divided(X, y, sizes), reveal="woe", floors={**FLOORS, "cell_rows": 15})
    numbers = joint_numbers(results[0], X)
    cuts = np.cumsum([0, *sizes])
    each = [counts(numbers[a:b], 11, y[a:b]) for a, b in pairwise(cuts)]
    shown = np.all([(c == 0) | (c >= 15) for pair in each for c in pair], axis=0)
    of_parties = np.all([(c == 0) | (c >= 15) for pair in each[:2] for c in pair], axis=0)
    assert shown.any() and (of_parties & ~shown).any()
    for result in results:
        assert np.array_equal(~np.isnan(result.woe[0]), shown)


@pytest.mark.usefixtures("exact")
def test_stability_between_parties_and_owners():
    sizes = (1000, 1000, 1000, 1200)
    X, y = table(rows=sum(sizes))
    X[2000:, 1] += 0.5
    results, _ = explored(*divided(X, y, sizes), reveal="numbers", statistics=("psi",))
    later = np.arange(len(X)) < 2000
    expected, _ = divergence(*counts(joint_numbers(results[0], X), 11, later))
    assert np.abs(results[0].numbers["psi"][0] - expected).max() < 1e-5 and expected[1] > 0.1


def test_only_names_are_revealed_and_noise_is_added():
    sizes = (1300, 1200, 1100)
    X, y = table(rows=sum(sizes))
    results, _ = explored(*divided(X, y, sizes), top=3)
    assert results[0].names == results[1].names == ["f4", "f5", "f6"]
    assert results[0].revealed[-1] == "which 3 of 7 features have the largest iv" and not results[0].numbers
    assert "whether the classes of an owner have enough rows" in results[0].revealed
    results, _ = explored(*divided(X, y, sizes), top=2, privacy={"rho": 1.0})
    assert results[0].names == results[1].names and results[0].privacy is not None


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    sizes = (1300, 0, 1100, 1000, 1200)
    X, y = table(rows=sum(sizes))
    own, owners = divided(X, y, sizes)
    folder = tmp_path_factory.mktemp("collected")
    lines, said = contributing(owners)

    def collect(party):
        estimator = SecureXGBClassifier(edges="joint", edge_bits=16, max_bin=10, missing=[f"f{f}" for f in range(7)])
        estimator.collect(party, *own[party.rank].values(), lines[party.rank], folder / str(party.rank))

    run_both(collect)
    for each in said:
        each.result()
    return X, y, own, [Stored(folder / str(p)) for p in (0, 1)]


@pytest.mark.usefixtures("exact")
def test_collected_rows_are_explored_screened_and_trained_on(no_coins, collected, tmp_path):
    X, y, own, given = collected
    _, owners = divided(X[:, 4:], y, (1300, 0, 1100, 1000, 1200))
    owners = {k: (pd.DataFrame(a, columns=["f4", "f5", "f6"]), b) for k, (a, b) in owners.items()}
    lines, _ = contributing(owners)
    ledgers = [tmp_path / f"{p}.jsonl" for p in (0, 1)]

    def job(party):
        stored, mine = given[party.rank], own[party.rank]
        numbers = explore(
            party, **mine, contributed=stored, reveal="numbers", floors=FLOORS, ledger=ledgers[party.rank]
        )
        found = explore(party, **mine, contributed=stored, top=3, floors=FLOORS, ledger=ledgers[party.rank])
        kept = found.screened.of(mine["X"])
        kept = pd.DataFrame(kept, columns=found.names)
        parameters = {"edges": "joint", "edge_bits": 16, "max_bin": 10, "missing": found.names, "base_score": 0.5}
        predicted = []
        for source in (stored, lines[party.rank]):
            model = SecureXGBClassifier(**parameters, n_estimators=3, max_depth=2)
            model.fit(party, kept, mine["y"], contributed=source)
            predicted.append(model.predict_proba(party, kept)[:, 1])
        return numbers, found, predicted

    results, again, predicted = zip(*run_both(job)[0], strict=True)
    expected, _ = by_definition(joint_numbers(results[0], X), 11, y)
    assert np.abs(results[0].numbers["iv"][0] - expected["iv"]).max() < 1e-5
    # As if only these features had been collected.
    assert np.allclose(*predicted[0], atol=1e-4) and roc_auc_score(y[:1300], predicted[0][0]) > 0.7
    assert again[0].names == ["f4", "f5", "f6"]
    lines = ledgers[0].read_text().splitlines()
    assert lines == ledgers[1].read_text().splitlines() and len(lines) == 2
    assert '"owners":{"bank_0"' in lines[0]


def test_what_is_refused(collected):
    X, y, own, given = collected
    sizes = (1300, 1200, 1100)
    parties, owners = divided(X, y, sizes)

    def refused(match, error=DataError, **asked):
        with pytest.raises(error, match=match):
            explored(parties, owners, **asked)

    for asked in ("mean", "correlation"):
        refused(f"{asked} need values, and of the owners' rows there are bins", ConfigError, statistics=(asked,))
    refused('partition="horizontal", and classes', ConfigError, partition="vertical")
    refused('partition="horizontal", and classes', ConfigError, numbers=True)
    refused("1100 of bank_0", floors={"rows": 1200})
    # The labels of the parties have enough entropy, and those of the owner have not.
    owners["bank_0"][1][np.cumsum(owners["bank_0"][1]) > 11] = 0
    refused("bank_0: has fewer than 100 rows of a class", floors=FLOORS, top=3)
    refused("bank_0: has fewer than 16 rows of a class", floors={"class_rows": 5, "bits": 0.05}, top=3)
    with pytest.raises(ConfigError, match="bins must be 10, as the owners' rows have, got 9"):
        explored(own, {}, given=given, bins=9)
    with pytest.raises(ConfigError, match="must be 3 classes"):
        explored(own, {}, given=given, classes=3)
    with pytest.raises(ConfigError, match="period must be left out"):
        explored([{**each, "period": each["y"]} for each in own], {}, given=given)


@pytest.mark.parametrize("stored", [False, True])
def test_an_owner_that_consents_to_trainings_only(tmp_path, stored):
    sizes = (1300, 1200, 1100)
    X, y = table(rows=sum(sizes), features=3)
    own, owners = divided(X, y, sizes)
    lines, _ = contributing({"bank_0": lambda ends: contribute(ends, *owners["bank_0"], consent={"explore": False})})

    def job(party):
        source, mine = lines[party.rank], own[party.rank]
        if stored:
            estimator = SecureXGBClassifier(edges="joint", edge_bits=16, max_bin=10, missing="all")
            estimator.collect(party, *mine.values(), source, tmp_path / str(party.rank))
            source = Stored(tmp_path / str(party.rank))
        try:
            return explore(party, **mine, contributed=source, floors=FLOORS, top=2)
        finally:
            lines[party.rank]["bank_0"].close()

    with pytest.raises(DataError, match=r"bank_0: consents to trainings only \(explore = false in its terms\)"):
        run_both(job)
