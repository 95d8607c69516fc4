"""`sharewood fed`: the published systems beside Sharewood's own training; SecureBoost between hosts, too."""
