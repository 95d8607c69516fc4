"""How two parties make a record: cost, faults between signature and line, several runs at once, refusals."""

import json
import os
import re
import threading
from contextlib import nullcontext

import pytest

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host import ledger as ledgers
from mpc.host.files import make_folder
from mpc.host.ledger import Ledger
from secure_tree.agreement import messages
from sharewood.record import keeping
from sharewood.record.keeping import Record, cost, key_file, spent, table_key
from sharewood.record.verify import certificates_in, check_equal, verified
from sharewood.report.digests import keyed_digest
from tests.sharewood.record.recording import LEDGERS, at_both, prepare, record


@pytest.fixture
def place(tmp_path):
    return prepare(tmp_path)


def both(folder):
    """Verify both ledgers, which must be equal."""
    found = [verified(folder / name, certificates_in(folder.glob("party_?.*.crt"))) for name in LEDGERS]
    check_equal(found)
    return found[0]


def test_a_record_says_who_what_and_when(place):
    made = at_both(place, record)
    assert made[0].line == made[1].line == made[0].report and made[0].line["number"] == 0
    [entry] = both(place).records
    assert entry["job"] == "train" and entry["results"]["metrics"] == {"auc": 0.75, "gini": None}
    assert entry["configuration"]["max_depth"] == 3 and entry["configuration"]["session"]["offline"] == "dealer"
    parties = entry["parties"]
    assert [own["rows"] for own in parties.values()] == [100, 101]
    for (name, own), p in zip(parties.items(), "ab", strict=True):
        key = table_key(key_file(place / f"{p}.jsonl").read_bytes(), own["token"])
        assert own["tables"] == {"train_data": keyed_digest(key, place / f"{p}.csv")}
        assert certificates_in([place / "keys" / f"{name}.crt"]).keys() == {own["certificate"]}
    # A second record of the same table has another digest, and another run.
    at_both(place, record)
    first, second = both(place).records
    assert first["run"] != second["run"]
    assert first["parties"]["party_a"]["tables"] != second["parties"]["party_a"]["tables"]


def test_the_cost_of_a_record(place, monkeypatch):
    """Three rounds: the heads of the ledgers; the facts; the signatures."""
    exchange, sent = keeping.exchange, {0: [], 1: []}
    monkeypatch.setattr(
        keeping, "exchange", lambda party, tag, mine: sent[party.rank].append(mine) or exchange(party, tag, mine)
    )
    at_both(place, record)
    for messages_of in sent.values():
        messages_of.clear()

    def job(party, config, name):
        rounds, before = party.meter.total.rounds, party.link.payload_sent
        record(party, config, name)
        return party.meter.total.rounds - rounds, party.link.payload_sent - before

    assert at_both(place, job) == [cost(*sent[rank]) for rank in (0, 1)]
    rounds, sizes = len(sent[0]), [cost(each)[1] for each in sent[0]]
    first, second = (place / "a.jsonl").read_text().splitlines()
    assert rounds == 3 and len(sent[0][2].signature) == 128
    # The heads and the facts have the last line; the facts have this party's part of the next one.
    assert len(first) < sizes[0] < len(first) + 200 and sizes[2] < 200
    assert len(first) < sizes[1] < len(first) + len(second)


def test_without_a_ledger_nothing_is_sent(place):
    for p in "ab":
        path = place / f"party_{p}.toml"
        path.write_text(path.read_text().replace(f'ledger = "{p}.jsonl"\n', ""))

    def job(party, config, name):
        made = record(party, config, name)
        return made.report, party.meter.total.rounds, made.settle()

    assert at_both(place, job) == [(None, 0, None)] * 2 and not list(place.glob("*.key"))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_crash_between_signature_and_line_is_mended_by_the_next_run(place, monkeypatch, rank):
    append = Ledger.append

    def crash(self, line, again=False):
        if self.path.name == LEDGERS[rank]:
            raise DataError("stopped")
        append(self, line, again)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", crash)
        at_both(place, record)
    assert [len(Ledger(place / name).lines) for name in LEDGERS] == [rank, 1 - rank]
    at_both(place, lambda *given: record(*given).settle())
    assert len(both(place).records) == 2


