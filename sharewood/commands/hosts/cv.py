"""Cross-validate the section train on both parties' tables.

Both learn the metrics of each fold; the models are discarded.

Example: sharewood cv --config party_a.toml --party party_a --folds 5
"""

from __future__ import annotations

from sharewood.commands.options import Config, Folds, Json, PartyName, TableOut
from sharewood.job.config import HostsConfig
from sharewood.job.tuning import print_tuning, tune


def cv(config: Config, party: PartyName, folds: Folds = 5, out: TableOut = None, json: Json = None) -> None:
    print_tuning(tune(HostsConfig.read(config), party, folds, False, out, json))
