"""Verify records offline: ledgers, the certificates of those who signed, and the authority that issued them.

Nothing is assumed of who kept the files. What changes a line, removes, inserts or exchanges lines, or was signed by
another, is found. Lines that are missing at the end are found beside the other party's ledger, or a known hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from mpc.errors import DataError
from mpc.host.files import read_bounded
from mpc.host.ledger import Ledger, canonical
from sharewood.record.signatures import is_signed

KIND, FORMAT = "record", 1
# Certificates by the SHA-256 of their DER; those that follow one in its file lead to the authority.
Certificates = Mapping[str, Sequence[x509.Certificate]]


@dataclass
class Verified:
    """A ledger whose chain and signatures hold. unsigned: lines at its end that no signature covers."""

    ledger: Ledger
    records: list[dict[str, Any]] = field(default_factory=list)
    unsigned: int = 0

    @property
    def signers(self) -> list[tuple[str, str]]:
        """The name of each signer with its certificate's SHA-256."""
        found = ((name, own["certificate"]) for each in self.records for name, own in each["parties"].items())
        return list(dict.fromkeys(found))


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate, in hexadecimal."""
    return certificate.fingerprint(SHA256()).hex()


def certificates_in(paths: Iterable[Path]) -> dict[str, list[x509.Certificate]]:
    """Read certificates, or chains that begin with one, in PEM. Raises DataError."""
    found = {}
    for path in paths:
        try:
            chain = x509.load_pem_x509_certificates(read_bounded(path))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: must be a certificate in PEM ({error})") from None
        found[fingerprint(chain[0])] = chain
    return found


def verified(path: Path, certificates: Certificates, authority: Sequence[x509.Certificate] = ()) -> Verified:
    """Verify a ledger. Raises DataError that names the first line in which a fault shows."""
    found = Verified(Ledger(path))
    if found.ledger.cut:
        raise DataError(f"{path}: the last line is not complete: its writer was stopped, or it was changed")
    for number, line in enumerate(found.ledger.lines):
        entry = json.loads(line)
        if canonical(entry) != line:
            raise DataError(f"{path}: number {number} was changed: it is not written as Sharewood writes it")
        found.unsigned += 1
        if is_record(entry):
            try:
                found.records.append(checked_record(line, certificates, authority))
            except DataError as error:
                raise DataError(f"{path}: number {number}: {error}") from None
            found.unsigned = 0
    return found


def is_record(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is a record, or has been one."""
    return "signatures" in entry or entry.get("kind") == KIND


def checked_record(line: str, certificates: Certificates, authority: Sequence[x509.Certificate] = ()) -> dict[str, Any]:
    """Return a record, after its two signatures have been checked. Raises DataError."""
    entry: dict[str, Any] = json.loads(line)
    try:
        signatures, parties = entry.pop("signatures"), entry["parties"]
        if entry["format"] != FORMAT or not signatures.keys() == parties.keys() or len(parties) != 2:
            raise DataError(f"the record must have format {FORMAT} and the signatures of its two parties")
        statement = canonical(entry)
        for name, own in parties.items():
            chain = certificates.get(own["certificate"])
            if chain is None:
                raise DataError(f"the certificate of {name} is not among those given: {own['certificate']}")
            _check_certificate(name, chain, datetime.fromisoformat(own["time"]), authority)
            if not is_signed(chain[0], statement, signatures[name]):
                raise DataError(f"the signature of {name} does not match: the line was changed, or signed by another")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the record lacks a part, or has one that does not fit ({error!r:.100})") from None
    return entry


def check_equal(ledgers: Sequence[Verified], head: str | None = None) -> None:
    """Check that all ledgers have the same lines, and that `head` is the last hash. Raises DataError."""
    longest = max(ledgers, key=lambda each: len(each.ledger.lines)).ledger
    for each in (one.ledger for one in ledgers):
        count = len(each.lines)
        if each.lines != longest.lines[:count]:
            place = next(i for i, (x, y) in enumerate(zip(each.lines, longest.lines, strict=False)) if x != y)
            raise DataError(f"{each.path} and {longest.path} differ in number {place}")
        if missing := len(longest.lines) - count:
            raise DataError(
                f"{each.path} lacks the last {missing} of the {len(longest.lines)} lines of {longest.path}: they were "
                "removed, or its party was stopped before it could write them"
            )
    if head is not None and head != longest.head:
        raise DataError(f"{longest.path}: the last line must have the hash {head}, got {longest.head}")


def _check_certificate(
    name: str, chain: Sequence[x509.Certificate], time: datetime, authority: Sequence[x509.Certificate]
) -> None:
    """Check that a certificate is that of `name` and, given an authority, that it was valid at the time."""
    try:
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        known = []
    if name not in known:
        raise DataError(f"the certificate of {name} has another name: {', '.join(known) or 'none'}")
    if authority:
        try:
            policy = PolicyBuilder().store(Store(list(authority))).time(time.replace(tzinfo=None))
            policy.build_client_verifier().verify(chain[0], list(chain[1:]))
        except VerificationError as error:
            raise DataError(
                f"the certificate of {name} was not valid on {time:%Y-%m-%d}, or the authority has not issued it "
                f"({error})"
            ) from None
