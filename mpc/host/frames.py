"""pandas, which the extra `tables` installs: `from mpc.host.frames import pd`. It is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpc.errors import ConfigError
from mpc.host.extras import install

if TYPE_CHECKING:
    import pandas as pd
else:

    class _Pandas:
        """The names of pandas. Raises ConfigError, with the command that installs it, where it is not installed."""

        def __getattr__(self, name: str) -> Any:
            try:
                import pandas
            except ModuleNotFoundError as error:
                if error.name != "pandas":
                    raise
                raise ConfigError(f"tables need pandas, which is not installed: {install('tables')}") from None
            return getattr(pandas, name)

    pd = _Pandas()

__all__ = ["pd"]
