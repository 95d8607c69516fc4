"""Functions of shared numbers: reciprocal, quotient, logarithm, sigmoid."""
