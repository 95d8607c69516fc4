"""One Ray cluster on this machine for all tests that need one; and what commands write is their owner's alone."""

import pytest

from protocols.runtime.workers.ray_cluster import ray_cluster
from tests.sharewood.commands.hosting import open_to_all


@pytest.fixture(scope="package")
def ray():
    with ray_cluster():
        yield


@pytest.fixture(autouse=True)
def only_for_its_owner(request):
    """Check that no process that a test has started leaves a file or a folder to others."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    assert folder is None or not open_to_all(folder)
