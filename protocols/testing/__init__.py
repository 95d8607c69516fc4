"""Tools to test and prove protocols: both parties in one process, contract checks, proof by enumeration."""

from protocols.testing.cases import cases
from protocols.testing.contracts import check_cost, check_shape, wire
from protocols.testing.exhaustive import check, declared
from protocols.testing.two_parties import bit_half, opened, ring_half, run_both

__all__ = [
    "bit_half",
    "cases",
    "check",
    "check_cost",
    "check_shape",
    "declared",
    "opened",
    "ring_half",
    "run_both",
    "wire",
]
