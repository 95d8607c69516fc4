"""Which names a page or a service on loopback answers to.

A page of another site may direct a browser of this machine here under its own host name (DNS rebinding).
"""

from __future__ import annotations

import re

from protocols.runtime.loopback import is_loopback

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]/]+))(?::[0-9]+)?", re.ASCII)
WANTED = "the host must be 127.0.0.1 or localhost"


def names_this_machine(host: str) -> bool:
    """Return whether a header Host names this machine's loopback."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback((found["v6"] or found["name"]).lower())
