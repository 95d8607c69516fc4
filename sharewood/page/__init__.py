"""Reports as pages: self-contained HTML documents."""

import contextlib
import os

from mpc.errors import ConfigError
from mpc.host.folders import cache_folder

# Without a home directory, matplotlib would warn and search for fonts at each start. It reads this when imported.
with contextlib.suppress(ConfigError):
    os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))

from sharewood.page.comparison import comparison_page
from sharewood.page.demo import demo_page
from sharewood.page.exploration import exploration_page
from sharewood.page.party import prediction_page, training_page

__all__ = ["comparison_page", "demo_page", "exploration_page", "prediction_page", "training_page"]
