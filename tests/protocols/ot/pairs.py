"""Two parties whose oblivious transfers are checked in one process."""

import os

import numpy as np

from mpc.rounds import parallel
from protocols.ot.correlated import set_up
from protocols.ot.pads import pads
from protocols.testing.lying_transfers import SESSION
from protocols.testing.two_parties import run_both


def correlated(kind, counts, session=SESSION, draw=os.urandom):
    """Return the directions by rank of the sender, each with delta and, for every count, (q, choices, t)."""

    def job(party):
        sender, receiver = party.run(set_up(party.rank, session, kind, draw))
        made = [party.run(parallel(sender.extend(count), receiver.extend(count))) for count in counts]
        return sender.delta, made

    results, _ = run_both(job)
    return [
        (delta, [(q, *theirs[1]) for (q, _), theirs in zip(made, results[1 - rank][1], strict=True)])
        for rank, (delta, made) in enumerate(results)
    ]


def check(delta, q, choices, t):
    """Check the relation of correlated OTs, bit for bit."""
    assert q.dtype == t.dtype == np.uint64 and choices.dtype == np.uint8 and q.shape == t.shape == (choices.size, 2)
    assert delta[0] & np.uint64(1) == 1 and choices.max() <= 1
    assert np.array_equal(q ^ choices[:, None].astype(np.uint64) * delta, t)


def check_everything():
    """Check both kinds, and pads of chosen blocks."""
    for kind in ("softspoken", "ferret"):
        for delta, ((q, choices, t),) in correlated(kind, (1,)):
            check(delta, q, choices, t)
            q, t, choices = q[:100], t[:100], choices[:100, None]
            first, second = (pads(x, 65500, 3, bytes(16)) for x in (q, q ^ delta))
            assert np.array_equal(pads(t, 65500, 3, bytes(16)), np.where(choices, second, first))
