"""The complexity page has the declared costs of every protocol."""

from benchmarks.complexity import main
from benchmarks.program import DOCS
from mpc.protocol.catalogue import entries
from mpc.protocol.contract import REGISTRY


def test_every_protocol_has_a_row():
    assert {entry.protocol.name for entry in entries() if entry.priced} == set(REGISTRY)


def test_the_page_is_up_to_date(tmp_path):
    main(["--smallest", "--out", str(tmp_path)])
    written, page = (folder / "complexity.md" for folder in (tmp_path, DOCS))
    assert page.read_text() == written.read_text(), "python -m benchmarks.complexity writes it anew"
