"""Other published systems: `sharewood fed` runs them here, and SecureBoost also between hosts."""
