"""Two-party additive secret sharing: shares, protocols on shares, and numba kernels."""