def test_a_crash_of_both_leaves_no_line_and_the_next_run_goes_on(place, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", lambda *_, **__: (_ for _ in ()).throw(DataError("stopped")))
        made = at_both(place, record)
    assert [each.report for each in made] == [{"failure": "stopped"}] * 2
    at_both(place, record)
    assert len(both(place).records) == 1


def test_a_line_that_only_the_other_party_signed_is_not_mended(place):
    at_both(place, record)
    ledger = Ledger(place / "b.jsonl")
    entry = json.loads(ledger.lines[0]) | {"number": 1, "previous": ledger.head}
    ledger.append(ledgers.canonical(entry))
    with pytest.raises(DataError, match="the signature of party_a does not match"):
        at_both(place, record)
    assert len(Ledger(place / "a.jsonl").lines) == 1


def test_a_wrong_signature_gives_no_line_and_keeps_the_results(place, monkeypatch):
    sign, honest = keeping.sign, (place / "keys" / "party_a.crt").read_bytes()
    monkeypatch.setattr(keeping, "sign", lambda own, text: sign(own, text + " " * (own.certificate != honest)))
    made = at_both(place, record)
    with pytest.raises(
        PeerFailure, match="this run has no record, and its results are written: the signature of party_b"
    ):
        made[0].settle()
    assert Ledger(place / "a.jsonl").lines == []


def test_a_disk_that_is_full(place, monkeypatch):
    """A party that cannot write its line reports it, and the next run adds the line."""
    write = os.fsync

    def full(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("a.jsonl"):
            raise OSError(28, "No space left on device")
        return write(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        made = at_both(place, record)
    with pytest.raises(
        DataError, match=r"a\.jsonl: the ledger cannot be written \(No space left on device\); they can"
    ):
        made[0].settle()
    made[1].settle()
    at_both(place, record)
    assert len(both(place).records) == 2


def test_what_differs_is_named_and_nothing_is_written(place):
    made = at_both(
        place, lambda party, *given: record(party, *given, results={"model": "ab", "m": {"auc": party.rank}})
    )
    for each in made:
        with pytest.raises(DataError, match=r"the parties disagree on the statement: results\.m\.auc: [01] here, [01]"):
            each.settle()
    made = at_both(place, lambda party, *given: record(party, *given, job=("train", "predict")[party.rank]))
    assert "disagree on the job" in made[0].report["failure"]
    assert Ledger(place / "a.jsonl").lines == Ledger(place / "b.jsonl").lines == []


def test_other_ledgers_are_refused_before_the_run(place):
    ledger = Ledger(place / "a.jsonl")
    ledger.append(ledger.next({"kind": "other"}))
    for _ in range(2):
        ledger = Ledger(place / "b.jsonl")
        ledger.append(ledger.next({"kind": "test"}))
    with pytest.raises(DataError, match="the ledgers of the parties differ"):
        at_both(place, record)


def test_a_peer_of_another_version(place):
    def job(party, config, name):
        if party.rank == 0:
            return record(party, config, name)
        party.exchange_public("record.begin", {"version": messages.VERSION - 1, "lines": 0})

    with pytest.raises(ConfigError, match=f"runs version {messages.VERSION - 1} of Sharewood's messages"):
        at_both(place, job)


@pytest.mark.parametrize("reply", [None, {"version": messages.VERSION}, {"version": messages.VERSION, "signature": 7}])
def test_a_peer_that_does_not_sign(place, reply):
    def job(party, config, name):
        if party.rank == 1:
            exchange = party.exchange_public
            party.exchange_public = lambda tag, tree: exchange(tag, reply if tag == "record.signature" else tree)
        return record(party, config, name)

    made = at_both(place, job)
    assert "record.signature" in made[0].report["failure"] and Ledger(place / "a.jsonl").lines == []


def test_several_runs_at_once_have_one_chain(place):
    """Four pairs of parties write ten records each to the same two ledgers."""
    failures = []

    def run():
        try:
            at_both(place, lambda *given: [record(*given, number).settle() for number in range(10)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == [] and len(both(place).records) == 40


def test_a_run_that_keeps_its_turn_too_long(place, monkeypatch):
    ledger = Ledger(place / "a.jsonl")
    with (
        ledger.turn(0),
        pytest.raises(DataError, match=r"another run has been writing for 0\.1 s"),
        ledger.turn(0, 0.1),
    ):
        pass

    def job(party, config, name):
        made = Record(config, name, "train")
        made.patience = 0.1
        made.begin(party)
        with ledger.turn(0) if party.rank == 0 else nullcontext():
            made.end(party, {}, {})
        first = made.report
        made.end(party, {}, {})  # the parties are still in step
        return first, made.report

    (a, last), (b, _) = at_both(place, job)
    assert (
        "another run has been writing" in a["failure"]
        and b["failure"] == "party_a does not sign; its log has the reason"
    )
    assert last["number"] == 0 and len(both(place).records) == 1
    with ledger.turn(0), Ledger(place / "a.jsonl").turn(1):
        pass


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "lies",
    [
        {"common": "{"},
        {"common": DEEP},
        {"common": '{"configuration": {"max_depth": 4}}'},
        {"lines": 1, "head": ledgers.hash_of(DEEP), "last": DEEP},
    ],
)
def test_a_peer_that_says_what_does_not_fit(place, lies):
    def job(party, config, name):
        if party.rank == 1:
            exchange = party.exchange_public
            party.exchange_public = lambda tag, tree: exchange(tag, tree | lies if tag == "record.facts" else tree)
        return record(party, config, name)

    made = at_both(place, job)
    assert re.search("disagree on the statement|the ledgers of the parties differ", made[0].report["failure"])
    assert made[1].report["failure"] == "party_a does not sign; its log has the reason"


def test_a_line_that_is_no_release(place):
    for name in LEDGERS:
        ledger = Ledger(place / name)
        ledger.append(ledger.next({"kind": "explore", "label": 3}))
    made = at_both(place, record)
    assert all("is no release of an exploration" in each.report["failure"] for each in made)


def test_releases_are_named_and_added_up(place):
    for name in LEDGERS:
        ledger = Ledger(place / name)
        for bits in (3, 4):
            ledger.append(ledger.next({"kind": "explore", "label": "bad", "bits": bits, "rho": 0.5}))
    at_both(place, lambda *given: record(*given, entries=[1]))
    [entry] = both(place).records
    assert entry["spent"] == {"bad": {"bits": 7, "rho": 1.0}} == spent(Ledger(place / "a.jsonl"))
    assert entry["entries"] == {"1": ledgers.hash_of(Ledger(place / "a.jsonl").lines[1])}


def test_a_ledger_that_cannot_be_kept(place):
    (place / "a.jsonl.key").write_bytes(b"short")
    with pytest.raises(DataError, match="the key of digests must have 32 bytes, got 5"):
        at_both(place, record)
    (place / "a.jsonl.key").unlink()
    make_folder(place / "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl"):
        at_both(place, record)


def test_no_tls_no_record(place):
    def job(party, config, name):
        party.link._link.certificate = b""
        made = Record(config, name, "train")
        made.begin(party)
        made.end(party, {}, {})
        return made.report

    assert at_both(place, job) == [None, None]
