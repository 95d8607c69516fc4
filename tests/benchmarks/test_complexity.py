"""The complexity page says what the code declares, of every protocol."""

from benchmarks.complexity import PAGE, ROWS, page
from mpc.contract import REGISTRY


def test_every_protocol_has_a_row():
    assert {p.name for p, *_ in ROWS} == set(REGISTRY)


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python -m benchmarks.complexity writes it anew"
