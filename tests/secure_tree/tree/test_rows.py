"""A tree adds the weight of its leaf to the margin of each row, whatever the leaves are."""

import numpy as np
import pytest

from mpc.shares import BShare, stack
from mpc.words import U8
from protocols.testing.two_parties import opened, ring_half, run_both
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.layout import lay_out
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.tree.rows import LocalRows, LocalTreeRows

NAMES = ("a", "b")


@pytest.mark.parametrize(("classes", "depth"), [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize(("n", "parameters"), [(40, {}), (10_000, {"learning_rate": 1.0, "reg_lambda": 0.0})])
def test_a_row_gains_the_weight_of_its_leaf(classes, depth, n, parameters):
    objective = {"objective": "multi:ova", "num_class": classes} if classes > 1 else {}
    config = TrainConfig.of(n_estimators=2, max_depth=depth, **objective, **parameters)
    context = TrainingContext(config, PublicFacts("", NAMES, lay_out(config, (NAMES, NAMES), (n // 2, n // 2)), 1.0))
    largest = (1 << context.numerics.leaf_bits - 2) - 1
    rng = np.random.default_rng(depth)
    leaves = rng.integers(-largest, largest, (classes, 1 << depth), endpoint=True)
    leaves[0, :2] = largest, -largest
    at, before = rng.integers(0, 1 << depth, (classes, n)), rng.integers(-(2**40), 2**40, (classes, n))
    masks = rng.integers(0, 2, (classes, 1 << depth, n), U8)
    hot = (np.arange(1 << depth)[:, None] == at[:, None]).astype(U8)

    def job(party):
        rows = LocalRows(context, [], None, [ring_half(m, party.rank, scale=MARGIN_SCALE) for m in before])
        for k in range(classes):
            node = BShare(masks[k] if party.rank else masks[k] ^ hot[k], party.rank)
            weights = ring_half(leaves[k], party.rank, scale=MARGIN_SCALE)
            party.run(LocalTreeRows(rows, k, None, [], node, None).add_leaves(party, weights))
        return stack(rows.margins)

    results, _ = run_both(job)
    assert np.array_equal(opened(results), before + np.take_along_axis(leaves, at, axis=1))
