"""Verify, show and summarise the records that both parties have signed, offline.

Example: sharewood record verify ledgers/ --authority authority.crt
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mpc.errors import DataError
from mpc.host.files import read_bounded, write_bytes
from secure_tree.model.storage import write_json
from sharewood.commands.options import Json, Query
from sharewood.job.apart import check_apart
from sharewood.logs import in_json, say, say_document
from sharewood.record.card import card_page, model_card, summaries
from sharewood.record.keeping import key_file, table_key
from sharewood.record.verify import Verified, certificates_in, check_equal, verified
from sharewood.report.digests import keyed_digest
from sharewood.sources.copies import copied
from sharewood.sources.reference import named_table

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

Where = Annotated[list[Path], typer.Argument(help="Ledgers, or folders with *.jsonl and the certificates, *.crt.")]
Certificate = Annotated[
    list[Path] | None, typer.Option("--certificate", help="Certificates to trust instead of those of the folders.")
]
Authority = Annotated[
    Path | None, typer.Option(help="Certificate of the authority that must have issued those of the parties.")
]


@app.command()
def verify(
    where: Where,
    certificate: Certificate = None,
    authority: Authority = None,
    head: Annotated[str | None, typer.Option(help="The hash that the last line must have.")] = None,
) -> None:
    """Check chain, signatures and certificates of ledgers, and that those of both parties have the same lines."""
    found = _read(where, certificate, authority)
    check_equal(found, head)
    for each in found:
        ledger = each.ledger
        say(f"{ledger.path}: {len(ledger.lines)} lines, {len(each.records)} records; the last hash is {ledger.head}")
        if each.unsigned:
            say(f"{ledger.path}: no signature covers the last {each.unsigned} lines")
    for name, digest in dict.fromkeys(signer for each in found for signer in each.signers):
        say(f"signed by {name}, whose certificate has the SHA-256 {digest}")
    if authority is None:
        say("the certificates were not checked against an authority: compare their SHA-256, or use --authority")
    if len(found) == 1 and head is None:
        say("lines that are missing at the end would not be noticed: compare with the other party's ledger, or --head")


@app.command()
def show(where: Where, certificate: Certificate = None, authority: Authority = None) -> None:
    """List the records of a ledger, after they have been verified."""
    found = _read(where, certificate, authority)
    check_equal(found)
    if in_json():
        say_document({"records": found[0].records})
        return
    table = Table("number", "time", "run", "signed by", "model", title=str(found[0].ledger.path), title_justify="left")
    for row in summaries(found[0]):
        table.add_row(*row)
    Console().print(table)


@app.command()
def card(
    where: Where,
    model: Annotated[str | None, typer.Option(help="Id of the model; by default that of the last training.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the card as a page to this file.")] = None,
    json: Json = None,
    certificate: Certificate = None,
    authority: Authority = None,
) -> None:
    """Write the card of a model from its records, after they have been verified."""
    check_apart({"--page": page, "--json": json}, {str(path): path for path in where if path.is_file()})
    found = _read(where, certificate, authority)
    check_equal(found)
    made = model_card(found[0], model)
    if page:
        write_bytes(page, card_page(made).encode())
    if json:
        write_json(json, made)
    trained = made["training"]["number"]
    say(f"model {made['model']}: trained in number {trained}, used in {len(made['uses'])} later runs")


@app.command()
def table(
    ledger: Annotated[Path, typer.Argument(help="A ledger.")],
    number: Annotated[int, typer.Argument(min=0, help="The number of a record.")],
    file: Annotated[
        str, typer.Argument(help="The table: a file, a folder of tables, postgresql://..., duckdb:FILE or s3://....")
    ],
    query: Query = None,
    key: Annotated[str | None, typer.Option(help="The key that the owner of the table has shown.")] = None,
    certificate: Certificate = None,
    authority: Authority = None,
) -> None:
    """Prove that a table is the one of a record: find its digest, and print the key with which others find it, too."""
    [found] = _read([ledger], certificate, authority)
    record = next((each for each in found.records if each["number"] == number), None)
    if record is None:
        raise DataError(f"{ledger}: number {number} is not a record")
    brought = named_table(file, query)
    with copied({"table": brought}) as files:
        for name, own in record["parties"].items():
            try:
                secret = bytes.fromhex(key) if key else table_key(read_bounded(key_file(ledger)), own["token"])
            except (OSError, ValueError):
                raise DataError(
                    f"the key must be given by --key, in hexadecimal, or be in {key_file(ledger)}, as its owner has it"
                ) from None
            digest = keyed_digest(secret, files["table"])
            for role, stated in own["tables"].items():
                if hmac.compare_digest(digest, stated):
                    found_as = f"{brought} is {role} of {name} in number {number}"
                    say(f"{found_as}; whoever gets it and this key can check that:")
                    say(secret.hex())
                    return
    raise DataError(f"{brought}: no table of number {number} has this digest, under this key")


def _read(where: Sequence[Path], certificate: Sequence[Path] | None, authority: Path | None) -> list[Verified]:
    """Read and verify ledgers. Raises DataError."""
    folders = [path if path.is_dir() else path.parent for path in where]
    ledgers = [p for path in where for p in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not ledgers or (absent := [path for path in ledgers if not path.exists()]):
        raise DataError(f"{absent[0] if ledgers else where[0]}: there is no ledger")
    known = certificates_in(certificate or sorted({p for folder in folders for p in folder.glob("*.crt")}))
    trusted = [each for chain in certificates_in([authority]).values() for each in chain] if authority else []
    return [verified(path, known, trusted) for path in ledgers]
