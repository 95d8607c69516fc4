"""A benchmark that fails at either party is reported, and takes no other one with it."""

import pytest

from benchmarks.every_protocol import EVERY_PROTOCOL
from benchmarks.operations import OPERATIONS
from benchmarks.pair import Pair
from mpc.errors import PeerFailure

PROTOCOL = "fixed_factor.select_fixed: bit times fixed word"


def failing(rank, last):
    """An operation that fails at this rank: after its last message, or while the other party waits for a message."""

    def prepare(party, n):
        product = OPERATIONS["product"](party, n)

        def run(p):
            product(p)
            if p.rank == rank and p.live:
                raise ZeroDivisionError("planted")
            if not last:
                product(p)

        return run

    return prepare


def operations():
    return EVERY_PROTOCOL | {
        "fails at 0": failing(0, last=False),
        "fails at 1": failing(1, last=False),
        "fails at 1 last": failing(1, last=True),
    }


@pytest.fixture
def pair(request):
    made = Pair(operations, plain=getattr(request, "param", True))
    yield made
    made.close()


def played(pair):
    run, facts = pair.prepare(PROTOCOL, 8)
    run()
    pair.settle()
    return {**facts, "offline_seconds": 0}


def test_a_failing_operation_does_not_end_those_after_it(pair):
    before = played(pair)
    assert before["rounds"] == 1 and before["online_bytes"] == 2
    assert played(pair) == before  # from a supply of its own
    run, _ = pair.prepare("fails at 0", 1)
    with pytest.raises(ZeroDivisionError, match="planted"):
        run()
    assert played(pair) == before


@pytest.mark.long
@pytest.mark.parametrize("pair", [False, True], ids=["TLS", "plain"], indirect=True)
def test_a_failure_of_the_second_party_is_raised_here(pair):
    before = played(pair)
    run, _ = pair.prepare("fails at 1", 1)
    with pytest.raises(RuntimeError, match="party_b: ZeroDivisionError: planted") as failure:
        run()
    assert isinstance(failure.value.__cause__, PeerFailure)
    run, _ = pair.prepare("fails at 1 last", 1)
    run()
    with pytest.raises(RuntimeError, match="party_b: ZeroDivisionError: planted"):
        pair.settle()
    with pytest.raises(KeyError):
        pair.prepare("unknown", 1)
    assert played(pair) == before
