"""Turn one party's plain model into shares, for `sharewood predict`.

Example: sharewood share --config party_a.toml --party party_a --model model.json
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from mpc.party import Party
from secure_tree.exchange.libraries import read_model
from secure_tree.exchange.plain_model import share_model
from secure_tree.public.config import TrainConfig
from sharewood.commands.options import Config, FilesKey, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.session import bringing, connected
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.tables.files import writable


def share(
    config: Config,
    party: PartyName,
    model: Annotated[
        Path | None,
        typer.Option(
            help="The model, at its owner: of XGBoost or CatBoost (.json), of LightGBM (.txt), or from_library (.npz)."
        ),
    ] = None,
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    print_costs("shared", share_plain(job, party, model), started)


def share_plain(config: HostsConfig, name: str, source: Path | None) -> PartyReport:
    """Turn one party's plain model (`source`; None at the other party) into a half at each party, for `predict`.

    `missing` in `[train]` names the features that may be missing in rows to predict.
    """
    with bringing(config, name, reads={"--model": source}):
        out, key = config.needs(name, "model"), config.file_key()
        writable(out)
        plain = read_model(source, key) if source else None

    def program(party: Party) -> PartyReport:
        share_model(party, plain, TrainConfig.of(**config.train).missing).save(out, key)
        return PartyReport(PartyCosts.of(party, name))

    report = connected(config, name, program, doing="the model was shared")
    if plain is None:
        report.costs.revealed = [
            "the model's objective, feature names, classes, number of trees and their largest depth or number of leaves"
        ]
    write_reports(out, None, report, None)
    return report
