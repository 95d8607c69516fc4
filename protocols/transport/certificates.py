"""X.509 credentials for mutual TLS 1.3.

A party is identified by a DNS name in the subjectAltName of its certificate; both parties trust the same
authority.  A private key file must be readable by its owner only, and the key is only ever loaded into memory.
"""

import datetime as dt
import os
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mpc.errors import ConfigError
from mpc.host.files import make_folder, read_bounded, read_private, write_bytes

_AUTHORITY = "authority"
_KEY = "private key"
_LONG = dt.timedelta(days=3650)


@dataclass(frozen=True)
class Credentials:
    """One party's certificate (chain) and private key, and the authority it trusts; all PEM.

    `passphrase` decrypts the private key; None if the key is not encrypted.
    """

    certificate: bytes
    private_key: bytes = field(repr=False)
    authority: bytes
    passphrase: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_files(cls, certificate: Path, private_key: Path, authority: Path, passphrase: bytes | None = None) -> Self:
        """Read the files.  Raises ConfigError if one cannot be read, or if anyone but its owner can read the key."""
        return cls(_read(certificate), read_private(private_key, _KEY), _read(authority), passphrase)

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Return a context for mutual TLS 1.3; the caller checks names.  Raises ConfigError for unusable PEM."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            context.num_tickets = 0  # sessions are never resumed, and tickets would blur the meter
        # OpenSSL reads keys only from files: this file is in memory and has no name.
        try:
            with open(os.memfd_create("sharewood", os.MFD_CLOEXEC), "wb") as file:
                file.write(self.private_key + b"\n" + self.certificate)
                file.flush()
                context.load_verify_locations(cadata=self.authority.decode("ascii"))
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=self._password)
        except (ssl.SSLError, ValueError) as error:
            if self.passphrase is not None and not self._opens():
                raise ConfigError("the passphrase does not open the private key") from None
            reason = getattr(error, "reason", None)
            detail = f" ({reason.lower().replace('_', ' ')})" if reason else ""
            raise ConfigError(f"the credentials are not PEM, or do not match{detail}") from error
        except OSError as error:
            raise ConfigError(f"cannot keep a private key in memory ({error.strerror})") from error
        return context

    def _password(self) -> bytes:
        if self.passphrase is None:
            raise ConfigError(
                "the private key has a passphrase: set passphrase in the configuration, or --passphrase, as "
                "file:PATH or env:NAME"
            )
        return self.passphrase

    def _opens(self) -> bool:
        """Return whether the passphrase decrypts the private key."""
        try:
            load_pem_private_key(self.private_key, self.passphrase or None)
        except TypeError:  # a passphrase for a key that is not encrypted, or none for a key that is
            return bool(self.passphrase)
        except (ValueError, UnsupportedAlgorithm):
            return False
        return True

    def save(self, folder: Path, name: str) -> None:
        """Write NAME.key, NAME.crt and authority.crt; never replace a key. Raises ConfigError, DataError."""
        _save_pair(folder, name, self.private_key, self.certificate)
        write_bytes(folder / f"{_AUTHORITY}.crt", self.authority)

    @classmethod
    def load(cls, folder: Path, name: str, passphrase: bytes | None = None) -> Self:
        """Load what `save` wrote. Raises ConfigError if a file is missing or the files do not match."""
        files = f"{name}.crt", f"{name}.key", f"{_AUTHORITY}.crt"
        certificate, private_key, authority = (folder / file for file in files)
        found = cls.from_files(certificate, private_key, authority, passphrase)
        try:
            found.context(server=False)
        except ConfigError as error:
            raise ConfigError(f"{folder}: {files[0]}, {files[1]} and {files[2]} cannot be used: {error}") from error
        return found


SOON = dt.timedelta(days=30)


def expires_soon(certificate: bytes) -> bool:
    """Return whether a certificate (PEM) is valid for less than 30 days more."""
    return expiry(certificate) - dt.datetime.now(dt.UTC) < SOON


def expiry(certificate: bytes) -> dt.datetime:
    """Return the time until which a certificate (PEM) is valid."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def subject_names(certificate: bytes) -> list[str]:
    """Return the DNS names in the subjectAltName of a certificate (DER)."""
    try:
        extension = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


@dataclass(frozen=True)
class Authority:
    """A certificate authority. Its private key is kept in a folder, or only as long as this object."""

    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def new(cls, valid: dt.timedelta) -> Self:
        """Create an authority that is valid for that long."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _common_name(f"Sharewood authority {secrets.token_hex(8)}")
        certificate = (
            _builder(name, name, key, key, dt.datetime.now(dt.UTC) + valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        )
        return cls(certificate.sign(key, hashes.SHA256()), key)

    @classmethod
    def kept(cls, folder: Path) -> Self:
        """Load the authority in `folder` (authority.crt and authority.key), or create it if there is none.

        Raises ConfigError, DataError.
        """
        paths = folder / f"{_AUTHORITY}.crt", folder / f"{_AUTHORITY}.key"
        if not any(path.exists() for path in paths):
            made = cls.new(_LONG)
            _save_pair(folder, _AUTHORITY, _pem(made.private_key), made.certificate.public_bytes(Encoding.PEM))
            return made
        pem = _read(paths[0]), read_private(paths[1], _KEY)
        try:
            certificate, key = x509.load_pem_x509_certificate(pem[0]), load_pem_private_key(pem[1], None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigError(f"{folder}: authority.crt and authority.key cannot be used: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigError(f"{folder}: authority.key is not the key of authority.crt")
        return cls(certificate, key)

    def issue(self, name: str, days: int) -> Credentials:
        """Issue credentials for `name`, valid for `days` and no longer than the authority. Raises ConfigError."""
        now, last = dt.datetime.now(dt.UTC), self.certificate.not_valid_after_utc
        if last <= now:
            raise ConfigError(f"the authority's certificate expired on {last:%Y-%m-%d}: make a new authority")
        key = ec.generate_private_key(ec.SECP256R1())
        both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        until = min(now + dt.timedelta(days=days), last)
        certificate = (
            _builder(_common_name(name), self.certificate.subject, key, self.private_key, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(both_ends, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.private_key, hashes.SHA256())
        )
        pem = certificate.public_bytes(Encoding.PEM), _pem(key), self.certificate.public_bytes(Encoding.PEM)
        return Credentials(*pem)


def make_credentials(names: Iterable[str], days: int = 1, authority: Authority | None = None) -> dict[str, Credentials]:
    """Issue credentials valid for `days`, by `authority` or by a new one whose key is not kept. Raises ConfigError."""
    authority = authority or Authority.new(dt.timedelta(days=days))
    return {name: authority.issue(name, days) for name in names}


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuers_key: ec.EllipticCurvePrivateKey,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    own, issuers = key.public_key(), issuers_key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers), critical=False)
    )


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in names.split()})


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except OSError as error:
        raise ConfigError(f"{path}: the certificate cannot be read ({error.strerror})") from None


def _save_pair(folder: Path, name: str, key: bytes, certificate: bytes) -> None:
    make_folder(folder)
    if (folder / f"{name}.key").exists():
        raise ConfigError(f"{folder / name}.key exists: keys are never replaced: choose another folder")
    write_bytes(folder / f"{name}.key", key)
    write_bytes(folder / f"{name}.crt", certificate)
