"""Run tests marked `new_process` in a separate process."""

import os
import subprocess
import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a marked test in a separate pytest, and fail with its output."""
    if "new_process" not in pyfuncitem.keywords or "IN_NEW_PROCESS" in os.environ:
        return None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", pyfuncitem.nodeid],
        cwd=pyfuncitem.config.rootpath,
        env=os.environ | {"IN_NEW_PROCESS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return True
