"""How a run between hosts ends with a record: a statement about it that both parties sign with their keys of TLS.

Functionality  each party brings what it knows -> one line in the ledgers of both, with two signatures, or none
Messages       record.begin: the lines and head of the ledger; record.facts: a party's part of the statement;
               record.signature: its signature of the whole                         (a round each, in full duplex)
Cost           `cost`: a round for each message; the bytes are those of the facts, the configuration and two lines
Security       a signature is checked before its line is written. The exchange is not fair: who stops after it has
               received the other's signature may have a record that the other lacks, until their next run
Source         hash chains: Haber and Stornetta, Journal of Cryptology 3(2), 1991
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import Field

from mpc.errors import ConfigError, DataError, PeerFailure, SharewoodError
from mpc.host.files import write_once
from mpc.host.ledger import Ledger, canonical, hash_of
from mpc.party import Party
from protocols.transport.channel import Channel
from protocols.transport.codec import encode
from secure_tree.agreement.messages import VERSION, Count, Hexadecimal, Line, Message, Text, exchange
from secure_tree.agreement.releases import Heads, heads, releases
from sharewood import __version__
from sharewood.job.config import HostsConfig
from sharewood.record.signatures import is_signed, sign
from sharewood.record.verify import FORMAT, KIND, certificates_in, checked_record, fingerprint, is_record
from sharewood.report.digests import kept_key, keyed_digest
from sharewood.report.figures import merge_texts
from sharewood.tables.files import writable

log = logging.getLogger("sharewood")
DAY = 86_400


class Facts(Heads):
    """A party's part of a statement. common: what must be equal at both, in JSON; learned: what this party learned."""

    job: Text
    release: Text
    seconds: Count
    token: Hexadecimal
    rows: Count | None
    tables: dict[Text, Hexadecimal]
    learned: list[Line]
    answered: dict[Text, Count]
    common: Line


class Signature(Message):
    """A signature of the statement, in hexadecimal."""

    signature: Annotated[str, Field(max_length=2048)]


