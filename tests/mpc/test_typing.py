"""mypy knows the argument and result types of protocols: a wrong use of either fails `make lint`."""

from mypy import api

RIGHT = """
from mpc.arithmetic.beaver import multiply
from mpc.comparison.comparison import below, maximum
from mpc.endpoint import Endpoint
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare


def right(party: Endpoint, x: AShare) -> Steps[AShare]:
    low = yield from below.steps(party, x, [0], 64)
    (best, less), square = yield from parallel(maximum.steps(party, x, x), multiply.steps(party, x, x))
    bits: BShare = less ^ ~low[..., 0]
    return best + square + multiply(party, x, x)


def wrong(party: Endpoint, x: AShare) -> Steps[AShare]:
"""
WRONG = {
    "    x = yield from below.steps(party, x, [0], 64)": "has type",
    "    x = below(party, x, [0], 64)": "has type",
    "    x = multiply(party, x)": "Missing positional argument",
    "    x = multiply(party, x, below(party, x, [0], 64))": "incompatible type",
    "    x, _ = yield from parallel(below.steps(party, x, [0], 64), multiply.steps(party, x, x))": "has type",
    "    party.reveal(x, what='all of it')": "no attribute",
}


def test_a_wrong_use_of_a_protocol_is_an_error():
    program = RIGHT + "\n".join([*WRONG, "    return x"])
    out, problem, _ = api.run(["--config-file=", "--ignore-missing-imports", "--no-error-summary", "-c", program])
    assert problem == ""
    first = RIGHT.count("\n") + 1
    for place, (line, message) in enumerate(WRONG.items()):
        assert any(f":{first + place}: " in error and message in error for error in out.splitlines()), line
    assert all(int(error.split(":")[1]) >= first for error in out.splitlines()), out
