"""Numba kernels: arrays in, arrays out; no party, and no globals except constant tables."""

from mpc.kernels.compiled import keep_compiled

keep_compiled()
