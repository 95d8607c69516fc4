"""The command that installs an extra works for every kind of installation."""

import json

import pytest

from mpc.host import extras


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
    monkeypatch.setattr(extras, "distributions", lambda name: [Installed(record)])
    assert extras.install("serve") == command


def test_modules_on_a_path_count_as_installed_from_an_index(monkeypatch):
    monkeypatch.setattr(extras, "distributions", lambda name: [])
    assert extras.install("serve") == "pip install 'sharewood[serve]'"


def test_metadata_that_a_build_left_are_passed_over(monkeypatch):
    found = [Installed(None), Installed({"url": "file:///src", "dir_info": {"editable": True}})]
    monkeypatch.setattr(extras, "distributions", lambda name: found)
    assert extras.install("serve") == "pip install --editable '/src[serve]'"
