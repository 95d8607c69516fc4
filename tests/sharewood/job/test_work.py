"""Lies about the facts of a job and of checkpoints end with one sentence at the honest party."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import SharewoodError
from protocols.testing.two_parties import run_both
from secure_tree.training.checkpoint import Checkpoints
from sharewood.job.work import fit, predict
from sharewood.tables.tables import TableRows
from tests.lies import check_lies

PARAMETERS = dict(n_estimators=1, max_depth=1, max_bin=4, missing="none")


@pytest.fixture
def rows():
    rng = np.random.default_rng(6)
    tables = [pd.DataFrame({"x": rng.normal(size=12), "y": rng.normal(size=12)}) for _ in (0, 1)]
    return [TableRows(table, np.tile([0.0, 1.0], 6)) for table in tables]


@pytest.mark.parametrize("resume", [False, True])
def test_lies_about_a_job(rows, resume, tmp_path):
    def job(party, resume=resume):
        checkpoints = Checkpoints(tmp_path / str(party.rank), resume)
        model = fit(party, PARAMETERS, rows[party.rank], checkpoints=checkpoints).model
        predict(party, model, rows[party.rank], "margin")

    if resume:
        run_both(lambda party: job(party, False))
    assert check_lies(job, ("job.facts", "resume.facts"), 40, seed=4) > 20


def test_a_party_with_fewer_rows_than_the_other_demands_is_refused(rows):
    """The party with too few rows ends with status 2, the one that demands more with 3."""

    def job(party):
        with pytest.raises(SharewoodError) as refused:
            fit(party, PARAMETERS, rows[party.rank], minimum_rows=(13, 1)[party.rank])
        return refused.value.exit_status, str(refused.value)

    (first, said), (second, told) = run_both(job)[0]
    assert first == 3 and "must have at least 13 rows to train on (minimum_rows of this party), got 12" in said
    assert second == 2 and "the other party demands at least 13 rows to train on (its minimum_rows), got 12" in told
