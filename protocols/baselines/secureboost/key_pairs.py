"""Keys by the installed library: sf-heu, or phe with gmpy2 where sf-heu has no wheel."""

from __future__ import annotations

from importlib.util import find_spec

from mpc.errors import ConfigError
from protocols.baselines.secureboost.encryption import Cryptosystem, Library, PrivateKey, PublicKey


def generate_key(cryptosystem: Cryptosystem, bits: int, library: Library | None = None) -> PrivateKey:
    """Generate a key pair with `library`; None: HEU if it is installed. Raises ConfigError if no library can."""
    library = library or ("heu" if find_spec("heu") else "phe")
    if library == "heu":
        from protocols.baselines.secureboost import heu_encryption

        return heu_encryption.generate(cryptosystem, bits)
    if cryptosystem != "paillier":
        raise ConfigError(f"encryption {cryptosystem!r} needs sf-heu; without it there is paillier")
    from protocols.baselines.secureboost import phe_encryption

    return phe_encryption.generate(bits)


def load_public_key(library: Library, encoded: bytes) -> PublicKey:
    """Load the key that `PublicKey.to_bytes` wrote. Raises ProtocolDesync; ConfigError without the guest's library."""
    if library == "heu":
        if not find_spec("heu"):
            raise ConfigError("the guest encrypts with sf-heu, which is not installed on this host")
        from protocols.baselines.secureboost import heu_encryption

        return heu_encryption.HeuPublicKey.from_bytes(encoded)
    from protocols.baselines.secureboost import phe_encryption

    return phe_encryption.PhePublicKey.from_bytes(encoded)
