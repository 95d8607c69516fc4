"""Numba kernels: arrays in, arrays out; no party, no globals but constant tables."""
