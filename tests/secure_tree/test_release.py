"""What a long session keeps: no mask of a matrix outlives the training or the prediction that it was for."""

import pytest

from secure_tree import SecureXGBClassifier
from tests.mpc.twoparty import run_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves, table


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("parameters", [{}, {"test_size": 0.3, "eval_epochs": 1}])
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
