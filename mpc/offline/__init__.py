"""Correlated randomness: what a protocol needs, described once for all makers; how to make it by transfers."""
