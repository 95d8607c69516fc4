"""SecureBoost: boosting over columns at several parties, with additively homomorphic encryption."""

from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.model import GuestModel, HostModel
from protocols.baselines.secureboost.parties import Guest, Host

__all__ = ["Guest", "GuestModel", "Host", "HostModel", "SecureBoostConfig"]
