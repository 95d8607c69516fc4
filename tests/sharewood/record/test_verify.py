"""Whatever is changed in 200 records is found offline, at any place."""

import json
import random
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpc.errors import DataError
from mpc.host.ledger import canonical, hash_of
from protocols.transport.certificates import Authority, Credentials, make_credentials
from sharewood.record.signatures import sign
from sharewood.record.verify import certificates_in, check_equal, verified
from tests.sharewood.commands.hosting import ROLES
from tests.sharewood.record.recording import many, prepare

COUNT = 200
ANYWHERE = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = prepare(tmp_path_factory.mktemp("signed"))
    return folder, many(folder, COUNT)


def known(folder):
    return certificates_in((folder / "keys").glob("party_?.crt"))


def authority(folder):
    [[found]] = certificates_in([folder / "keys" / "authority.crt"]).values()
    return [found]


def refused(folder, data, match=""):
    """Verify other bytes as a ledger beside the other party's, which must find what was changed."""
    path = folder / "changed.jsonl"
    path.write_bytes(data)
    with pytest.raises(DataError, match=match):
        verified(path, known(folder), authority(folder))


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def test_200_records_are_verified(signed):
    folder, paths = signed
    found = [verified(path, known(folder), authority(folder)) for path in paths]
    check_equal(found, found[1].ledger.head)
    assert [len(each.records) for each in found] == [COUNT, COUNT] and found[0].unsigned == 0
    assert [name for name, _ in found[0].signers] == list(ROLES[:2])
    runs = {each["run"] for each in found[0].records}
    assert len(runs) == COUNT and paths[0].read_bytes() == paths[1].read_bytes()


@ANYWHERE
@given(place=st.integers(0, 1 << 30), bit=st.integers(0, 7))
def test_a_bit_changed_anywhere_is_found(signed, place, bit):
    folder, paths = signed
    data = bytearray(paths[0].read_bytes())
    data[place % len(data)] ^= 1 << bit
    refused(folder, bytes(data))


def test_a_bit_of_every_byte_is_found(tmp_path):
    """Every byte of two records, with each bit of it in turn; of the last record, which no other covers, four bits."""
    folder = prepare(tmp_path)
    data = many(folder, 2)[0].read_bytes()
    certificates, roots = known(folder), authority(folder)
    path, last = tmp_path / "changed.jsonl", data.index(b"\n") + 1
    for place in range(len(data)):
        for bit in random.Random(place).sample(range(8), 1 if place < last else 4):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(DataError):
                verified(path, certificates, roots)


@ANYWHERE
@given(place=st.integers(0, COUNT - 2))
def test_a_missing_record_is_found(signed, place):
    folder, paths = signed
    lines = lines_of(paths[0])
    refused(folder, b"".join(lines[:place] + lines[place + 1 :]), "does not follow")


@ANYWHERE
@given(places=st.lists(st.integers(0, COUNT - 1), min_size=2, max_size=2, unique=True))
def test_swapped_records_are_found(signed, places):
    folder, paths = signed
    lines, (i, j) = lines_of(paths[0]), places
    lines[i], lines[j] = lines[j], lines[i]
    refused(folder, b"".join(lines), "does not follow")


@pytest.mark.parametrize("missing", [1, 2, COUNT])
def test_missing_lines_at_the_end_are_found_beside_the_other_ledger_or_a_hash(signed, missing):
    folder, paths = signed
    whole = verified(paths[1], known(folder))
    path = folder / "short.jsonl"
    path.write_bytes(b"".join(lines_of(paths[0])[:-missing]))
    short = verified(path, known(folder), authority(folder))  # by itself, nothing is wrong with it
    for pair in ([short, whole], [whole, short]):
        with pytest.raises(
            DataError, match=rf"short\.jsonl lacks the last {missing} of the {COUNT} lines of .*b\.jsonl"
        ):
            check_equal(pair)
    with pytest.raises(DataError, match="the last line must have the hash"):
        check_equal([short], whole.ledger.head)


