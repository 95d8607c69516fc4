"""Every protocol holds to its declaration: cost, reveals, constant shape, and a pinned wire. No exceptions."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.contract import REGISTRY
from mpc.sharing import reveal
from tests.mpc.cases import CASES, IDS
from tests.mpc.twoparty import Recorder, run_both

PINS = Path(__file__).with_name("wire_pins.json")


def run_case(case, seed, size):
    """The traffic of the call alone at each party: (cost, rounds, sent bits, recorded rounds)."""

    def job(party):
        arguments = case.arguments(party, np.random.default_rng(seed), size)
        cost = case.protocol.cost(*arguments, **case.named)
        party.link = Recorder(party.link)
        rounds, sent = party.meter.total.rounds, party.meter.total.sent
        case.protocol(party, *arguments, **case.named)
        total = party.meter.total
        return cost, total.rounds - rounds, total.sent - sent, party.link.rounds

    return run_both(job)[0]


def test_there_is_a_case_for_every_protocol():
    assert {c.protocol.name for c in CASES} == set(REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_cost_is_what_is_declared(case):
    for size in (5, 5, 16):
        outcome = run_case(case, seed=1, size=size)
        for rank, (cost, rounds, sent, recorded) in enumerate(outcome):
            assert rounds == cost.rounds == len(recorded)
            assert sent == cost.bits[rank] == 8 * sum(len(data) for _, data in recorded)


def test_only_reveal_reveals():
    assert {name for name, run in REGISTRY.items() if run.reveals} == {"sharing.reveal"}
    assert reveal.reveals == ("x",)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@settings(max_examples=3, deadline=None, database=None)
@given(seeds=st.tuples(st.integers(0, 2**32), st.integers(0, 2**32)))
def test_the_shape_of_the_wire_does_not_depend_on_the_data(case, seeds):
    shapes = [
        [[(tag, len(data)) for tag, data in recorded] for *_, recorded in run_case(case, seed, 5)] for seed in seeds
    ]
    assert shapes[0] == shapes[1]


def wire(case):
    """Tags, a digest of the bytes, rounds and bits of both directions of one run with fixed seeds."""
    outcome = run_case(case, seed=3, size=5)
    digest, tags = hashlib.sha256(), {}
    for _, _, _, recorded in outcome:
        for tag, data in recorded:
            digest.update(data)
            tags[tag.split(maxsplit=1)[1]] = None
    return {
        "tags": list(tags),
        "digest": digest.hexdigest()[:16],
        "rounds": outcome[0][1],
        "bits": [o[2] for o in outcome],
    }


@pytest.mark.parametrize(("name", "case"), list(zip(IDS, CASES, strict=True)), ids=IDS)
def test_the_wire_is_pinned(name, case):
    # A change of the wire is a choice: `python -m tests.mpc.test_contracts [module]` writes the pins anew.
    assert wire(case) == json.loads(PINS.read_text())[name]


if __name__ == "__main__":
    # All pins, or those of one protocol's module.
    module = sys.argv[1] if sys.argv[1:] else ""
    kept = json.loads(PINS.read_text())
    chosen = {
        name: wire(case) if name.startswith(module) or name not in kept else kept[name]
        for name, case in zip(IDS, CASES, strict=True)
    }
    PINS.write_text(json.dumps(chosen, indent=1) + "\n")
