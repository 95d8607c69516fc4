"""Reveal the model to one party, if both configurations name it in reveal_to.

Example: sharewood reveal --config party_a.toml --party party_a --to party_a
"""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from mpc.errors import ConfigError
from mpc.party import Party
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.options import Config, FilesKey, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.session import bringing, connected
from sharewood.record.keeping import Record
from sharewood.report.run import PartyCosts, PartyReport, print_costs, write_reports
from sharewood.tables.files import writable


def reveal(
    config: Config,
    party: PartyName,
    to: Annotated[str, typer.Option(help="Party that sees the model.")],
    passphrase: Passphrase = None,
    files_key: FilesKey = None,
) -> None:
    started = monotonic()
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    print_costs("revealed", reveal_half(job, party, to), started)


def reveal_half(config: HostsConfig, name: str, to: str) -> PartyReport:
    """Reveal the model to the party `to`, if both configurations consent; `to` writes it to its file `revealed`."""
    with bringing(config, name):
        config.party(to)
        if to not in config.party(name).reveal_to:
            raise ConfigError(f"parties.{name}.reveal_to does not list {to}: this party has not consented")
        key = config.file_key()
        model = SharedModel.load(config.needs(name, "model"), key)
        out = config.needs(name, "revealed") if to == name else None
        if out:
            writable(out)
        record = Record(config, name, "reveal", model=config.party(name).model)

    def program(party: Party) -> PartyReport:
        record.begin(party)
        plain = reveal_model(party, model, config.names.index(to))
        if plain is not None and out is not None:
            plain.save(out, key)
        costs = PartyCosts.of(party, name)
        record.end(party, {"to": to}, {"model": model.facts.pairing})
        return PartyReport(costs, record=record.report)

    report = connected(config, name, program, doing="the model was revealed")
    write_reports(out, None, report, None)
    record.settle()
    return report
