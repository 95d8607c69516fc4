"""SecureBoost: boosting over columns at several parties, with additively homomorphic encryption."""

from protocols.secureboost.config import SecureBoostConfig
from protocols.secureboost.model import GuestModel, HostModel
from protocols.secureboost.parties import Guest, Host

__all__ = ["Guest", "GuestModel", "Host", "HostModel", "SecureBoostConfig"]
