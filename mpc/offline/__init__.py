"""Correlated randomness: what a protocol needs, described once for all who make or plan it; and making it by transfers."""
