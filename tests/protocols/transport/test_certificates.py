"""Keys stay with their owner and off the disk, certificates state their purpose, and bad files are refused."""

import datetime as dt
import os
import random
import resource
import ssl
import stat
import tempfile

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from mpc.errors import ConfigError, DataError
from protocols.transport.certificates import Authority, Credentials, make_credentials
from tests.protocols.transport.conftest import tcp_pair
from tests.secure_tree.model.mutations import mutated


@pytest.fixture
def keys(credentials, tmp_path):
    credentials["party_a"].save(tmp_path / "keys", "party_a")
    return tmp_path / "keys"


def extensions(pem):
    return x509.load_pem_x509_certificate(pem).extensions


def test_what_is_saved_is_for_its_owner_only(keys):
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}


def test_no_key_touches_a_folder(credentials, monkeypatch):
    opened = []
    monkeypatch.setattr(os, "open", lambda path, *_, **__: opened.append(path))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *_, **__: opened.append("a temporary folder"))
    assert isinstance(credentials["party_a"].context(server=True), ssl.SSLContext)
    assert opened == []


def test_no_memory_for_a_key_is_reported(credentials):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(ConfigError, match=r"cannot keep a private key in memory \(File too large\)"):
            credentials["party_a"].context(server=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o777])
def test_a_key_that_others_can_read_is_refused(keys, mode):
    (keys / "party_a.key").chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"party_a.key: a private key must be readable only by its owner, got mode {mode:04o}: chmod"
    ):
        Credentials.load(keys, "party_a")
    (keys / "party_a.key").chmod(0o400)
    assert Credentials.load(keys, "party_a")


def test_a_missing_or_wrong_passphrase_is_reported(keys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    path = keys / "party_a.key"
    key = load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(ConfigError, match=r"party_a.key .*: the private key has a passphrase: set passphrase"):
        Credentials.load(keys, "party_a")
    for wrong in (b"", b"Secret", b"secret" * 1000):
        with pytest.raises(ConfigError, match=r"the passphrase does not open the private key$"):
            Credentials.load(keys, "party_a", wrong)
    opened = Credentials.load(keys, "party_a", b"secret")
    assert isinstance(opened.context(server=True), ssl.SSLContext) and "secret" not in repr(opened)


def test_a_passphrase_of_a_key_that_has_none_changes_nothing(keys):
    assert Credentials.load(keys, "party_a", b"secret").context(server=False)


def test_keys_are_never_replaced(credentials, keys):
    before = (keys / "party_a.key").read_bytes()
    with pytest.raises(ConfigError, match="keys are never replaced"):
        credentials["party_b"].save(keys, "party_a")
    assert (keys / "party_a.key").read_bytes() == before


def test_certificates_say_what_they_are_for(credentials):
    own, authority = (extensions(getattr(credentials["party_a"], name)) for name in ("certificate", "authority"))
    used = own.get_extension_for_class(x509.KeyUsage).value
    assert used.digital_signature and not used.key_cert_sign and not used.key_encipherment
    ends = own.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(ends) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not own.get_extension_for_class(x509.BasicConstraints).value.ca
    signs = authority.get_extension_for_class(x509.KeyUsage).value
    assert signs.key_cert_sign and not signs.digital_signature
    assert authority.get_extension_for_class(x509.BasicConstraints).value.ca
    issuer = own.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert issuer == authority.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def test_they_pass_the_strictest_check(credentials):
    pair = [credentials["party_a"], credentials["party_b"]]
    contexts = [own.context(server=server) for own, server in zip(pair, (True, False), strict=True)]
    for context in contexts:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = contexts[0].wrap_bio(there, back, server_side=True), contexts[1].wrap_bio(back, there)
    done = set()
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                pass
    assert done == set(ends)


def test_one_certificate_is_renewed_by_the_same_authority(tmp_path):
    first = make_credentials(["party_a", "party_b"], 30, Authority.kept(tmp_path))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    again = make_credentials(["party_b"], 30, Authority.kept(tmp_path))["party_b"]
    assert again.private_key != first["party_b"].private_key
    a, b = tcp_pair(first["party_a"], again)
    with a, b:
        assert (a.peer, b.peer) == ("party_b", "party_a")


def test_no_certificate_outlives_its_authority():
    authority = Authority.new(dt.timedelta(days=3))
    pem = make_credentials(["party_a"], 30, authority)["party_a"].certificate
    assert x509.load_pem_x509_certificate(pem).not_valid_after_utc == authority.certificate.not_valid_after_utc
    with pytest.raises(ConfigError, match="the authority's certificate expired on"):
        Authority.new(dt.timedelta(minutes=-30)).issue("party_a", 1)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("authority.key", None, "authority.key: the private key cannot be read"),
        ("authority.crt", b"no pem", "cannot be used"),
        ("authority.key", b"", "cannot be used"),
        ("authority.key", make_credentials(["x"])["x"].private_key, "not the key of authority.crt"),
    ],
)
def test_an_unusable_authority_is_reported(tmp_path, name, content, sentence):
    Authority.kept(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        Authority.kept(tmp_path)


def test_a_long_name():
    assert make_credentials(["n" * 200])["n" * 200].context(server=True)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_unusable_keys_and_certificates_are_reported(keys, count):
    rng = random.Random(9)
    names = "party_a.crt", "party_a.key", "authority.crt"
    whole = {name: (keys / name).read_bytes() for name in names}
    refused = 0
    for _ in range(count):
        name = rng.choice(names)
        (keys / name).write_bytes(mutated(whole[name], rng))
        try:
            Credentials.load(keys, "party_a").context(server=True)
        except (ConfigError, DataError) as error:
            assert "\n" not in str(error)
            refused += 1
        (keys / name).write_bytes(whole[name])
    assert refused > 0.5 * count
