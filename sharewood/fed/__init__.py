"""`sharewood fed`: the published systems beside Sharewood's own training, each on this machine."""
