"""Correlated randomness from a trusted dealer (`offline="dealer"`): its process, and a party's end of it."""
