"""A planned exploration has the rounds and bytes of the real one."""

import numpy as np
import pytest

from protocols.offline.pairwise.client import pairwise
from protocols.offline.pairwise.making_cost import making_cost
from protocols.testing.two_parties import dealt, made_by_both, run_both
from protocols.transport.memory import memory_pair
from secure_tree.explore import own_table
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.cost import plan_exploration
from secure_tree.explore.explore import explore
from sharewood.cost.parts import PlannedPart
from tests.secure_tree.explore.tables import CUT, FEATURES, ROWS, explored, parts, table
from tests.secure_tree.explore.test_owners import divided
from tests.secure_tree.explore.test_owners import explored as explored_with_owners

# Messages in the clear: facts and consent.
PUBLIC = 2
# Besides, the facts of a training, and what each of two owners has sent.
PUBLIC_WITH_OWNERS = 10


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize(
    "asked",
    [
        {"top": 3},
        {"top": 3, "rank": "auc", "reveal": "woe", "statistics": ("iv", "auc", "ks")},
        {"top": 2, "privacy": {"rho": 1.0}},
        {"classes": 3, "reveal": "numbers", "statistics": ("ks",)},
        {"reveal": "numbers", "statistics": ("iv", "missing", "vif", "label_rate")},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_as_planned(source, partition, asked, weighted):
    """Online, and without a dealer with all that the parties make, over known correlated transfers."""
    X, y = table()
    y = y + (np.arange(ROWS) % 3 == 0) if "classes" in asked else y
    more = {"sample_weight": np.ones(ROWS)} if weighted else {}
    own = parts(X, y, partition, **more)
    _, parties = explored(own, source, partition=partition, **asked)
    rows = (ROWS, ROWS) if partition == "vertical" else (ROWS // 2, ROWS // 2)
    features = (CUT, FEATURES - CUT) if partition == "vertical" else (FEATURES, FEATURES)
    planned = plan_exploration(
        ExploreConfig.of(partition=partition, **asked),
        rows,
        features,
        weighted=weighted,
        dealer=source is dealt,
        round_price=0,
    )
    total = parties[0].meter.total
    # A party by columns publishes what it knows of its own features.
    public = PUBLIC + (partition == "vertical" and "missing" in asked.get("statistics", ()))
    assert (total.rounds - public, total.sent // 8, total.received // 8) == (
        planned.rounds,
        planned.sent,
        planned.received,
    )


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", [{"top": 2}, {"reveal": "woe", "statistics": ("iv", "psi")}])
def test_as_planned_with_owners(source, weighted, asked):
    sizes = (1300, 1200, 1100, 1000)
    X, y = table(rows=sum(sizes), features=4)
    own, owners = divided(X, y, sizes, **({"sample_weight": np.ones(len(X))} if weighted else {}))
    _, parties = explored_with_owners(own, owners, source, **asked)
    planned = plan_exploration(
        ExploreConfig.of(**asked),
        sizes[:2],
        (4, 4),
        weighted=weighted,
        dealer=source is dealt,
        owner_rows=sizes[2:],
        round_price=0,
    )
    total = parties[0].meter.total
    assert (total.rounds - PUBLIC_WITH_OWNERS, total.sent // 8, total.received // 8) == (
        planned.rounds,
        planned.sent,
        planned.received,
    )


def measured_and_planned(kind, partition, rows=ROWS, features=FEATURES, **asked):
    """Return rounds and bits of what the parties have made, for real, and as planned; and transfers as planned."""
    X, y = table(rows=rows, features=features)
    own, channels = parts(X, y, partition), memory_pair()

    def job(party):
        party.randomness = pairwise(party.rank, channels[party.rank], kind)
        return explore(party, **own[party.rank], partition=partition, floors={"bits": 1.0}, **asked)

    _, parties = run_both(job)
    made = parties[0].randomness._source._maker.endpoint.meter.total
    by_columns = partition == "vertical"
    planned = plan_exploration(
        ExploreConfig.of(partition=partition, **asked),
        (rows, rows) if by_columns else (rows // 2, rows // 2),
        (CUT, features - CUT) if by_columns else (features, features),
        dealer=False,
    )
    stage = parties[0].stages["explore"].rounds
    return made, making_cost(planned.plans, kind), stage - planned.rounds, PlannedPart.of("", planned, planned, kind)


@pytest.mark.parametrize("kind", ["ferret", "softspoken"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_material_as_planned(kind, partition):
    """All rounds, and bits to whole bytes, with oblivious transfers as they are."""
    asked = {"reveal": "numbers", "statistics": ("iv", "correlation")}
    made, planned, offline, part = measured_and_planned(kind, partition, **asked)
    assert made.rounds == planned.rounds == offline == part.pairwise_rounds - part.rounds
    for measured, bits in zip((made.sent, made.received), planned.bits, strict=True):
        assert 0 <= measured - bits <= 8 * 6 * (planned.rounds + 1)


def test_material_as_planned_in_halves(monkeypatch):
    """A large piece is made in two halves, in turns, and correlated transfers run out in between."""
    monkeypatch.setattr("protocols.offline.pairwise.client.SPLIT", 1 << 12)
    made, planned, _, _ = measured_and_planned("softspoken", "vertical", rows=6000, top=3)
    assert made.rounds == planned.rounds > 30
    for measured, bits in zip((made.sent, made.received), planned.bits, strict=True):
        assert 0 <= measured - bits <= 8 * 6 * (planned.rounds + 1)


def test_portions_of_unequal_parties(monkeypatch):
    """Both parties search for the joint edges of the same columns at once, whoever has more rows."""
    monkeypatch.setattr(own_table, "PORTION", 8 * 1500 * 3)
    X, y = table(rows=3000, features=7)
    own = [{"X": X[r], "y": y[r]} for r in (slice(0, 1100), slice(1100, None))]
    (found, _), parties = explored(own, top=3)
    planned = plan_exploration(ExploreConfig.of(top=3), (1100, 1900), (7, 7), round_price=0)
    assert parties[0].meter.total.rounds - PUBLIC == planned.rounds
    monkeypatch.undo()
    assert found.names == explored(own, top=3)[0][0].names
