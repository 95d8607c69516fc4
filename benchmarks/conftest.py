"""The option of `make bench`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smallest", action="store_true", help="run each benchmark once, at its smallest size")
