"""Contribute an owner's rows to a training of two parties, in halves that say nothing by themselves.

Start it before or after the parties' `train`: each waits for the others. The owner may leave when it has its receipts.

Example: sharewood contribute --config owner.toml
"""

from __future__ import annotations

from mpc.host.files import file_errors
from sharewood.commands.options import Config, Passphrase
from sharewood.job.owners import OwnerConfig, contribution_of
from sharewood.logs import in_json, say, say_document


def contribute(config: Config, passphrase: Passphrase = None) -> None:
    job = OwnerConfig.read(config, passphrase=passphrase)
    with file_errors():
        receipt = contribution_of(job)
    if in_json():
        say_document(receipt)
    else:
        parties = " and ".join(sorted(job.parties))
        say(f"contributed {receipt['rows']:,} rows to {parties}, {receipt['bytes'] / 1e6:.1f} MB: {receipt['id']}")
