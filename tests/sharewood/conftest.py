"""One Ray cluster on this machine for all tests that need one."""

import pytest

from protocols.runtime.ray_cluster import ray_cluster


@pytest.fixture(scope="package")
def ray():
    with ray_cluster():
        yield
