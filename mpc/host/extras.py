"""How to install an optional part of Sharewood: by the folder or wheel that this installation came from."""

from __future__ import annotations

import json
from importlib.metadata import distributions
from urllib.parse import unquote, urlsplit

_NAME = "sharewood"


def install(extra: str) -> str:
    """Return the command that installs an extra, such as `pip install '/home/ada/sharewood[serve]'`.

    The distribution's record of its source (PEP 610) names a folder or a wheel; without one, it came from an index. The
    metadata that a build leaves in a clone have no such record, and Python finds them first in the clone itself.
    """
    records = (found.read_text("direct_url.json") for found in distributions(name=_NAME))
    source = json.loads(next(filter(None, records), "{}"))
    url = urlsplit(source.get("url", ""))
    place = unquote(url.path) if url.scheme == "file" else _NAME
    editable = "--editable " if source.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{place}[{extra}]'"
