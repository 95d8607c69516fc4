"""Kernels of oblivious transfer: arrays in, arrays out.

Each has a plain twin in numpy or `cryptography`, which replaces it where code is not compiled.
"""

import numba

from mpc.kernels.compiled import keep_compiled

keep_compiled()
# numba sets its configuration as attributes at run time.
COMPILES: bool = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
