"""Reveal shares with MACs, once everything opened before matches its MACs.

Functionality  authentic [x] -> x at one party
Messages       both parties commit to digests of what they opened, and open the commitments; x plus a mask of the
               receiver is opened; the digests are compared again
Security       a party that changes any word that it sent makes both end with MacFailure, but for 2^-60 (macs.py)
Source         Damgard et al., CRYPTO 2012: MACs are checked before an output is revealed
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc.authenticated.macs import AuthenticatedShare, Keyring, ReceiverMask, agree, open_authenticated
from mpc.errors import ConfigError, MacFailure
from mpc.party import Party
from mpc.protocol import Z128, Steps, decode_signed


def reveal(party: Party, x: AuthenticatedShare, to: int | None, what: str) -> np.ndarray | None:
    """Open x, integers, at the party `to`, which records that it learned `what`. Raises MacFailure."""
    assert to is not None, "a share with MACs is revealed to one party"
    require_macs(party, x.keyring)
    opened, known = party.run(_open_to(party, x, to))
    require_macs(party, x.keyring)
    if to != party.rank:
        return None
    party.learn(what, to)
    return decode_signed(opened - known) if party.live else np.zeros_like(opened, dtype=np.int64)


def check_session_for_macs(dealer: bool, audit: bool, shards: int) -> None:
    """Raise ConfigError if the values of a session cannot have MACs."""
    if not dealer:
        raise ConfigError('offline must be "dealer" with MACs, whose tags the dealer makes, got "pairwise"')
    if audit:
        raise ConfigError("a prediction must use MACs or an audit, not both")
    if shards:
        raise ConfigError("MACs must be used with one process at each party: leave out shards")


def require_macs(party: Party, keyring: Keyring) -> None:
    """Raise MacFailure if an opened value does not match its MACs."""
    if not party.run(agree(party, keyring)) and party.live:
        raise MacFailure(
            "the values opened in the prediction do not match their MACs, so no prediction is shown: the other "
            "party, or a hardware fault, changed a value that was sent"
        )


def _open_to(party: Party, x: AuthenticatedShare, to: int) -> Steps[tuple[np.ndarray, Any]]:
    """Authentic [x] -> x + v, which both parties see, and u at the party `to`: x = x + v - u modulo 2^64."""
    u, v, macs = party.randomness.take(ReceiverMask(to, x.shape))
    opened = yield from open_authenticated.steps(party, x + AuthenticatedShare(v, [macs], x.keyring, Z128))
    return opened[..., 0], u