class Record:
    """The record of a run at one party, which is written if the party keeps a ledger and is connected by TLS.

    `read` are the files that the run reads, by role. Keyed digests of them are in the statement; their key is made of
    the file LEDGER.key, which stays at this party. Raises DataError.
    """

    def __init__(self, config: HostsConfig, name: str, job: str, **read: Path | None) -> None:
        self._config, self._name, self._job = config, name, job
        path = config.party(name).ledger
        self._ledger = None if path is None else Ledger(path)
        self._token, self._tables = secrets.token_hex(16), dict[str, str]()
        self._failure: SharewoodError | None = None
        self._day = int(time.time()) // DAY
        # Seconds to wait for other runs.
        self.patience = 60.0
        self.line: dict[str, Any] | None = None
        # Whether this party has both signatures; if it cannot write the line, the other party has it.
        self.signed = False
        if path:
            writable(path)
            key = table_key(kept_key(key_file(path)), self._token)
            self._tables = {role: keyed_digest(key, file) for role, file in read.items() if file}

    def begin(self, party: Party) -> None:
        """Check before a run that both ledgers have the same lines. Raises DataError, and ConfigError of versions."""
        if self._ledger is None:
            return
        if not isinstance(party.link, Channel) or not party.link.certificate:
            log.warning("there is no record of this run: the parties are not connected by TLS")
            self._ledger = None
            return
        self._credentials = self._config.credentials(self._name)
        own = x509.load_pem_x509_certificates(self._credentials.certificate)
        other = x509.load_der_x509_certificate(party.link.certificate)
        self._certificates = own[0], other
        for who, chain in ((self._name, own), (party.link.peer, [other])):
            place = self._ledger.path.with_name(f"{who}.{fingerprint(chain[0])[:16]}.crt")
            write_once(place, b"".join(each.public_bytes(Encoding.PEM) for each in chain))
        with self._turn(party) as kept_out:
            theirs = exchange(party, "record.begin", Heads.of(**heads(self._ledger)))
            if kept_out:
                raise kept_out
            self._agree(party, theirs)

    def end(
        self,
        party: Party,
        configuration: Mapping[str, Any],
        results: Mapping[str, Any],
        *,
        rows: int | None = None,
        entries: Sequence[int] = (),
        answered: Mapping[str, int] | None = None,
        learned: Sequence[str] = (),
    ) -> None:
        """State what was done, and write the line that both have signed; `settle` raises what has failed.

        `configuration` and `results` must be the same at both parties; `rows` are this party's, `entries` the numbers
        of lines that the run itself has written, `answered` the rows of each client, and `learned` what this party has
        learned besides what `party` has recorded.
        """
        if self._ledger is None:
            return
        self._failure, self.line, self.signed = None, None, False
        asked = {**configuration, "session": self._config.network.expected(True)}
        try:
            with self._turn(party) as kept_out:
                mine = Facts.of(
                    **heads(self._ledger),
                    job=self._job,
                    release=__version__,
                    seconds=int(time.time()),
                    token=self._token,
                    rows=rows,
                    tables=self._tables,
                    learned=merge_texts([*learned, *party.revealed, *party.released]),
                    answered=dict(answered or {}),
                    common=canonical(_plain({"configuration": asked, "results": results, "entries": entries})),
                )
                theirs = exchange(party, "record.facts", mine)
                self._day = max(mine.seconds, theirs.seconds) // DAY
                line = self._signed(party, mine, theirs, kept_out)
                self.signed = True
                self._ledger.append(line, again=True)
        except SharewoodError as failure:
            self._failure = failure
            return
        entry = json.loads(line)
        self.line = {"number": entry["number"], "hash": hash_of(line), "run": entry["run"]}

    @property
    def due(self) -> bool:
        """Whether a new day, by UTC, has begun since the last record."""
        return self._ledger is not None and int(time.time()) // DAY > self._day

    @property
    def report(self) -> dict[str, Any] | None:
        """What the report of the run says: the line, why there is none, or nothing if none is kept."""
        return {"failure": str(self._failure)} if self._failure else self.line

    def settle(self) -> None:
        """Raise the failure of a record that was due; the results of the run are complete."""
        if self._failure:
            raise type(self._failure)(
                f"this run has no record, and its results are written: {self._failure}; they can be used, but nobody "
                "can prove what both agreed to"
            )

    @contextmanager
    def _turn(self, party: Party) -> Iterator[DataError | None]:
        """Yield in this run's turn at the ledger, or why it has none: the other party must be answered all the same."""
        assert self._ledger is not None, "a ledger is kept"
        with ExitStack() as stack:
            failure = None
            try:
                stack.enter_context(self._ledger.turn(party.rank, self.patience))
            except DataError as error:
                failure = error
            yield failure

    def _signed(self, party: Party, mine: Facts, theirs: Facts, kept_out: DataError | None) -> str:
        """Exchange signatures of the statement, and return its line. Raises ConfigError, DataError, PeerFailure."""
        statement, own, failure = "", "", None
        try:
            if kept_out:
                raise kept_out
            self._agree(party, theirs)
            statement = self._statement(party, mine, theirs)
            own = sign(self._credentials, statement)
        except (ConfigError, DataError) as error:
            failure = error
        other = exchange(party, "record.signature", Signature.of(signature=own)).signature
        if failure:
            raise failure
        if not other:
            raise PeerFailure(f"{party.link.peer} does not sign; its log has the reason")
        if not is_signed(self._certificates[1], statement, other):
            raise PeerFailure(f"the signature of {party.link.peer} does not match the statement")
        return canonical({**json.loads(statement), "signatures": {self._name: own, party.link.peer: other}})

    def _statement(self, party: Party, mine: Facts, theirs: Facts) -> str:
        """Return the line without signatures. Raises DataError if the parties disagree."""
        assert self._ledger is not None, "a ledger is kept"
        here = json.loads(mine.common)
        if mine.job != theirs.job:
            raise DataError(f"the parties disagree on the job: {mine.job} here, {theirs.job} at the other")
        if mine.common != theirs.common:
            raise DataError(f"the parties disagree on the statement: {_difference(here, _parsed(theirs.common))}")
        step = 1 if party.rank == 0 else -1
        names, facts, certificates = self._config.names, [mine, theirs][::step], self._certificates[::step]
        entry = {
            "kind": KIND,
            "format": FORMAT,
            "run": _sha256(facts[0].token + facts[1].token + self._ledger.head)[:32],
            "job": mine.job,
            "messages": VERSION,
            "parties": {
                name: {
                    "certificate": fingerprint(certificate),
                    "time": datetime.fromtimestamp(own.seconds, UTC).isoformat(),
                    **own.model_dump(include={"release", "rows", "tables", "token", "learned", "answered"}),
                }
                for name, own, certificate in zip(names, facts, certificates, strict=True)
            },
            **here,
            "configuration_digest": _sha256(canonical(here["configuration"])),
            "entries": {str(number): hash_of(self._ledger.lines[number]) for number in here["entries"]},
            "spent": spent(self._ledger),
        }
        return self._ledger.next(entry)

    def _agree(self, party: Party, theirs: Heads) -> None:
        assert self._ledger is not None, "a ledger is kept"
        # Party 1 may have said what its ledger has while party 0 still waited for its turn.
        self._ledger.agree(theirs.lines, theirs.head, theirs.last, self._mends(), behind=party.rank == 0)

    def _mends(self) -> Callable[[str], None]:
        """Return a check that both parties have signed a line which only the other party has written."""
        assert self._ledger is not None, "a ledger is kept"
        folder = self._ledger.path.parent

        def check(line: str) -> None:
            if is_record(json.loads(line)):
                paths = [p for name in self._config.names for p in folder.glob(f"{name}.*.crt")]
                checked_record(line, certificates_in(paths))

        return check


def key_file(ledger: Path) -> Path:
    """Return the file with the key of a party's digests, beside its ledger."""
    return ledger.with_name(ledger.name + ".key")


def table_key(key: bytes, token: str) -> bytes:
    """Return the key of one record's digests: who learns it can test tables against this record, and no other."""
    return hmac.digest(key, b"sharewood tables " + bytes.fromhex(token), "sha256")


def spent(ledger: Ledger) -> dict[str, dict[str, float]]:
    """Return the bits and rho that the releases in a ledger have told about each label."""
    found: dict[str, dict[str, float]] = {}
    for release in releases(ledger, "explore", "monitor"):
        of_label = found.setdefault(release.label, {"bits": 0, "rho": 0.0})
        of_label["bits"] += release.bits
        of_label["rho"] += release.rho
    return found


def cost(*sent: Message) -> tuple[int, int]:
    """Return the rounds of the messages that a party sends for a record, and their bytes."""
    trees = ({"version": VERSION, **message.model_dump()} for message in sent)
    return len(sent), sum(len(part) for tree in trees for part in encode(tree))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parsed(text: str) -> Any:
    """Return what JSON of the other party says, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _difference(here: Any, there: Any, of: str = "") -> str:
    """Name the first part in which two objects differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        for name in sorted(here.keys() | there.keys()):
            if here.get(name) != there.get(name):
                return _difference(here.get(name), there.get(name), f"{of}.{name}".lstrip("."))
    return f"{of or 'its form'}: {here!r:.60} here, {there!r:.60} at the other"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
