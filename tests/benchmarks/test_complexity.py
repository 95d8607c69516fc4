"""The complexity page has the declared costs of every protocol."""

from benchmarks.complexity import page
from benchmarks.program import DOCS
from mpc.catalogue import entries
from mpc.contract import REGISTRY


def test_every_protocol_has_a_row():
    assert {entry.protocol.name for entry in entries() if entry.priced} == set(REGISTRY)


def test_the_page_is_up_to_date():
    assert (DOCS / "complexity.md").read_text() == page(), "python -m benchmarks.complexity writes it anew"
