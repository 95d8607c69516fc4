"""Numba kernels: arrays in, arrays out; no party, no globals but constant tables."""

from mpc.kernels.compiled import keep_compiled

keep_compiled()
