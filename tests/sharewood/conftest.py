"""One Ray on this machine for all tests that need one."""

import pytest

from sharewood.local_ray import local_ray


@pytest.fixture(scope="package")
def ray():
    with local_ray():
        yield
