"""docs/engine.md: its programs run, and files that it names exist."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from protocols.runtime import run_local

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "logistic_regression.py"
PAGE = (ROOT / "docs" / "engine.md").read_text()


def test_files_and_functions_exist():
    for path in set(re.findall(r"`(mpc/[\w/]+\.py)`", PAGE)):
        assert (ROOT / path).exists(), path
    for path, names in re.findall(r"`(mpc/[\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", PAGE):
        text = (ROOT / path).read_text()
        assert all(f"def {name}(" in text for name in re.findall(r"\w+", names)), (path, names)


def test_the_page_quotes_the_example():
    assert EXAMPLE.read_text() in PAGE


def test_the_first_program():
    program = PAGE.split("```python\n")[1].split("\n\n\nrun_local(job)")[0]
    names = {}
    exec(program, names)
    for result in run_local(names["job"]):
        assert result.tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.long
@pytest.mark.parametrize("offline", ["dealer", "pairwise"])
def test_logistic_regression(offline):
    example = runpy.run_path(str(EXAMPLE))
    first, second = run_local(example["job"], offline=offline)
    assert np.array_equal(first, second)
    assert abs(first - example["in_the_clear"]()).max() < 1e-3
