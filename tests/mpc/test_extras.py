"""The command that installs an extra works for every kind of installation."""

import json
from importlib.metadata import PackageNotFoundError

import pytest

from mpc import extras


class Installed:
    def __init__(self, record):
        self.record = record

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.record and json.dumps(self.record)


@pytest.mark.parametrize(
    ("record", "command"),
    [
        ({"url": "file:///home/ada/my%20code", "dir_info": {}}, "pip install '/home/ada/my code[serve]'"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "pip install --editable '/src[serve]'"),
        ({"url": "file:///dist/a-1.whl", "archive_info": {}}, "pip install '/dist/a-1.whl[serve]'"),
        (None, "pip install 'sharewood[serve]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(monkeypatch, record, command):
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(record))
    assert extras.install("serve") == command


def test_modules_on_a_path_count_as_installed_from_an_index(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert extras.install("serve") == "pip install 'sharewood[serve]'"
