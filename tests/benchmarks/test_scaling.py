"""The scaling study measures, fits and writes; its page follows from its JSON."""

import json

import pytest

from benchmarks.program import between
from benchmarks.scaling import DOCS, main
from benchmarks.scaling_page import fit, page


def test_the_page_is_written_from_the_figures():
    study = json.loads((DOCS / "figures" / "scaling.json").read_text())
    large = between(DOCS / "scaling.md", "large")[1]
    assert (DOCS / "scaling.md").read_text() == page(study, large), "python -m benchmarks.scaling --page writes it anew"


def test_a_power_law_is_found():
    exponent, explained, last = fit([(n, 3 * n**1.5) for n in (1, 10, 100)])
    assert (exponent, explained, last) == pytest.approx((1.5, 1, 1.5))
    _, explained, _ = fit([(1, 1), (10, 50), (100, 2)])
    assert explained < 0.5


def test_a_small_study(tmp_path):
    main(["--smallest", "--out", str(tmp_path)])
    study = json.loads((tmp_path / "figures" / "scaling.json").read_text())
    assert {axis: len(points) for axis, points in study["axes"].items()} == dict.fromkeys(study["base"], 2)
    for axis, points in study["axes"].items():
        small, large = points
        assert small[axis] < large[axis]
        assert 0 < small["online_bytes"] < large["online_bytes"]
    assert (tmp_path / "scaling.md").read_text().startswith("# How training grows")
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".json", ".png", ".pdf"}
