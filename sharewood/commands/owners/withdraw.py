"""Delete this party's half of an owner's contribution. The other party deletes its half by the same command.

One of the two deletions makes the other half random. Backups, and models that were trained on the rows, remain: the
command names this party's model if it is one, and `train --without` trains it anew.

Example: sharewood withdraw --config party_a.toml --party party_a --owner bank_c
"""

from __future__ import annotations

from typing import Annotated

import typer

from mpc.host.files import file_errors
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.stored import withdraw as delete
from sharewood.commands.options import Config, FilesKey, PartyName
from sharewood.job.config import HostsConfig
from sharewood.logs import say


def withdraw(
    config: Config,
    party: PartyName,
    owner: Annotated[str, typer.Option(help="Who withdraws, by the name in its certificate.")],
    files_key: FilesKey = None,
) -> None:
    job = HostsConfig.read(config, files_key=files_key)
    with file_errors():
        delete(job.needs(party, "contributed"), owner)
    say(f"{owner}: this party's half is deleted")
    path = job.party(party).model
    if path and path.exists():
        used = {name: id for name, id, _ in SharedModel.load(path, job.file_key()).facts.owners}
        if owner in used:
            say(f"{path} was trained on it ({used[owner]}): train it again")
