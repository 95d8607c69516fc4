"""Cross-validate every combination of the values in the section grid.

Both learn the metrics of each combination's folds; the models are discarded.

Example: sharewood grid --config party_a.toml --party party_a --folds 3
"""

from __future__ import annotations

from sharewood.commands.options import Config, Folds, Json, PartyName, TableOut
from sharewood.job.config import HostsConfig
from sharewood.job.tuning import print_tuning, tune


def grid(config: Config, party: PartyName, folds: Folds = 5, out: TableOut = None, json: Json = None) -> None:
    print_tuning(tune(HostsConfig.read(config), party, folds, True, out, json))
