"""`sharewood fed`: the published systems beside Sharewood's own training, with SecureBoost also between hosts."""
