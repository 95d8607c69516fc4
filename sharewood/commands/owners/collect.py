"""Collect what owners contribute, for any number of trainings, while the other party does the same.

Waits for the owners of `[owners]`, who run `sharewood contribute`; finds the joint edges; checks every contribution;
and keeps this party's halves in the folder `contributed`. `train` then needs no owner.

Example: sharewood collect --config party_a.toml --party party_a
"""

from __future__ import annotations

from mpc.errors import ConfigError
from mpc.party import Party
from secure_tree.public.context import OwnerFacts
from sharewood.commands.options import Config, FilesKey, PartyName, Passphrase
from sharewood.job.config import HostsConfig
from sharewood.job.files import bringing_tables, training_tables
from sharewood.job.owners import met, shown
from sharewood.job.session import bringing, connected
from sharewood.job.work import collect as collect_rows
from sharewood.logs import in_json, say, say_document
from sharewood.tables.tables import TableRows
from sharewood.warming_up import warm_up


def collect(config: Config, party: PartyName, passphrase: Passphrase = None, files_key: FilesKey = None) -> None:
    job = HostsConfig.read(config, passphrase=passphrase, files_key=files_key)
    owners = collect_half(job, party)
    if in_json():
        say_document({"contributions": [shown(owner) for owner in owners]})
    for owner in owners if not in_json() else ():
        say(f"{owner.name}: {owner.rows:,} rows, contribution {owner.id}")


@bringing_tables("train_data", "test_data")
def collect_half(config: HostsConfig, name: str) -> tuple[OwnerFacts, ...]:
    """Collect at one party; return the owners, all of whom have contributed to both parties.

    Raises ConfigError, DataError, PeerFailure.
    """
    owners = config.owners
    with bringing(config, name):
        if owners is None:
            raise ConfigError("[owners] must name the owners in the configuration for this command")
        owners.check_day()
        folder, key = config.needs(name, "contributed"), config.file_key()
        config.needs(name, "owners_address")
        parameters, rows, _ = training_tables(config, name)
        assert isinstance(rows, TableRows), "there are no shards"

    def program(party: Party) -> tuple[OwnerFacts, ...]:
        warm_up(config.offline, config.ot)
        with met(config, name) as lines:
            return collect_rows(party, parameters.model_dump(), rows, lines, folder, key, owners)

    # The other party may wait for owners that long.
    patient = config.model_copy(update={"timeout": config.timeout + owners.patience})
    return connected(patient, name, program, doing="contributions were collected")
