"""Two halves of a portion are made in turns: one computes while the messages of the other are in transit."""

import numpy as np
import pytest

from mpc.endpoint import Endpoint
from mpc.protocol.rehearsal import Requests
from mpc.rounds import Round
from protocols.offline.pairwise import client as pairwise
from sharewood import run_local


class Log:
    """A link that logs when rounds start and when they are waited for."""

    def __init__(self):
        self.events = []

    def post(self, tag, arrays, like):
        self.events.append(f"start {tag.split()[-1]}")

        def wait():
            self.events.append(f"wait {tag.split()[-1]}")
            return [np.zeros(*each) for each in like]

        return wait


def program(name, rounds):
    for number in range(rounds):
        yield Round([], [], f"{name}{number}")
        yield []  # a turn without a message


def test_a_program_computes_while_the_other_waits():
    link = Log()
    Endpoint(0, link, Requests(0)).run_in_turns([program("a", 2), program("b", 1)])
    assert link.events == ["start a0", "start b0", "wait a0", "wait b0", "start a1", "wait a1"]


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [9, 1, 1, 1], [1, 1, 1, 9], [5]])
def test_halves_have_about_the_same_number_of_transfers(monkeypatch, weights):
    programs = [object() for _ in weights]
    assert pairwise.halves(programs, weights) == [programs] and pairwise.halves([], []) == []
    monkeypatch.setattr(pairwise, "SPLIT", 1)
    halves = pairwise.halves(programs, weights)
    assert [each for half in halves for each in half] == programs and len(halves) <= 2
    assert (all(halves) and len(weights) < 4) or len(halves[0]) in (1, 2, 3, 4)


def test_material_of_halves_is_right(monkeypatch):
    monkeypatch.setattr(pairwise, "SPLIT", 1)

    def job(party):
        rng = np.random.default_rng(party.rank)
        own = [rng.integers(-9, 9, 50) if party.rank == owner else None for owner in (0, 1)]
        x, y = (party.share(values, owner) for owner, values in enumerate(own))
        assert [int(v) for v in party.reveal(x * y + x, what="z")] == [
            int(a * b + a) for a, b in zip(*(np.random.default_rng(r).integers(-9, 9, 50) for r in (0, 1)), strict=True)
        ]
        return [int(v) for v in party.reveal(x < y, what="lower")]

    first, second = (np.random.default_rng(rank).integers(-9, 9, 50) for rank in (0, 1))
    assert run_local(job, offline="pairwise", ot="softspoken")[0] == (first < second).astype(int).tolist()
