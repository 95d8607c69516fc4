"""Two-party additive secret sharing: shares, protocols on shares, numba kernels."""