def rewritten(folder, change, credentials):
    """Return the bytes of two records, of which the last is changed and signed anew, and the certificates."""
    lines = [line.decode().rstrip("\n") for line in lines_of(folder / "a.jsonl")]
    *before, last = lines
    entry = json.loads(last)
    del entry["signatures"]
    change(entry)
    statement = canonical(entry)
    entry["signatures"] = {name: sign(credentials[name], statement) for name in entry["parties"]}
    return "".join(f"{line}\n" for line in [*before, canonical(entry)]).encode()


@pytest.fixture
def two(tmp_path):
    folder = prepare(tmp_path)
    many(folder, 2)
    return folder


def test_records_signed_by_others_are_found(two):
    strangers = make_credentials(ROLES)
    named = make_credentials(ROLES, authority=Authority.kept(two / "ca"))
    refused(two, rewritten(two, lambda entry: None, strangers), "the signature of party_a does not match")
    for name in ROLES:
        strangers[name].save(two / "strange", name)
        named[name].save(two / "named", name)
    of_strangers = certificates_in([two / "strange" / f"{name}.crt" for name in ROLES])
    prints = dict(zip(ROLES, of_strangers, strict=True))

    def claim(*names):
        def change(entry):
            for name, of in zip(ROLES[:2], names, strict=True):
                entry["parties"][name]["certificate"] = prints[of]

        return change

    data = rewritten(two, claim(*ROLES[:2]), strangers)
    refused(two, data, "the certificate of party_a is not among those given")
    path = two / "changed.jsonl"
    path.write_bytes(data)
    both = {**known(two), **of_strangers}
    with pytest.raises(DataError, match=r"of party_a was not valid on .*, or the authority has not issued it"):
        verified(path, both, authority(two))
    # A dealer of the same authority, who says that it is party b.
    path.write_bytes(rewritten(two, claim("party_a", "dealer"), {**strangers, "party_b": strangers["dealer"]}))
    with pytest.raises(DataError, match="the certificate of party_b has another name: dealer"):
        verified(path, both)


def test_parts_that_do_not_fit(two):
    lines = lines_of(two / "a.jsonl")
    for part in (b'"signatures"', b'"parties"', b'"format"', b'"time"'):
        refused(two, lines[0] + lines[1].replace(part, b'"z_' + part[1:]))
    credentials = make_credentials(ROLES)
    refused(two, rewritten(two, lambda e: e.update(format=2), credentials), "must have format 1")
    refused(two, rewritten(two, lambda e: e["parties"].pop("party_b"), credentials), "signatures of its two parties")
    refused(two, lines[0] + lines[1].rstrip(b"\n"), "the last line is not complete")
    refused(two, lines[0] + lines[1].replace(b'"number":1', b'"number": 1'), "is not written as Sharewood writes it")


def test_a_certificate_that_has_expired_since_was_valid_then(two):
    """Verification years later uses the time of the record."""
    found = verified(two / "a.jsonl", known(two), authority(two))
    assert len(found.records) == 2
    credentials = {name: Credentials.load(two / "keys", name) for name in ROLES[:2]}

    def later(entry):
        for own in entry["parties"].values():
            own["time"] = "2031-01-01T00:00:00+00:00"

    refused(two, rewritten(two, later, credentials), "was not valid on 2031-01-01")


def test_other_ledgers_are_told_apart(two, tmp_path_factory):
    other = prepare(tmp_path_factory.mktemp("other"))
    shutil.rmtree(other / "keys")
    shutil.copytree(two / "keys", other / "keys")
    many(other, 2)
    pair = [verified(folder / "a.jsonl", known(two), authority(two)) for folder in (two, other)]
    with pytest.raises(DataError, match="differ in number 0"):
        check_equal(pair)
    assert pair[0].ledger.head == hash_of(pair[0].ledger.lines[-1])
