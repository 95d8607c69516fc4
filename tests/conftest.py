"""What every test leaves as it was: the level of the log, which a command that runs in this process sets."""

import logging

import pytest


@pytest.fixture(autouse=True)
def same_log_level():
    ours = logging.getLogger("sharewood")
    level = ours.level
    yield
    ours.setLevel(level)
