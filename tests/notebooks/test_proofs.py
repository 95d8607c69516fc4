"""Every protocol's privacy has evidence: enumerated, composed of its parts, or argued and assessed."""

import numpy as np
import pytest

from mpc.protocol.catalogue import entries
from mpc.protocol.contract import REGISTRY
from mpc.protocol.evidence import Argued, Composed, Enumerated
from protocols.testing.cases import cases
from protocols.testing.exhaustive import prove
from protocols.testing.two_parties import run_both

SHOWN = {entry.protocol: entry.evidence for entry in entries()}
CHECKS = {
    f"{protocol.name}: {entry.name}": (protocol, entry)
    for protocol, shown in SHOWN.items()
    for entry in shown
    if isinstance(entry, Enumerated)
}
LONG = [pytest.mark.long, pytest.mark.timeout(3600)]
# Protocols that are checked together share their entries.
ONCE = {id(entry): (name, protocol, entry) for name, (protocol, entry) in CHECKS.items()}.values()
COMPOSED = [(p, entry.parts) for p, shown in SHOWN.items() for entry in shown if isinstance(entry, Composed)]


def test_every_protocol_has_evidence():
    assert {protocol.name for protocol in SHOWN} == set(REGISTRY)
    assert all(SHOWN.values())


@pytest.mark.parametrize(
    ("protocol", "entry"),
    [pytest.param(protocol, entry, id=name, marks=LONG if entry.long else []) for name, protocol, entry in ONCE],
)
def test_every_case(protocol, entry):
    verdict = prove(protocol, entry)
    assert verdict.proven and (verdict.padded, verdict.fresh) == (entry.padded, entry.fresh), verdict


def messages(protocol):
    """Return the names of the rounds and of the correlations over all of the protocol's cases."""
    names = set()
    for case in cases(entries()):
        if case.protocol is protocol:

            def job(party, case=case):
                arguments = case.arguments(party, np.random.default_rng(1), 3)
                take, taken = party.randomness.take, set()
                party.randomness.take = lambda kind: (taken.add(type(kind).__name__), take(kind))[1]
                party.meter.by_protocol.clear()
                case.protocol(party, *arguments, **case.named)
                return taken | set(party.meter.by_protocol)

            names |= run_both(job)[0][0]
    return names


@pytest.mark.parametrize(("protocol", "parts"), COMPOSED, ids=[p.name for p, _ in COMPOSED])
def test_a_composition_sends_only_the_messages_of_its_parts(protocol, parts):
    assert messages(protocol) <= set().union(*map(messages, parts))


def test_compositions_rest_on_protocols_with_evidence():
    resting = {
        p: [part for entry in shown if isinstance(entry, Composed) for part in entry.parts]
        for p, shown in SHOWN.items()
    }

    def ground(protocol, above=()):
        assert protocol not in above, "a protocol must not be a part of itself"
        return all(ground(part, (*above, protocol)) for part in resting[protocol])

    assert all(map(ground, SHOWN))


def test_every_argument_states_its_bound():
    argued = [entry for shown in SHOWN.values() for entry in shown if isinstance(entry, Argued)]
    assert argued and all(entry.why and entry.bound for entry in argued)
