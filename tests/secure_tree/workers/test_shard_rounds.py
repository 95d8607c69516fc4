"""What the parties send depends on the rows, but not on the number of shards."""

import numpy as np
import pytest

from protocols.testing.two_parties import run_both, with_workers
from secure_tree import SecureXGBClassifier
from sharewood.report.shards import with_workers as in_all
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table

ROWS = 6_000


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_rounds_are_equal_and_bytes_alike(partition):
    X, y = table(ROWS, 4, seed=3)
    data = halves(X, y, ROWS // 2) if partition == "horizontal" else columns(X, y, 2)

    def job(party):
        tables, labels = data
        model = SecureXGBClassifier(n_estimators=2, max_depth=3, max_bin=32, partition=partition)
        model.fit(party, tables[party.rank], labels[party.rank])
        return in_all(party.stages, party.workers.costs())

    found = [run_both(with_workers(job, shards))[0][0] for shards in (1, 2, 4)]
    rounds = [{name: stage.rounds for name, stage in stages.items()} for stages in found]
    assert rounds[0] == rounds[1] == rounds[2] and rounds[0]["online"] > 0
    sent = np.array([sum(s.bytes_sent + s.bytes_received for s in stages.values()) for stages in found])
    assert sent.min() > 1e6 and sent.max() < 1.02 * sent.min()
