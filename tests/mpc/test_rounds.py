"""Programs and tasks that share rounds of messages."""

import numpy as np
import pytest

from mpc.errors import PeerFailure
from mpc.rounds import beside, open_words, parallel
from mpc.words import U8
from protocols.testing.two_parties import run_both


def opening(log, name, rounds, fails=False):
    """Open a byte per round, and log each."""
    for number in range(rounds):
        yield from open_words(np.zeros(1, U8))
        log.append((name, number))
    if fails:
        raise PeerFailure("as planned")
    return name


def rounds_of(program):
    """Return the logs of both parties, and their results and rounds."""

    def job(party):
        log = []
        result = party.run(program(log))
        return log, result, party.meter.total.rounds

    (first, second), _ = run_both(job)
    assert first == second
    return first


def test_tasks_share_the_rounds_of_the_program_that_starts_them():
    def main(log, tasks):
        yield from opening(log, "before", 1)
        long, short = tasks.start(opening(log, "long", 4)), tasks.start(opening(log, "short", 1))
        name = yield from opening(log, "beside", 2)
        return name, (yield from short.wait()), (yield from long.wait()), (yield from opening(log, "after", 1))

    log, result, rounds = rounds_of(lambda log: beside(lambda tasks: main(log, tasks)))
    assert result == ("beside", "short", "long", "after") and rounds == 1 + 4 + 1
    assert log.index(("long", 3)) == len(log) - 2 and log[-1] == ("after", 0)


def test_a_task_sees_results_of_earlier_ones_in_the_round_in_which_they_arrive():
    def waiting(log, task):
        yield from task.wait()
        return (yield from opening(log, "second", 1))

    def main(log, tasks):
        first = tasks.start(opening(log, "first", 2))
        second = tasks.start(waiting(log, first))
        own, other = yield from parallel(opening(log, "own", 1), second.wait())
        return own, other

    _, result, rounds = rounds_of(lambda log: beside(lambda tasks: main(log, tasks)))
    assert result == ("own", "second") and rounds == 3


def test_a_program_ends_when_its_tasks_have_ended():
    def main(log, tasks):
        tasks.start(opening(log, "task", 3))
        return (yield from opening(log, "main", 1))

    log, result, rounds = rounds_of(lambda log: beside(lambda tasks: main(log, tasks)))
    assert result == "main" and rounds == 3 and log[-1] == ("task", 2)


def test_the_failure_of_a_task_is_that_of_its_program():
    def main(log, tasks):
        tasks.start(opening(log, "task", 1, fails=True))
        return (yield from opening(log, "main", 3))

    with pytest.raises(PeerFailure, match="as planned"):
        rounds_of(lambda log: beside(lambda tasks: main(log, tasks)))


def test_programs_in_parallel_take_the_rounds_of_the_longest():
    log, result, rounds = rounds_of(
        lambda log: parallel(opening(log, "a", 3), opening(log, "b", 0), opening(log, "c", 1))
    )
    assert result == ("a", "b", "c") and rounds == 3 and log[:2] == [("a", 0), ("c", 0)]
