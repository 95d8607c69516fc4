"""Every protocol meets its declaration: cost, reveals, constant shape, and a pinned wire. No exceptions."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.protocol.catalogue import entries
from mpc.protocol.contract import REGISTRY
from mpc.sharing import reveal
from protocols.testing import cases, check_cost, check_shape, wire

CASES = cases(entries())
IDS = [case.name for case in CASES]
PINS = Path(__file__).with_name("wire_pins.json")


def test_there_is_a_case_for_every_protocol():
    assert {c.protocol.name for c in CASES} == set(REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_cost_is_what_is_declared(case):
    check_cost(case, sizes=(5, 5, 16))


def test_only_reveal_reveals():
    assert {name for name, run in REGISTRY.items() if run.reveals} == {"sharing.reveal"}
    assert reveal.reveals == ("x",)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@settings(max_examples=3, deadline=None, database=None)
@given(seeds=st.tuples(st.integers(0, 2**32), st.integers(0, 2**32)))
def test_the_shape_of_the_wire_does_not_depend_on_the_data(case, seeds):
    check_shape(case, seeds)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_wire_is_pinned(case):
    # A change of the wire is a decision: `python -m tests.mpc.protocol.test_contracts [module]` rewrites the pins.
    assert wire(case) == json.loads(PINS.read_text())[case.name]


if __name__ == "__main__":
    # Rewrite all pins, or those of one protocol's module.
    module = sys.argv[1] if sys.argv[1:] else ""
    kept = json.loads(PINS.read_text())
    chosen = {
        case.name: wire(case) if case.name.startswith(module) or case.name not in kept else kept[case.name]
        for case in CASES
    }
    PINS.write_text(json.dumps(chosen, indent=1) + "\n")
