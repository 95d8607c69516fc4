"""Published systems with weaker protection, for comparison: SecureBoost, FedXGBllr and virtual samples."""
