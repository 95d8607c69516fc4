"""The cost of an exploration, counted by a rehearsal of all its steps on zeros."""

from __future__ import annotations

import numpy as np

from mpc.endpoint import ROUND_PRICE
from mpc.host.frames import pd
from mpc.planning import Demand, Rehearsal
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table
from secure_tree.explore.agreement import Explored
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.explore import computed, others
from secure_tree.explore.histograms import Joined, OwnSums, joint_edges_of
from secure_tree.explore.own_table import OwnBins, OwnTable, portions_of
from secure_tree.explore.precision import released_bits
from secure_tree.owners.sums import SumsOfOwner
from secure_tree.training.cost import Sizes, contributed_zeros


def plan_exploration(
    config: ExploreConfig,
    rows: tuple[int, int],
    features: tuple[int, int],
    *,
    missing: bool = True,
    weighted: bool = False,
    label_holder: int = 1,
    dealer: bool = True,
    owner_rows: tuple[int, ...] = (),
    round_price: int = ROUND_PRICE,
) -> Demand:
    """Return the demand of an exploration of tables of these sizes, by rows with one search for the joint edges.

    owner_rows: by rows, those of each owner who waits; rows that were collected need neither the search nor a check.

    Messages in the clear are not counted: two of a few hundred bytes, and the names of the features; by columns, what
    each owner publishes of its features. Nor are further searches for joint edges of features with frequent values.
    Correlations by columns are counted as if both parties had their share of the features that are named.
    """
    by_rows = config.partition == "horizontal"
    first, second = (
        tuple(f"{p} {i}" for i in range(d)) for p, d in enumerate((features[0], 0 if by_rows else features[1]))
    )
    size, holder = config.bins + missing, None if by_rows else label_holder
    every = (*rows, *owner_rows)
    released = released_bits(config, every, len(first) + len(second), size)
    exponent = 0 if weighted else None
    facts = Explored(config, "", (first, second), {}, every, holder, size, True, exponent, released, 0, 0.0, 0)
    rehearsal = Rehearsal.at(0, dealer, round_price)
    zeros = np.broadcast_to(np.uint64(0), (config.groups + 1, len(first), size))
    bins, owners = None, list[SumsOfOwner]()
    if owner_rows:
        parameters = Joined.parameters(config, "all" if missing else "none")
        sizes = Sizes(rows, (first, first), (0, 0), 1.0 if weighted else None, owner_rows=owner_rows)
        context, table = sizes.context(parameters), Table(np.zeros((rows[0], len(first)), np.float32), first)
        joined = Joined(context, Here(table, table, contributed_zeros(context, owner_rows)))
        _, owners = joined.sums(rehearsal.party, facts)
    elif by_rows:
        for some in portions_of(len(first), max(rows)):
            column = np.zeros((1, some.stop - some.start), np.float32)
            joint_edges_of(rehearsal.party, facts.row_count, column, config.bins)
    else:
        bins = OwnBins(np.broadcast_to(np.uint8(0), (rows[0], len(first))), size, [])
    labelled = holder in (None, 0)
    vectors = np.broadcast_to(np.uint16(0), (config.groups + 1, rows[0])) if labelled else None
    starts: list[list[float] | list[str]] = [[0.0] * config.bins] * len(first)
    own = OwnSums(zeros if labelled else None, zeros[:2], zeros[0], starts, bins, vectors, owners)
    computed(rehearsal.party, facts, own)
    # Of the features that are named, each party has its part.
    d = len(first) + len(second)
    chosen = np.linspace(0, d - 1, min(config.top, d)).round().astype(int)
    frame = pd.DataFrame(np.broadcast_to(np.float32(0), (1 if by_rows else rows[0], len(first))), columns=first)
    others(rehearsal.party, facts, OwnTable(frame, Table(frame.to_numpy(), first), None, {}), own, chosen)
    return rehearsal.cut("explore")
