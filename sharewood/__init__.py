"""Public interface: `from sharewood import SecureXGBClassifier, SecureXGBRegressor, run_local, connect`."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocols.runtime import run_local
    from secure_tree import SecureXGBClassifier, SecureXGBRegressor
    from secure_tree.cross_validation import cross_validate, grid_search
    from secure_tree.exchange.libraries import from_library
    from secure_tree.monitor.monitor import drift, fairness, monitor
    from secure_tree.monitor.profile import Profile, make_profile
    from sharewood.job.session import connect
    from sharewood.page.exploration import explore
    from sharewood.warming_up import warm_up

__version__ = "0.1.0"
__all__ = [
    "Profile",
    "SecureXGBClassifier",
    "SecureXGBRegressor",
    "__version__",
    "connect",
    "cross_validate",
    "drift",
    "explore",
    "fairness",
    "from_library",
    "grid_search",
    "make_profile",
    "monitor",
    "run_local",
    "warm_up",
]

_HOMES = {
    "Profile": "secure_tree.monitor.profile",
    "SecureXGBClassifier": "secure_tree",
    "SecureXGBRegressor": "secure_tree",
    "connect": "sharewood.job.session",
    "cross_validate": "secure_tree.cross_validation",
    "drift": "secure_tree.monitor.monitor",
    "explore": "sharewood.page.exploration",
    "fairness": "secure_tree.monitor.monitor",
    "from_library": "secure_tree.exchange.libraries",
    "grid_search": "secure_tree.cross_validation",
    "make_profile": "secure_tree.monitor.profile",
    "monitor": "secure_tree.monitor.monitor",
    "run_local": "protocols.runtime",
    "warm_up": "sharewood.warming_up",
}


def _check_neighbours() -> None:
    """Raise ImportError if another package shadows one of Sharewood's packages."""
    here = Path(__file__).resolve().parents[1]
    for name in ("mpc", "secure_tree", "protocols"):
        found = find_spec(name)
        place = Path(found.origin).resolve() if found and found.origin else None
        if place is None or place.parents[1] != here:
            raise ImportError(
                f"Sharewood needs its package {name!r} in {here}, but Python finds {place or 'none'}: rename or remove "
                "that one, or start from another folder"
            )


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the command line starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted(__all__)


_check_neighbours()
