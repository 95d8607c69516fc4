"""Who is who on the wire: X.509 credentials for mutual TLS 1.3.

A party is known by a DNS name in the subjectAltName of its certificate; both parties trust the same
authority.
"""

import datetime as dt
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mpc.errors import ConfigError


@dataclass(frozen=True)
class Credentials:
    """One party's own certificate (chain) and private key, and the authority it trusts; all PEM."""

    certificate: bytes
    private_key: bytes = field(repr=False)
    authority: bytes

    @classmethod
    def from_files(cls, certificate: Path, private_key: Path, authority: Path) -> Self:
        """Raises ConfigError when a file cannot be read."""
        try:
            return cls(*(Path(path).read_bytes() for path in (certificate, private_key, authority)))
        except OSError as error:
            raise ConfigError(f"credentials: {error}") from error

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Mutual TLS 1.3.  Names are left to the caller to check.  Raises ConfigError for unusable PEM."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            context.num_tickets = 0  # sessions are never resumed, and tickets would blur the meter
        try:
            context.load_verify_locations(cadata=self.authority.decode("ascii"))
            # OpenSSL reads keys from files only: one that nobody else may read, for a moment.
            with tempfile.TemporaryDirectory(prefix="sharewood-") as folder:
                path = os.path.join(folder, "key.pem")
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(self.private_key + b"\n" + self.certificate)
                context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"credentials: {error}") from error
        return context

    def save(self, folder: Path, name: str) -> None:
        """Write NAME.crt, NAME.key (for its owner's eyes) and authority.crt. Raises ConfigError; replaces no key."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with open(os.open(folder / f"{name}.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(self.private_key)
            (folder / f"{name}.crt").write_bytes(self.certificate)
            (folder / "authority.crt").write_bytes(self.authority)
        except FileExistsError:
            raise ConfigError(f"{folder / name}.key exists: keys are never replaced, choose another folder") from None
        except OSError as error:
            raise ConfigError(f"credentials: {error}") from error

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """What `save` wrote. Raises ConfigError when files are not there, or do not fit each other."""
        found = cls.from_files(folder / f"{name}.crt", folder / f"{name}.key", folder / "authority.crt")
        try:
            found.context(server=False)
        except ConfigError as error:
            files = f"{name}.crt, {name}.key and authority.crt"
            raise ConfigError(f"{folder}: {files} are not PEM, or do not fit each other") from error
        return found


def expiry(certificate: bytes) -> dt.datetime:
    """The time until which a certificate (PEM) is valid."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def subject_names(certificate: bytes) -> list[str]:
    """The DNS names in the subjectAltName of a certificate (DER)."""
    try:
        extension = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def make_credentials(names: Iterable[str], days: int = 1) -> dict[str, Credentials]:
    """Credentials by an authority whose key is then forgotten, valid for `days`."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _common_name(f"Sharewood one-off authority {secrets.token_hex(8)}")
    authority = (
        _builder(authority_name, authority_name, authority_key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    credentials = {}
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_common_name(name), authority_name, key, days)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        credentials[name] = Credentials(
            certificate=certificate.public_bytes(Encoding.PEM),
            private_key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            authority=authority.public_bytes(Encoding.PEM),
        )
    return credentials


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
